"""What the load measures: times and failures of calls by phase and kind, and what processes hold."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import psutil

OVERLOADED = "overloaded"


@dataclass(frozen=True, slots=True)
class Held:
    """What a process holds at a moment: memory in bytes, file handles, threads; and has used: CPU in seconds."""

    rss: int
    handles: int
    threads: int
    cpu_s: float

    @classmethod
    def of(cls, pid: int) -> Held:
        process = psutil.Process(pid)
        with process.oneshot():
            times = process.cpu_times()
            held = process.memory_info().rss, process.num_fds(), process.num_threads()
            return cls(*held, round(times.user + times.system, 1))


class Measures:
    """Notes of all calls.  `phase` says what the next ones belong to."""

    def __init__(self) -> None:
        self.phase = "setup"
        self.failures: Counter[str] = Counter()  # but declared overload
        self._seconds: dict[tuple[str, str], list[float]] = defaultdict(list)
        self._overloaded: Counter[tuple[str, str]] = Counter()

    def note(self, kind: str, seconds: float, failure: str) -> None:
        """Note how one call ended."""
        if failure == OVERLOADED:
            self._overloaded[self.phase, kind] += 1
        elif failure:
            self.failures[f"{self.phase} {kind}: {failure}"] += 1
        else:
            self._seconds[self.phase, kind].append(seconds)

    def calls(self, phase: str) -> int:
        """Return how many calls of a phase have ended, refused ones included."""
        answered = sum(len(times) for (p, _), times in self._seconds.items() if p == phase)
        return answered + self.overloaded(phase)

    def overloaded(self, phase: str) -> int:
        """Return how many calls of a phase were refused as `overloaded`."""
        return sum(count for (p, _), count in self._overloaded.items() if p == phase)

    def rows(self, phase: str) -> list[dict[str, Any]]:
        """Return kind, calls answered, calls refused, p50 and p99 in ms, for each kind of a phase."""
        kinds = {kind for p, kind in [*self._seconds, *self._overloaded] if p == phase}
        return [
            {
                "kind": kind,
                "answered": len(self._seconds[phase, kind]),
                "overloaded": self._overloaded[phase, kind],
                "p50_ms": percentile(self._seconds[phase, kind], 50),
                "p99_ms": percentile(self._seconds[phase, kind], 99),
            }
            for kind in sorted(kinds)
        ]


def percentile(seconds: Sequence[float], percent: int) -> float:
    """Return a percentile in ms by the nearest rank; 0 of nothing."""
    if not seconds:
        return 0.0
    rank = max(1, math.ceil(len(seconds) * percent / 100))
    return round(sorted(seconds)[rank - 1] * 1000, 1)
