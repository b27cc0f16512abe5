"""A token bucket whose debts are known only afterwards: who may begin is decided by what was spent before.

Pure; `now` is milliseconds of one monotonic clock.
Source: the token bucket of Turner, "New Directions in Communications" (1986).
"""

from __future__ import annotations


class TokenBucket:
    """Full at the start.

    Args:
        per_s: tokens that come back each second.
        most: that it holds.
    """

    def __init__(self, per_s: int, most: int) -> None:
        self._per_s, self._most = per_s, most
        self._tokens = float(most)
        self._at: int | None = None

    def has_some(self, now: int) -> bool:
        """Tell whether something may begin: whatever it will cost, as long as there is no debt."""
        if self._at is not None:
            self._tokens = min(self._most, self._tokens + (now - self._at) * self._per_s / 1000)
        self._at = now
        return self._tokens > 0

    def spend(self, tokens: int) -> None:
        """Take what something has cost, down to a debt."""
        self._tokens -= tokens
