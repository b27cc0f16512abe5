"""What must hold of any history, whatever was done to the mesh.  Pure: records in, sentences about violations out.

Names say when a check must hold: `anytime_` at every moment, `eventually_` within a bound after the last heal,
`finally_` once everything has settled and every reader has drained to the end.  `test_checkers.py` shows each of
them failing on a history with its fault in it.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from tests.chaos.expecting import Expecting, Page, pages
from tests.chaos.history import FAULT, HEAL, INVOKE, NOTE, OK, UNKNOWN, Record, pairs
from tests.chaos.losses import Losses

SERVES_WITHIN_S: Final = 30.0
DELIVERS_WITHIN_S: Final = 60.0
SHOWN: Final = 5
MOMENT_EVENTS: Final = 10

Check = Callable[[Sequence[Record]], list[str]]
_CANARY = re.compile(r"canary-(tenant|owner)-([a-z]+)")


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


def anytime_nothing_leaks(records: Sequence[Record]) -> list[str]:
    """Isolation canary: no reply holds a word of another tenant's, or of another owner's private project (G7)."""
    facts = {r.who: r.value for r in records if r.what == "agent"}
    found = []
    for record in records:
        if record.kind == OK and record.who in facts:
            for kind, of in _CANARY.findall(" ".join(record.value.get("canaries", ()))):
                if facts[record.who][kind] != of:
                    found.append(f"{record.who} got a word of {kind} {of} by {record.what} at {record.where}")
    return found


def anytime_no_unmarked_repeat(records: Sequence[Record]) -> list[str]:
    """Cursor: what was on a committed page does not come again at that peer without `may_repeat` (G6)."""
    committed = defaultdict[tuple[str, str], dict[str, str]](dict)  # reader, peer: diff -> cursor of its page
    found, losses = [], Losses(records)
    for page in pages(records):
        before = committed[page.reader, page.where]
        if not page.may_repeat:
            again = [e for e in page.entries if e.diff in before]
            found += [f"{page.reader} got {e.diff} again at {page.where}, unmarked" for e in again]
        for earlier in page.committed_here:
            if not losses.may_repeat(page.where, earlier.at_s, page.at_s):
                before.update({e.diff: earlier.cursor for e in earlier.entries})
    return found


def anytime_no_page_lists_twice(records: Sequence[Record]) -> list[str]:
    """One entry per reader and diff on a page (G6)."""
    found = []
    for page in pages(records):
        twice = [d for d, n in Counter(e.diff for e in page.entries).items() if n > 1]
        found += [f"{page.reader}: {diff} twice on one page" for diff in twice]
    return found


def anytime_only_matches_are_listed(records: Sequence[Record]) -> list[str]:
    """Total queue, the other half: nothing is listed that no beacon of the agent asked for, nor its own (G4)."""
    expecting = Expecting(records)
    found = []
    for page in pages(records):
        for entry in page.entries:
            wrong = expecting.why_not(page.who, entry)
            if wrong:
                found.append(f"{page.reader} was listed {entry.diff}: {wrong}")
    return found


def anytime_somebody_serves(records: Sequence[Record]) -> list[str]:
    """Liveness: no 30 s without a success, once somebody asks, while not everything was taken down."""
    asked = (r.at_s for r in records if r.kind == INVOKE)  # before that the cluster is brought up
    found, last, total = [], next(asked, 0.0), False
    for record in records:
        total = total or (record.kind == FAULT and bool(record.value.get("total")))
        if record.kind == OK:
            if record.at_s - last > SERVES_WITHIN_S and not total:
                found.append(f"nobody was served from {last:.0f} s to {record.at_s:.0f} s")
            last, total = record.at_s, False
    return found


def eventually_every_peer_serves(records: Sequence[Record]) -> list[str]:
    """Liveness: within 30 s of the last heal each peer takes a store."""
    healed = _last_heal(records)
    served: dict[str, float] = {}
    for record in records:
        if (
            record.at_s >= healed
            and record.kind == OK
            and record.who == "observer"
            and record.what == "store"
        ):
            served.setdefault(record.where, record.at_s - healed)
    peers = _peers(records)
    late = [
        f"{p} took its first store {served[p]:.0f} s after the heal"
        for p in served
        if served[p] > SERVES_WITHIN_S
    ]
    return [f"{p} took no store after the last heal" for p in peers if p not in served] + late


def eventually_everything_is_delivered(records: Sequence[Record]) -> list[str]:
    """Delivery: within 60 s of the last heal all is settled and every reader at its end."""
    healed = _last_heal(records)
    ends = [r.at_s for r in records if r.what == "drained"]
    if not ends:
        return ["the readers never came to their ends"]
    took = max(ends) - healed
    return [f"the last reader was at its end {took:.0f} s after the heal"] if took > DELIVERS_WITHIN_S else []


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
            stored |= record.value.get("stored", {})
            safe |= record.value.get("stored", {}).keys()
    safe |= {node for r in records if r.what == "holds" for node in r.value["keys"]}
    held = {r.where: r.value["keys"] for r in records if r.what == "holds"}
    found = [f"nobody looked what {peer} holds" for peer in _peers(records) if peer not in held]
    for peer, keys in held.items():
        lost = [node for node, key in stored.items() if node in safe and keys.get(node) != key]
        found += [f"{peer} lacks {node} of key {stored[node]}" for node in lost]
    return found


def finally_every_match_was_listed(records: Sequence[Record]) -> list[str]:
    """Inbox total queue and cursor skip: each reader was listed everything that it had to be (G4, G5)."""
    expecting = Expecting(records)
    listed = defaultdict[str, set[str]](set)
    for page in pages(records):
        listed[page.reader].update(e.key for e in page.entries)
    found = []
    for reader in expecting.readers():
        missed = expecting.due(reader) - listed[reader.name]
        found += [f"{reader.name} was never listed the memory of key {key}" for key in sorted(missed)]
    return found


def finally_every_session_is_there(records: Sequence[Record]) -> list[str]:
    """Durable set: a session that was opened is known everywhere, unless one disk held it and was struck (G1)."""
    losses = Losses(records)
    opened = {f"{r.who}/{r.value['session']}": r for r in records if r.what == "open" and r.kind == OK}
    return [
        f"{r.value['reader']} is known nowhere"
        for r in records
        if r.what == "gone" and not losses.may_be_lost(opened[r.value["reader"]])
    ]


def anytime_damage_is_never_served(records: Sequence[Record]) -> list[str]:
    """Damaged files: whoever starts on them serves what is sound, or does not start and says why (G9)."""
    return [wrong for r in records if r.kind == HEAL for wrong in r.value.get("wrong", ())]


def eventually_faults_show(records: Sequence[Record]) -> list[str]:
    """A fault that was not seen to act proves nothing: its signs are there by the time it is healed (G9, G10, G12)."""
    found = []
    due: dict[str, set[str]] = {}
    for record in records:
        if record.kind == FAULT:
            due[record.what] = set(record.value.get("must_show", ()))
        elif record.kind == HEAL:
            missed = due.pop(record.what, set()) - set(record.value.get("signs", ()))
            found += [
                f"{record.what} of {record.value.get('targets')}: not {sign}" for sign in sorted(missed)
            ]
    return found + [f"{what} was never healed" for what, signs in due.items() if signs]


def finally_state_hashes_agree(records: Sequence[Record]) -> list[str]:
    """Convergence: equal logs fold to equal states (G3)."""
    return _agree(records, "state_hash")


def finally_streams_agree(records: Sequence[Record]) -> list[str]:
    """Streams: every peer holds the same streams, of the same length, with the same heads (G3, G10)."""
    return _agree(records, "streams")


def finally_logs_verify(records: Sequence[Record]) -> list[str]:
    """Streams: every hash is as written (G9)."""
    logs = {r.where: r.value for r in records if r.what == "log"}
    found = [f"nobody verified the log of {peer}" for peer in _peers(records) if peer not in logs]
    return found + [f"the log of {peer} does not verify" for peer, value in logs.items() if not value["ok"]]


CHECKS: Final[Mapping[str, Check]] = {
    check.__name__: check
    for check in (
        anytime_one_key_is_one_memory,
        anytime_nothing_leaks,
        anytime_no_unmarked_repeat,
        anytime_no_page_lists_twice,
        anytime_only_matches_are_listed,
        anytime_somebody_serves,
        eventually_every_peer_serves,
        eventually_everything_is_delivered,
        finally_every_acknowledged_store_is_everywhere,
        finally_every_match_was_listed,
        finally_every_session_is_there,
        anytime_damage_is_never_served,
        eventually_faults_show,
        finally_state_hashes_agree,
        finally_streams_agree,
        finally_logs_verify,
    )
}


def violations(records: Sequence[Record]) -> dict[str, list[str]]:
    """Return what each check found; checks that found nothing are left out."""
    found = {name: check(records) for name, check in CHECKS.items()}
    return {name: sentences for name, sentences in found.items() if sentences}


def figures(records: Sequence[Record]) -> dict[str, Any]:
    """Return how much was done and seen in a run."""
    ends = Counter(r.kind for r in records if r.op and r.kind in (OK, "fail", UNKNOWN))
    all_pages: list[Page] = list(pages(records))
    drained = [r.at_s for r in records if r.what == "drained"]
    return {
        "operations": dict(ends),
        "stores": sum(end is not None and end.kind == OK for _, end in pairs(records, "store")),
        "listed": sum(len(p.entries) for p in all_pages),
        "repeats_marked": _repeats(all_pages, marked=True),
        "repeats_unmarked_elsewhere": _repeats(all_pages, marked=False),
        "faults": dict(Counter(r.what for r in records if r.kind == FAULT)),
        "signs": dict(Counter(s for r in records if r.kind == HEAL for s in r.value.get("signs", ()))),
        "events_lost_with_disks": sum(r.value.get("events_lost", 0) for r in records if r.kind == HEAL),
        "may_be_lost": _possible_losses(records),
        "struck": sum(len(r.value.get("targets", ())) for r in records if r.kind == FAULT),
        "seen_apart": sum(
            _apart(r.value["events"]) for r in records if r.kind == HEAL and "events" in r.value
        ),
        "healed_to_delivered_s": round(max(drained) - _last_heal(records), 1) if drained else None,
    }


def _possible_losses(records: Sequence[Record]) -> int:
    """Return how many memories one disk alone held when it was struck."""
    losses = Losses(records)
    return sum(r.what == "store" and losses.may_be_lost(r) for r in records)


def _repeats(all_pages: Iterable[Page], *, marked: bool) -> int:
    seen = defaultdict[str, set[str]](set)
    count = 0
    for page in all_pages:
        again = sum(e.diff in seen[page.reader] for e in page.entries)
        count += again if page.may_repeat == marked else 0
        seen[page.reader].update(e.diff for e in page.entries)
    return count


def _apart(events: Sequence[int | None]) -> bool:
    """Tell whether a fault showed: a peer did not answer, or lacked more than a moment's events."""
    known = [n for n in events if n is not None]
    return len(known) < len(events) or max(known) - min(known) > MOMENT_EVENTS


def _agree(records: Sequence[Record], member: str) -> list[str]:
    values = {r.where: r.value[member] for r in records if r.what == "log"}
    found = [f"nobody looked at the {member} of {peer}" for peer in _peers(records) if peer not in values]
    if len({repr(value) for value in values.values()}) > 1:
        found.append(
            f"{member} differ: " + "; ".join(f"{p}: {str(v)[:200]}" for p, v in sorted(values.items()))
        )
    return found


def _peers(records: Sequence[Record]) -> list[str]:
    return [p for r in records if r.kind == NOTE and r.what == "peers" for p in r.value["names"]]


def _last_heal(records: Sequence[Record]) -> float:
    return max((r.at_s for r in records if r.kind == HEAL), default=0.0)
