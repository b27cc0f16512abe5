"""What a history did last, peer by peer, for people to read: kept only when a seed that failed is run again.

Steps are told in the project's words by whoever takes them.  Nothing follows from a trace, so a seed is the same
history with and without one.
"""

from __future__ import annotations

from collections import defaultdict, deque

STEPS = 14  # of each peer: enough to see what led to a finding, few enough to read
WORLD = "the world"


class Trace:
    """The last steps of every peer, until the first finding.

    Args:
        steps: kept of each peer.
    """

    def __init__(self, steps: int = STEPS) -> None:
        self._steps: defaultdict[str, deque[tuple[int, float, str]]] = defaultdict(
            lambda: deque(maxlen=steps)
        )
        self._count = 0
        self._now = 0.0
        self._is_over = False

    def add(self, now: float, who: str, what: str) -> None:
        """Take a step of a peer; `now` is virtual time, ms."""
        if not self._is_over:
            self._count, self._now = self._count + 1, now
            self._steps[who].append((self._count, now, what))

    def found(self, finding: str) -> None:
        """Take the first finding: what comes after it led nowhere."""
        self.add(self._now, WORLD, f"FOUND: {finding}")
        self._is_over = True

    def lines(self) -> list[str]:
        """Return the steps in the order in which they were taken, one a line."""
        steps = sorted((at, now, who, what) for who, taken in self._steps.items() for at, now, what in taken)
        return [f"{now:11,.1f} ms  {who:<18} {what}" for _, now, who, what in steps]
