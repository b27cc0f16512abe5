"""Clocks of a simulated process: one that never goes back, for waiting, and one on the wall, which may do anything.

Both are functions of virtual time, so that a seed is one history.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

HOUR_MS = 3_600_000.0
KINDS = (
    "right",
    "an hour ahead",
    "an hour behind",
    "jumping",
    "drifting",
    "frozen",
)


@dataclass(frozen=True, slots=True)
class WallClock:
    """A wall clock that is off by `skew_ms` from the start on, and wrong in one further way.

    Args:
        kind: one of `KINDS`.
        since: virtual time at which it freezes, or first jumps, ms.
        jumps: by how much it is off after each further second, ms; of a clock that jumps.
        rate: of a clock that drifts.
    """

    kind: str
    skew_ms: float
    since: float
    jumps: tuple[float, ...]
    rate: float

    @classmethod
    def random(cls, rng: random.Random, kind: str, skew_ms: float) -> WallClock:
        """Return a clock of a kind."""
        jumps = tuple(rng.uniform(-HOUR_MS, HOUR_MS) for _ in range(8))
        return cls(kind, skew_ms, rng.uniform(500, 4_000), jumps, rng.uniform(0.7, 1.4))

    def at(self, now: float) -> float:
        """Return what it shows, ms, when virtual time is `now`."""
        if self.kind == "an hour ahead":
            now += HOUR_MS
        elif self.kind == "an hour behind":
            now -= HOUR_MS
        elif self.kind == "drifting":
            now *= self.rate
        elif self.kind == "frozen":
            now = min(now, self.since)
        elif self.kind == "jumping" and now >= self.since:
            now += self.jumps[int((now - self.since) / 1_000) % len(self.jumps)]
        return now + self.skew_ms


@dataclass(frozen=True, slots=True)
class Monotonic:
    """Milliseconds since an origin of their own; a little too fast or too slow.

    Args:
        origin: what it shows at virtual time 0.
        rate: of its milliseconds to those of virtual time.
    """

    origin: int
    rate: float

    def at(self, now: float) -> int:
        """Return what it shows when virtual time is `now`."""
        return self.origin + int(now * self.rate)

    def when(self, shown: int) -> float:
        """Return the virtual time at which it showed this."""
        return (shown - self.origin) / self.rate

    def lasts(self, shown_ms: float) -> float:
        """Return how much virtual time passes while it goes on by this much."""
        return shown_ms / self.rate
