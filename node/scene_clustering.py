"""Which cells belong together: thresholded k-medoids over whole numbers, grown from what was there before.  Pure.

Three steps repeat until none changes anything: cells move to the middle that they fit best, new groups are
made of cells that are left, groups take a better middle.  Each step raises the sum of all scores between
members and their middles, so they end, and where they end a second run changes nothing.  No group falls below
the least size by a move.  Nothing here knows what a cell says; rows come in a fixed order (HLC, cell id).

Source: seeding by the fullest neighbourhood, Butina, "Unsupervised Data Base Clustering Based on Daylight's
Fingerprint and Tanimoto Similarity", J. Chem. Inf. Comput. Sci. 39 (1999) 747; moving and re-centring, Park and
Jun, "A simple and fast algorithm for K-medoids clustering", Expert Syst. Appl. 36 (2009) 3336.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from proto.limits import SCENE_LEAST
from proto.scoring import Floats, Ints, Longs, matches

Bytes = npt.NDArray[np.int8]
Progress = Callable[[int, int], None]
"""Told (rows compared, of how many) after each bounded step; what it raises ends the work."""

LEAST: Final = SCENE_LEAST
ROWS: Final = 512  # compared with COLUMNS at once: about 75 MB where everything is alike
COLUMNS: Final = 4_096
NEIGHBOURS: Final = 64  # remembered of each cell that is left: bounds memory, not the size of a group
MIDDLES: Final = 1_000  # members that may become the middle of a group: bounds work in huge groups
ROUNDS: Final = 200  # 4 to 9 were seen; what would be left then is done by the next run

_SCORE_BITS, _ROW_BITS = 20, 28


@dataclass(frozen=True, slots=True)
class Points:
    """Vectors of one embedding space in their fixed order.

    Args:
        values: int8[n, dim]; norms: int64[n], sums of squares, above 0.
    """

    values: Bytes
    norms: Longs

    def __len__(self) -> int:
        return len(self.norms)

    def floats(self, rows: Longs) -> Floats:
        return self.values[rows].astype(np.float32)


@dataclass(frozen=True, slots=True)
class Former:
    """A group as it was: the rows that are still there, and its middle unless that is gone."""

    middle: int | None
    members: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """A group as it is.

    Args:
        middle: the member that all others were compared with.
        members: ascending rows, the middle among them.
        former: which of the former groups it continues; None for a new one.
    """

    middle: int
    members: tuple[int, ...]
    former: int | None


def cluster(
    points: Points,
    former: Sequence[Former],
    threshold: int,
    progress: Progress = lambda _done, _total: None,
) -> list[Group]:
    """Group rows; each is in one group at most, and scores at least the threshold with its middle.

    Args:
        former: groups of the last run, no row in two of them; those that have become too small end.
        threshold: ten-thousandths of cosine, above 0.

    Returns:
        Groups by their middle's row.
    """
    assert threshold > 0, threshold
    return _Clustering(points, threshold, progress).run(former)


class _Clustering:
    """The state of one run: which group each row is in, and how well it fits its middle."""

    def __init__(self, points: Points, threshold: int, progress: Progress) -> None:
        self._points, self._threshold, self._progress = points, threshold, progress
        self._home = np.full(len(points), -1, dtype=np.int64)
        self._fit = np.zeros(len(points), dtype=np.int64)  # score with the middle; 0 for rows that are left
        self._middles: list[int] = []
        self._former: list[int | None] = []
        self._settled: list[
            bool
        ] = []  # whether the group has had no other members since its middle was chosen
        self._compared = 0

    def run(self, former: Sequence[Former]) -> list[Group]:
        for number, group in enumerate(former):
            self._begin(number, group)
        for _ in range(ROUNDS):
            moved, made, centred = self._move(), self._make(), self._centre()
            if not (moved or made or centred):
                break
        groups = [
            Group(middle, tuple(np.flatnonzero(self._home == number).tolist()), self._former[number])
            for number, middle in enumerate(self._middles)
        ]
        return sorted(groups, key=lambda g: g.middle)

    def _begin(self, number: int, group: Former) -> None:
        members = np.array(sorted(group.members), dtype=np.int64)
        if len(members) < LEAST:
            return
        middle = group.middle
        if middle is None:
            middle, total = self._best_middle(members)
            if total == 0:
                return
        rows, fits = self._alike(middle, members)
        if len(rows) >= LEAST:
            self._settle(self._open(middle, number), rows, fits)

    def _open(self, middle: int, former: int | None) -> int:
        self._middles.append(middle)
        self._former.append(former)
        self._settled.append(False)
        return len(self._middles) - 1

    def _settle(self, number: int, rows: Longs, fits: Longs) -> None:
        self._home[rows], self._fit[rows] = number, fits
        self._settled[number] = False

    # -- moving

    def _move(self) -> bool:
        """Move each row to the middle that it fits best, if that is better than where it is."""
        if not self._middles:
            return False
        middles = np.array(self._middles, dtype=np.int64)
        by_row = np.argsort(middles)  # of equal fits the earlier middle
        sizes = np.bincount(self._home[self._home >= 0], minlength=len(middles))
        moved = False
        for rows in _blocks(np.arange(len(self._points), dtype=np.int64), ROWS):
            best, column = self._nearest(rows, middles[by_row])
            for at in np.flatnonzero(best > self._fit[rows]).tolist():
                row, home, new = int(rows[at]), int(self._home[rows[at]]), int(by_row[column[at]])
                if home >= 0 and sizes[home] <= LEAST:
                    continue  # a move must not break up what it leaves
                if home >= 0:
                    sizes[home] -= 1
                    self._settled[home] = False
                sizes[new] += 1
                self._settle(new, np.array([row]), np.array([best[at]], dtype=np.int64))
                moved = True
        return moved

    def _nearest(self, rows: Longs, middles: Longs) -> tuple[Longs, Longs]:
        """Return per row the highest score with any of the middles, 0 for none, and the first that has it."""
        best, column = np.zeros(len(rows), dtype=np.int64), np.zeros(len(rows), dtype=np.int64)
        for start, hits in self._hits(rows, middles):
            at, found, scores = hits
            keys = np.sort(_keys(at, found + start, scores))
            lead, which, score = _unpack(keys)
            first = np.flatnonzero(np.diff(lead, prepend=-1))
            better = score[first] > best[lead[first]]
            chosen = first[better]
            best[lead[chosen]], column[lead[chosen]] = score[chosen], which[chosen]
        return best, column

    # -- making

    def _make(self) -> bool:
        """Make groups of rows that are in none, the fullest neighbourhood first."""
        free = np.flatnonzero(self._home < 0)
        if len(free) < LEAST:
            return False
        near, counts, sums = self._neighbourhoods(free)
        made = False
        for at in np.lexsort((free, -sums, -counts)).tolist():
            if counts[at] < LEAST - 1:
                break
            row, listed = int(free[at]), free[near[at, : counts[at]]]
            if self._home[row] >= 0 or np.count_nonzero(self._home[listed] < 0) < LEAST - 1:
                continue
            around = free if counts[at] == NEIGHBOURS else np.append(listed, row)
            rows, fits = self._alike(row, around[self._home[around] < 0])
            self._settle(self._open(row, None), rows, fits)
            made = True
        return made

    def _neighbourhoods(self, free: Longs) -> tuple[npt.NDArray[np.int32], Longs, Longs]:
        """Return per free row the places of its nearest others in `free`, their number, the sum of their scores."""
        near = np.zeros((len(free), NEIGHBOURS), dtype=np.int32)
        counts, sums = np.zeros(len(free), dtype=np.int64), np.zeros(len(free), dtype=np.int64)
        for places in _blocks(np.arange(len(free), dtype=np.int64), ROWS):
            keys = np.zeros(0, dtype=np.int64)
            for start, (at, found, scores) in self._hits(free[places], free):
                other = found + start != places[at]
                fresh = _keys(at[other], found[other] + start, scores[other])
                keys = _first_of_each(np.sort(np.concatenate([keys, fresh])))
            lead, place, score = _unpack(keys)
            rank = np.arange(len(keys)) - np.searchsorted(lead, lead)
            near[places[lead], rank] = place
            counts[places] = np.bincount(lead, minlength=len(places))
            sums[places] = np.bincount(lead, weights=score, minlength=len(places)).astype(np.int64)
            self._compared = min(len(self._points), self._compared + len(places))
        return near, counts, sums

    # -- re-centring

    def _centre(self) -> bool:
        """Give groups that have changed the middle that their members fit best."""
        changed = False
        for number, middle in enumerate(self._middles):
            if self._settled[number]:
                continue
            self._settled[number] = True
            members = np.flatnonzero(self._home == number)
            better, total = self._best_middle(members)
            if total <= int(self._fit[members].sum()) or better == middle:
                continue
            rows, fits = self._alike(better, members)
            self._home[members], self._fit[members] = -1, 0
            self._middles[number] = better
            self._settle(number, rows, fits)
            changed = True
        return changed

    def _best_middle(self, members: Longs) -> tuple[int, int]:
        """Return the member with the highest sum of scores that keeps enough others, and the sum; 0 if none."""
        candidates = members[:MIDDLES]
        totals, kept = np.zeros(len(candidates)), np.zeros(len(candidates), dtype=np.int64)
        for block in _blocks(np.arange(len(candidates), dtype=np.int64), ROWS):
            for _, (at, _found, scores) in self._hits(candidates[block], members):
                totals[block] += np.bincount(at, weights=scores, minlength=len(block))
                kept[block] += np.bincount(at, minlength=len(block))
        totals[kept < LEAST] = 0
        best = int(np.argmax(totals))
        return int(candidates[best]), int(totals[best])

    # -- comparing

    def _alike(self, row: int, others: Longs) -> tuple[Longs, Longs]:
        """Return those of other rows that reach the threshold with one row, and their scores."""
        found = [
            (others[start + columns], scores.astype(np.int64))
            for start, (_, columns, scores) in self._hits(np.array([row]), others)
        ]
        return np.concatenate([r for r, _ in found]), np.concatenate([s for _, s in found])

    def _hits(self, rows: Longs, others: Longs) -> Iterator[tuple[int, tuple[Longs, Longs, Ints]]]:
        """Yield (start in `others`, pairs from there that reach the threshold), COLUMNS at a time."""
        values, norms = self._points.floats(rows), self._points.norms[rows]
        none = np.zeros(len(rows), dtype=np.int32)
        for start in range(0, len(others), COLUMNS):
            chunk = others[start : start + COLUMNS]
            thresholds = np.full(len(chunk), self._threshold, dtype=np.int32)
            chunk_norms = self._points.norms[chunk]
            yield start, matches(values, norms, self._points.floats(chunk), chunk_norms, thresholds, none)
            self._progress(self._compared, len(self._points))


def _blocks(items: Longs, size: int) -> Iterator[Longs]:
    for start in range(0, len(items), size):
        yield items[start : start + size]


def _keys(lead: Longs, other: Longs, scores: Ints) -> Longs:
    """Return numbers that sort by lead row, then falling score, then the other row."""
    falling: Longs = (2**_SCORE_BITS - 1) - scores.astype(np.int64)
    keys: Longs = (lead << (_SCORE_BITS + _ROW_BITS)) | (falling << _ROW_BITS) | other
    return keys


def _unpack(keys: Longs) -> tuple[Longs, Longs, Longs]:
    """Return (lead, other, score) of `_keys`."""
    falling = (keys >> _ROW_BITS) & (2**_SCORE_BITS - 1)
    return keys >> (_SCORE_BITS + _ROW_BITS), keys & (2**_ROW_BITS - 1), (2**_SCORE_BITS - 1) - falling


def _first_of_each(keys: Longs) -> Longs:
    """Return the first NEIGHBOURS of each lead row; the keys are sorted."""
    lead = keys >> (_SCORE_BITS + _ROW_BITS)
    kept: Longs = keys[np.arange(len(keys)) - np.searchsorted(lead, lead) < NEIGHBOURS]
    return kept
