"""When a process that died is started again, and when to give up.  Pure: time is an argument."""

from __future__ import annotations

DEATHS_MAX = 5
WINDOW_S = 60.0
FIRST_DELAY_S = 0.2
DELAY_MAX_S = 5.0


class RestartPolicy:
    """Back-off that doubles with each death of the last minute; five in a minute are enough."""

    def __init__(self) -> None:
        self._deaths: list[float] = []

    def died(self, now_s: float) -> float | None:
        """Record a death.

        Args:
            now_s: seconds of any clock that does not go back.

        Returns:
            Seconds to wait before the next start, or None: give up.
        """
        self._deaths = [d for d in self._deaths if now_s - d < WINDOW_S] + [now_s]
        if len(self._deaths) >= DEATHS_MAX:
            return None
        return float(min(DELAY_MAX_S, FIRST_DELAY_S * 2 ** (len(self._deaths) - 1)))
