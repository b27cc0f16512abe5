"""Checks of stores: one key is one memory, acknowledged is durable, what is claimed is true, own stores are found."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from tests.chaos.facts import NEVER, alone, frozen, peers_of, wanted_of, wrong_clocks
from tests.chaos.history import HEAL, OK, Record, pairs
from tests.chaos.losses import Losses, lost_keys
from tests.chaos.pages import pages


def anytime_one_key_is_one_memory(records: Sequence[Record]) -> list[str]:
    """Idempotency: whatever was repeated wherever, one idempotency key names one memory (G2)."""
    nodes = defaultdict[str, set[str]](set)
    for asked, end in pairs(records, "store"):
        if end is not None and end.kind == OK:
            nodes[asked.value["key"]].add(end.value["node"])
    for page in pages(records):
        for entry in page.entries:
            nodes[entry.key].add(entry.node)
    return [
        f"key {key} names {len(ids)} memories: {sorted(ids)}" for key, ids in nodes.items() if len(ids) > 1
    ]


def anytime_late_requests_are_dropped(records: Sequence[Record]) -> list[str]:
    """No ghosts: what came to a peer after its deadline for certain is neither answered `ok` nor in any log.

    For certain: the deadline was over when it was sent, or the peer was frozen from before that until after it.
    """
    clocks_off = [*wrong_clocks(records)]  # a deadline is a moment of the wall clock
    written = {key for r in records if r.what == "seen" for key in r.value["keys"]}
    found = []
    for asked, end in pairs(records, "hurried"):
        key, left_s = asked.value["key"], asked.value["left_s"]
        until_s = asked.at_s + left_s
        done_s = NEVER if end is None else end.at_s
        if any(asked.at_s <= b and a <= done_s for a, b in clocks_off):
            continue
        if left_s >= 0 and not any(a <= asked.at_s and until_s <= b for a, b in frozen(records, asked.where)):
            continue
        if end is not None and end.kind == OK:
            found.append(f"{asked.where} did what was due {-left_s:.1f} s before it came: {key}")
        elif key in written:
            found.append(f"a request that came too late to {asked.where} is in a log: {key}")
    return found


def anytime_durable_on_is_true(records: Sequence[Record]) -> list[str]:
    """Honesty: when all peers were killed at once, at least as many logs hold a store as its answers had claimed (G1).

    A disk that was struck after an answer is allowed for, if what was new then may have been on no other one.
    """
    wanted, losses = wanted_of(records), Losses(records)
    found, claims = [], defaultdict[str, list[tuple[int, float]]](list)  # node: members claimed, when
    for record in records:
        if record.what == "store" and record.kind == OK:
            claims[record.value["node"]].append((_claim(wanted, record), record.at_s))
        if "held" not in record.value:
            continue
        logs = [set(nodes) for nodes in record.value["held"].values()]
        for node, answers in claims.items():
            on = sum(node in nodes for nodes in logs)
            claimed = max(n - losses.members_less(at_s, record.at_s) for n, at_s in answers)
            if on < claimed:
                found.append(
                    f"{node} was said to be on {claimed} peers and is on {on} at {record.at_s:.0f} s"
                )
    return found


def anytime_nobody_alone_claims_more(records: Sequence[Record]) -> list[str]:
    """Honesty: a peer that was cut off before a memory was first tried, and still is, claims itself only (G1)."""
    wanted, cut_off = wanted_of(records), {peer: alone(records, peer) for peer in peers_of(records)}
    tried: set[str] = set()
    found = []
    for asked, end in pairs(records, "store"):
        key = asked.value["key"]
        is_first = key not in tried
        tried.add(key)
        if end is None or end.kind != OK or not is_first:
            continue
        claimed = _claim(wanted, end)
        if claimed > 1 and any(a <= asked.at_s and end.at_s <= b for a, b in cut_off.get(end.where, ())):
            found.append(f"{end.where} was cut off and said that {end.value['node']} is on {claimed} peers")
    return found


def anytime_short_answers_say_so(records: Sequence[Record]) -> list[str]:
    """Honesty: an answer that falls short names how far it got, what was wanted, and that nothing is to be repeated."""
    found = []
    for record in records:
        if record.what != "store" or record.kind != OK or not {"durable_on", "wanted"} & record.value.keys():
            continue
        on, wanted = record.value.get("durable_on"), record.value.get("wanted")
        if on is None or wanted is None or not 1 <= on < wanted or not record.value.get("noted"):
            found.append(f"{record.where} said of {record.value['node']}: on {on} of {wanted} peers")
    return found


def anytime_own_stores_are_found(records: Sequence[Record]) -> list[str]:
    """Session reads: what an agent stored it finds at once on that peer, and on another, or is told `stale` (G13).

    A peer whose disk was struck since may lack it until it was healed, and what it alone may have held for good.
    """
    found, losses, stored_s = [], Losses(records), _acknowledged_s(records)
    for asked, end in pairs(records, "find"):
        if end is None or end.kind != OK or end.value["found"]:
            continue
        key, at, stored_at = asked.value["key"], asked.where, asked.value["stored_at"]
        if at and at == stored_at and not losses.may_lack(at, stored_s.get((key, at), 0.0), asked.at_s):
            found.append(f"{asked.who} stored {key} at {at} and did not find it there")
        elif asked.value["carried"] and not end.value["stale"]:
            found.append(
                f"{asked.who} stored {key} at {stored_at or 'some peer'}, and {at or 'a peer'} had not heard"
            )
    return found


def finally_every_acknowledged_store_is_everywhere(records: Sequence[Record]) -> list[str]:
    """Durable set: what was acknowledged is on every peer, with the text that was sent (G1, G3).

    What may be lost with the one disk that held it is on every peer or on none.
    """
    acknowledged = [(a, e) for a, e in pairs(records, "store") if e is not None and e.kind == OK]
    losses = Losses(records)
    safe = {e.value["node"] for _, e in acknowledged if not losses.may_be_lost(e)}
    stored = {e.value["node"]: a.value["key"] for a, e in acknowledged}
    for record in records:
        if record.kind == HEAL:
            stored |= record.value.get("must_hold", {})
            safe |= record.value.get("must_hold", {}).keys()
    safe |= {node for r in records if r.what == "holds" for node in r.value["keys"]}
    held = {r.where: r.value["keys"] for r in records if r.what == "holds"}
    found = [f"nobody looked what {peer} holds" for peer in peers_of(records) if peer not in held]
    for peer, keys in held.items():
        lost = [node for node, key in stored.items() if node in safe and keys.get(node) != key]
        found += [f"{peer} lacks {node} of key {stored[node]}" for node in lost]
    return found


def finally_memories_are_searched(records: Sequence[Record]) -> list[str]:
    """Convergence of indexes: every peer finds memories by their words and by their meaning (G3)."""
    searched = [r for r in records if r.what == "searched"]
    places, lost = {r.where for r in searched}, lost_keys(records)
    found = [f"nobody searched at {peer}" for peer in peers_of(records) if peer not in places]
    return found + [
        f"{r.where} does not find {key} of {r.who} by {mode}"
        for r in searched
        for key, mode in r.value["missed"]
        if key not in lost
    ]


def _acknowledged_s(records: Sequence[Record]) -> dict[tuple[str, str], float]:
    """Return when each key was first acknowledged at each peer."""
    found: dict[tuple[str, str], float] = {}
    for asked, end in pairs(records, "store"):
        if end is not None and end.kind == OK:
            found.setdefault((asked.value["key"], end.where), end.at_s)
    return found


def _claim(wanted: int, ok: Record) -> int:
    """Return how many members an answer says hold the memory; one that says nothing reached what is wanted."""
    return int(ok.value.get("durable_on", wanted))
