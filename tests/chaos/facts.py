"""Plain facts of a run that several checks need: who was there, what was wanted, what was broken when.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from tests.chaos.history import BEGIN, FAULT, HEAL, NOTE, Record

CUT_OFF = ("cut_off_one", "cut_off_each")
HEALING = "healing"  # noted before the first heal of what was played together
NEVER = float("inf")
MOMENT_S = 0.2  # from the word to a proxy until nothing passes any more


def peers_of(records: Iterable[Record]) -> list[str]:
    """Return the peers of the cluster."""
    return [p for r in records if r.kind == NOTE and r.what == "peers" for p in r.value["names"]]


def wanted_of(records: Iterable[Record]) -> int:
    """Return how many members have to hold a store before it is answered."""
    return next((int(r.value.get("w", 1)) for r in records if r.what == "peers"), 1)


def last_heal(records: Iterable[Record]) -> float:
    """Return from when on nothing was broken any more."""
    return max((r.at_s for r in records if r.kind == HEAL), default=0.0)


def frozen(records: Sequence[Record], peer: str) -> list[tuple[float, float]]:
    """Return when a peer was surely paused."""
    return [
        (struck.at_s, healing)
        for struck, healing in _strikes(records)
        if struck.what == "pause_peer" and peer in struck.value["targets"]
    ]


def wrong_clocks(records: Iterable[Record]) -> Iterator[tuple[float, float]]:
    """Yield when a clock may have been wrong."""
    began: dict[str, float] = {}
    for record in records:
        if record.what.startswith("clock"):
            if record.kind == BEGIN:
                began[record.what] = record.at_s
            elif record.kind == FAULT:
                began.setdefault(record.what, record.at_s)
            elif record.kind == HEAL and record.what in began:
                yield began.pop(record.what), record.at_s
    yield from ((since, NEVER) for since in began.values())


def alone(records: Sequence[Record], peer: str) -> list[tuple[float, float]]:
    """Return when a peer was surely cut off from all others: by a fault that was played alone."""
    together = list(_played_together(records))
    return [
        (struck.at_s + MOMENT_S, healing)
        for struck, healing in _strikes(records)
        if struck.what in CUT_OFF and peer in struck.value["targets"] and struck.at_s not in together
    ]


def _strikes(records: Sequence[Record]) -> Iterator[tuple[Record, float]]:
    """Yield each fault with the moment until which it lasted for certain."""
    under_way: list[Record] = []
    for record in records:
        if record.kind == FAULT:
            under_way.append(record)
        elif record.what == HEALING:
            yield from ((struck, record.at_s) for struck in under_way)
            under_way = []


def _played_together(records: Sequence[Record]) -> Iterator[float]:
    """Yield the moments of faults that met others."""
    began, struck = 0, list[float]()
    for record in records:
        if record.kind == BEGIN:
            began += 1
        elif record.kind == FAULT:
            struck.append(record.at_s)
        elif record.what == HEALING:
            yield from struck if began > 1 else ()
            began, struck = 0, []
