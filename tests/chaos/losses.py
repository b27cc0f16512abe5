"""What a history allows to be lost: what only the disk held that was struck.  Pure.

A disk is struck once the others hold what was on it at a moment shortly before, and the fault says how long ago that
was.  So what was acknowledged by that peer after that moment may be lost, unless enough members had confirmed it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tests.chaos.history import BEGIN, FAULT, HEAL, OK, Record

MARGIN_S: Final = 0.5  # between an answer and its line in the history


@dataclass(frozen=True, slots=True)
class _Span:
    peer: str
    from_s: float
    to_s: float

    def holds(self, peer: str, at_s: float) -> bool:
        return self.peer == peer and self.from_s <= at_s <= self.to_s


class Losses:
    """What the disk faults of a history may have cost."""

    def __init__(self, records: Sequence[Record]) -> None:
        self._disks = [
            _Span(r.value["disk_of"], r.at_s - r.value["age_s"] - MARGIN_S, r.at_s + MARGIN_S)
            for r in records
            if r.kind == FAULT and "disk_of" in r.value
        ]
        self._twins = _twins(records)

    def may_be_lost(self, end: Record) -> bool:
        """Tell whether what a peer acknowledged may be lost: one disk held it, and that one was struck."""
        if end.kind != OK or (end.what == "store" and "durable_on" not in end.value):
            return False
        return any(span.holds(end.where, end.at_s) for span in self._disks)

    def struck_between(self, peer: str, from_s: float, to_s: float) -> bool:
        """Tell whether a peer may have known less at the end of a time than at its beginning."""
        return any(s.peer == peer and s.to_s >= from_s and s.from_s <= to_s for s in self._disks)

    def may_repeat(self, peer: str, listed_s: float, committed_s: float) -> bool:
        """Tell whether a page may come again unmarked: one disk alone may have held it, or a copy ran beside it."""
        if any(span.holds(peer, at) for span in self._disks for at in (listed_s, committed_s)):
            return True
        return any(s.peer == peer and s.to_s >= listed_s and s.from_s <= committed_s for s in self._twins)


def _twins(records: Sequence[Record]) -> list[_Span]:
    """Return when copies ran; one whose end is not told never ended."""
    spans: list[_Span] = []
    began_s: dict[str, float] = {}
    running: dict[str, tuple[str, float]] = {}  # by fault: the peer, and since when
    for record in records:
        if record.kind == BEGIN:
            began_s[record.what] = record.at_s
        elif record.kind == FAULT and record.value.get("twin"):
            running[record.what] = record.value["targets"][0], began_s.get(record.what, record.at_s)
        elif record.kind == HEAL and record.what in running:
            spans.append(_Span(*running.pop(record.what), record.at_s))
    return [*spans, *(_Span(*begun, float("inf")) for begun in running.values())]
