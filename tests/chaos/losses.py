"""What a history allows to be lost: what only the disk held that was struck.  Pure.

A disk is struck once the others hold what was on it at a moment shortly before, and the fault says how long ago that
was.  So what was acknowledged by that peer after that moment may be lost, unless enough members had confirmed it, and
what that peer held it may lack until the fault is healed.  A copy that ran beside its original counted as that peer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tests.chaos.history import BEGIN, FAULT, HEAL, OK, Record, pairs

MARGIN_S: Final = 0.5  # between an answer and its line in the history


@dataclass(frozen=True, slots=True)
class _Span:
    """A time in which one disk alone, or a copy, may have held what was new.

    Args:
        lost_s: when that was lost.
        healed_s: when the peer had caught up again.
    """

    peer: str
    from_s: float
    to_s: float
    lost_s: float
    healed_s: float

    def holds(self, peer: str, at_s: float) -> bool:
        """Tell whether something was done at a peer in this time; an empty name is a peer that a gateway chose."""
        return peer in ("", self.peer) and self.from_s <= at_s <= self.to_s


class Losses:
    """What the disk faults of a history may have cost."""

    def __init__(self, records: Sequence[Record]) -> None:
        self._disks = _disks(records)
        self._twins = _twins(records)
        self._aside = _aside(records)

    def may_be_lost(self, end: Record) -> bool:
        """Tell whether what a peer acknowledged may be lost.

        One disk held it, and that one was struck; or a gateway chose a peer that was retired and had not heard of it.
        """
        if end.kind == OK and any(span.holds(end.where, end.at_s) for span in self._aside):
            return True
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
        twins = (s for s in self._twins if peer in ("", s.peer))
        return any(s.to_s >= listed_s and s.from_s <= committed_s for s in twins)

    def members_less(self, acknowledged_s: float, until_s: float) -> int:
        """Return how many members that were said to hold a memory may have lost it until some moment."""
        spans = [*self._disks, *self._twins]
        return len({s.peer for s in spans if s.from_s <= acknowledged_s <= s.to_s and s.lost_s <= until_s})

    def may_be_gone(self, peer: str, seen_s: float) -> bool:
        """Tell whether what was seen on a disk may never be seen again."""
        return any(span.holds(peer, seen_s) for span in self._disks)

    def is_behind(self, peer: str, at_s: float) -> bool:
        """Tell whether a peer whose disk was struck may not have caught up yet with what it knew."""
        return any(s.peer == peer and s.lost_s <= at_s <= s.healed_s + MARGIN_S for s in self._disks)

    def may_lack(self, peer: str, stored_s: float, asked_s: float) -> bool:
        """Tell whether a peer may not have found what was stored at it: its disk was struck since."""
        return any(
            s.peer == peer and s.to_s >= stored_s and (s.from_s <= stored_s or asked_s <= s.healed_s)
            for s in self._disks
        )


def lost_keys(records: Sequence[Record]) -> set[str]:
    """Return the idempotency keys of memories that may be lost with a disk and that no peer holds in the end."""
    losses = Losses(records)
    ends = [(a.value["key"], e) for a, e in pairs(records, "store") if e is not None and e.kind == OK]
    safe = {key for key, end in ends if not losses.may_be_lost(end)}
    held = {key for r in records if r.what == "holds" for key in r.value["keys"].values()}
    return {key for key, _ in ends} - safe - held


def _disks(records: Sequence[Record]) -> list[_Span]:
    """Return in which time each disk that was struck held new things alone; one that is not healed stays so."""
    spans: list[_Span] = []
    for number, struck in enumerate(records):
        if struck.kind != FAULT or "disk_of" not in struck.value:
            continue
        heals = (r.at_s for r in records[number:] if r.kind == HEAL and r.what == struck.what)
        from_s = struck.at_s - struck.value["age_s"] - MARGIN_S
        peer, healed_s = struck.value["disk_of"], next(heals, float("inf"))
        spans.append(_Span(peer, from_s, struck.at_s + MARGIN_S, struck.at_s, healed_s))
    return spans


def _aside(records: Sequence[Record]) -> list[_Span]:
    """Return when a member that was retired stored what is kept aside, or came too late to count."""
    spans: list[_Span] = []
    for healed in records:
        if healed.kind == HEAL and "aside_s" in healed.value:
            from_s, to_s = healed.at_s - healed.value["aside_s"] - MARGIN_S, healed.at_s
            spans.append(_Span(healed.value["targets"][0], from_s, to_s, to_s, to_s))
    return spans


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
            spans.append(_Span(*running.pop(record.what), *[record.at_s] * 3))
    return [*spans, *(_Span(*begun, *[float("inf")] * 3) for begun in running.values())]
