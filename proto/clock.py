"""Hybrid logical clock: display order and tie-breaks, never delivery.

Pure: wall time is an argument.  Source: Kulkarni et al., "Logical Physical Clocks" (2014), with a bound on
how far a remote clock may lead, so that one fast clock cannot drag a mesh along.
"""

from __future__ import annotations

from typing import NamedTuple

from proto.limits import REMOTE_CLOCK_LEAD_MS


class Hlc(NamedTuple):
    """A reading: wall milliseconds since 1970 UTC, and a counter within one millisecond."""

    wall_ms: int
    counter: int


ZERO = Hlc(0, 0)
COUNTER_MAX = 2**32  # beyond it the next millisecond is borrowed: every reading fits a header


def tick(last: Hlc, wall_ms: int) -> Hlc:
    """Return the reading for a new local event: later than `last`, not before the wall clock."""
    if wall_ms > last.wall_ms:
        return Hlc(wall_ms, 0)
    if last.counter >= COUNTER_MAX:
        return Hlc(last.wall_ms + 1, 0)
    return Hlc(last.wall_ms, last.counter + 1)


def observe(last: Hlc, remote: Hlc, wall_ms: int) -> Hlc:
    """Return the clock after seeing a remote reading; at most 500 ms beyond the wall clock by its doing."""
    capped = (
        remote if remote.wall_ms <= wall_ms + REMOTE_CLOCK_LEAD_MS else Hlc(wall_ms + REMOTE_CLOCK_LEAD_MS, 0)
    )
    return max(last, capped)


def is_suspect(remote: Hlc, wall_ms: int) -> bool:
    """Tell whether a reading leads the wall clock by more than the bound: shown to people, refused never."""
    return remote.wall_ms > wall_ms + REMOTE_CLOCK_LEAD_MS
