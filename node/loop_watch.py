"""How late the event loop runs, and whether that takes the peer out of service.

A hung peer hurts more than a dead one: callers wait for it.  A single late beat is a pause of the machine and over
when it is seen; two in a row mean that the loop is blocked again and again.  The rule is pure; `watch` is the task.
"""

from __future__ import annotations

import asyncio
from typing import Final

import structlog

_log = structlog.get_logger(__name__)

BEAT_S: Final = 0.1
LATE_MS: Final = 1_000
LATE_BEATS: Final = 2  # in a row, until the peer is out of service
GOOD_BEATS: Final = 10  # in a row, until it is back


class LoopWatch:
    """Owned by the loop that it watches."""

    def __init__(self) -> None:
        self.lag_ms = 0  # of the last beat
        self.is_out = False
        self._late = self._good = 0

    def beat(self, late_ms: int) -> None:
        """Take how late a beat came."""
        self.lag_ms = max(0, late_ms)
        if self.lag_ms >= LATE_MS:
            self._late, self._good = self._late + 1, 0
            if self._late >= LATE_BEATS and not self.is_out:
                self.is_out = True
                _log.error("event_loop_blocked", lag_ms=self.lag_ms)
            return
        self._late, self._good = 0, self._good + 1
        if self.is_out and self._good >= GOOD_BEATS:
            self.is_out = False
            _log.warning("event_loop_free_again")

    def problem(self) -> str | None:
        """Return what is wrong, in words."""
        if not self.is_out:
            return None
        return (
            f"its event loop runs {self.lag_ms / 1000:.1f} s late, so calls are refused and callers go elsewhere: the"
            " machine is overloaded, or something blocks it"
        )

    async def watch(self) -> None:
        """Beat until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + BEAT_S
            await asyncio.sleep(BEAT_S)
            self.beat(int((loop.time() - due) * 1000))
