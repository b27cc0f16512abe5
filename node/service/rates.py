"""How often one key may call: a token bucket per key, so that an agent in a loop cannot starve the others.

Source: the token bucket of ATM policing (Turner 1986).  The clock is an argument; nothing here waits.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable

from proto import limits
from proto.errors import Overloaded

KEYS_REMEMBERED = 4_096  # a key that is forgotten begins with a full bucket, as one does after 2 s of rest
RETRY_MS_MIN = 50


class Rates:
    """Buckets of all keys that called lately.  Used on the event loop only.

    Args:
        now_s: monotonic clock, seconds.
        per_s: calls that come back each second.
        burst: calls that a rested key may make at once.
    """

    def __init__(
        self,
        now_s: Callable[[], float],
        per_s: int = limits.RATE_PER_KEY_PER_S,
        burst: int = limits.RATE_BURST,
    ) -> None:
        self._now_s, self._per_s, self._burst = now_s, per_s, burst
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, key_id: str) -> None:
        """Count a call of this key.

        Raises:
            Overloaded: it calls too often; the call is not counted.
        """
        now_s = self._now_s()
        left, since_s = self._left.get(key_id, (float(self._burst), now_s))
        left = min(self._burst, left + (now_s - since_s) * self._per_s)
        if left < 1:
            raise Overloaded(
                f"this key makes more than {self._per_s} calls/s (bursts of {self._burst}). Nothing was done.",
                retry_after_ms=max(RETRY_MS_MIN, math.ceil((1 - left) / self._per_s * 1000)),
            )
        self._left[key_id] = left - 1, now_s
        self._left.move_to_end(key_id)
        while len(self._left) > KEYS_REMEMBERED:
            self._left.popitem(last=False)
