"""Checks of logs as they lie on disk, and of whole peers: streams, heads, hashes, service after a heal.

What injector and observer saw of a log that nobody had open is in `held` and `chains` (see `looking`): a chain is the
hashes of a stream's events, each cut to `CHAIN_CHARS`, one after the other.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from tests.chaos.facts import last_heal, peers_of
from tests.chaos.history import FAULT, OK, Record
from tests.chaos.losses import Losses

SERVES_WITHIN_S: Final = 30.0
DELIVERS_WITHIN_S: Final = 60.0
HEARS_WITHIN_S: Final = 30.0
CHAIN_CHARS: Final = 8
HOLE: Final = "." * CHAIN_CHARS


def anytime_one_place_holds_one_event(records: Sequence[Record]) -> list[str]:
    """Streams: no two hashes for one (stream, sequence), on any disk at any time (G10)."""
    longest: dict[str, str] = {}
    found = []
    for where, stream, chain in _chains(records):
        known = longest.get(stream, "")
        short, long = sorted((known, chain), key=len)
        if HOLE not in chain and not long.startswith(short):
            found.append(f"{stream} has two histories; one of them is on {where}")
        longest[stream] = long
    return found


def anytime_streams_have_no_holes(records: Sequence[Record]) -> list[str]:
    """Streams: what a peer keeps of a stream is all of it up to some place (G3)."""
    return [
        f"{where} holds {stream} with a hole at {chain.index(HOLE) // CHAIN_CHARS + 1}"
        for where, stream, chain in _chains(records)
        if HOLE in chain
    ]


def anytime_an_epoch_is_opened_once(records: Sequence[Record]) -> list[str]:
    """Streams: one process life writes one stream: its first event opens it, and no other does (G10)."""
    return [
        f"{where} holds {stream} with openings at {places}"
        for record in records
        for where, openings in record.value.get("openings", {}).items()
        for stream, places in openings.items()
        if places != [1]
    ]


def finally_nothing_seen_in_a_log_is_gone(records: Sequence[Record]) -> list[str]:
    """Streams: what a disk held when everybody was dead, some disk holds in the end (G1).

    What it alone may have held when it was struck is allowed for.
    """
    losses = Losses(records)
    seen, at_end = defaultdict[str, int](int), defaultdict[str, int](int)
    for record in records:
        longest = at_end if record.what == "seen" else seen
        for peer, chains in record.value.get("chains", {}).items():
            for stream, chain in chains.items() if not losses.may_be_gone(peer, record.at_s) else ():
                longest[stream] = max(longest[stream], len(chain) // CHAIN_CHARS)
    if not at_end:
        return ["nobody looked into the logs in the end"]
    return [
        f"{stream} had {length} events and has {at_end[stream]}"
        for stream, length in seen.items()
        if at_end[stream] < length
    ]


def finally_state_hashes_agree(records: Sequence[Record]) -> list[str]:
    """Convergence: equal logs fold to equal states (G3)."""
    return _agree(records, "state_hash")


def finally_streams_agree(records: Sequence[Record]) -> list[str]:
    """Streams: every peer holds the same streams, of the same length, with the same heads (G3, G10)."""
    return _agree(records, "streams")


def finally_logs_verify(records: Sequence[Record]) -> list[str]:
    """Streams: every hash is as written (G9)."""
    logs = {r.where: r.value for r in records if r.what == "log"}
    found = [f"nobody verified the log of {peer}" for peer in peers_of(records) if peer not in logs]
    return found + [f"the log of {peer} does not verify" for peer, value in logs.items() if not value["ok"]]


def anytime_somebody_serves(records: Sequence[Record]) -> list[str]:
    """Liveness: no 30 s without a success while not everything was taken down."""
    found, total = [], False
    last = next((r.at_s for r in records if r.kind == OK), 0.0)  # what was started before that took its time
    for record in records:
        total = total or (record.kind == FAULT and bool(record.value.get("total")))
        if record.kind == OK:
            if record.at_s - last > SERVES_WITHIN_S and not total:
                found.append(f"nobody was served from {last:.0f} s to {record.at_s:.0f} s")
            last, total = record.at_s, False
    return found


def eventually_every_peer_serves(records: Sequence[Record]) -> list[str]:
    """Liveness: within 30 s of the last heal each peer takes a store."""
    healed = last_heal(records)
    served: dict[str, float] = {}
    for record in records:
        is_probe = record.kind == OK and record.who == "observer" and record.what == "store"
        if is_probe and record.at_s >= healed:
            served.setdefault(record.where, record.at_s - healed)
    late = [
        f"{p} took its first store {served[p]:.0f} s after the heal"
        for p in served
        if served[p] > SERVES_WITHIN_S
    ]
    return [f"{p} took no store after the last heal" for p in peers_of(records) if p not in served] + late


def eventually_every_peer_hears(records: Sequence[Record]) -> list[str]:
    """Liveness: nobody is deaf: within 30 s of the last heal each peer has what was then stored at each other one."""
    healed = last_heal(records)
    heard = {(r.where, r.value["from"]): r.at_s - healed for r in records if r.what == "heard"}
    found = []
    for peer in peers_of(records):
        for other in peers_of(records):
            after_s = heard.get((peer, other))
            if after_s is None:
                found.append(f"{peer} never heard what was stored at {other} after the heal")
            elif after_s > HEARS_WITHIN_S:
                found.append(f"{peer} heard {after_s:.0f} s after the heal what was stored at {other}")
    return found


def eventually_everything_is_delivered(records: Sequence[Record]) -> list[str]:
    """Delivery: within 60 s of the last heal all is settled and every reader at its end."""
    healed = last_heal(records)
    ends = [r.at_s for r in records if r.what == "drained"]
    if not ends:
        return ["the readers never came to their ends"]
    took = max(ends) - healed
    return [f"the last reader was at its end {took:.0f} s after the heal"] if took > DELIVERS_WITHIN_S else []


def _chains(records: Sequence[Record]) -> Iterator[tuple[str, str, str]]:
    """Yield (peer, stream, chain) of every look at a log."""
    for record in records:
        looks: Mapping[str, Mapping[str, str]] = record.value.get("chains", {})
        for where, chains in looks.items():
            for stream, chain in chains.items():
                yield where, stream, chain


def _agree(records: Sequence[Record], member: str) -> list[str]:
    values = {r.where: r.value[member] for r in records if r.what == "log"}
    found = [f"nobody looked at the {member} of {peer}" for peer in peers_of(records) if peer not in values]
    if len({repr(value) for value in values.values()}) > 1:
        found.append(
            f"{member} differ: " + "; ".join(f"{p}: {str(v)[:200]}" for p, v in sorted(values.items()))
        )
    return found
