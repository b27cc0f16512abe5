"""Calls that wait until enough members hold an event.  Lives on one event loop; asks, and never decides."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from proto.streams import StreamId


@dataclass(frozen=True, slots=True, eq=False)
class _Wait:
    stream: StreamId
    sequence: int
    wanted: int
    reached: asyncio.Future[None]


class DurableWaits:
    """The waits under way; their number is bounded by that of the calls.

    Args:
        durable_on: returns how many members are known to hold (stream, sequence) durably.
    """

    def __init__(self, durable_on: Callable[[StreamId, int], int]) -> None:
        self._durable_on = durable_on
        self._waits: set[_Wait] = set()

    async def reach(self, stream: StreamId, sequence: int, wanted: int, timeout_s: float) -> int:
        """Return how many members hold an event, once it is `wanted` or the time is up."""
        known = self._durable_on(stream, sequence)
        if known >= wanted or timeout_s <= 0:
            return known
        wait = _Wait(stream, sequence, wanted, asyncio.get_running_loop().create_future())
        self._waits.add(wait)
        try:
            await asyncio.wait((wait.reached,), timeout=timeout_s)
        finally:
            self._waits.discard(wait)
        return self._durable_on(stream, sequence)

    def look(self) -> None:
        """End the waits that have what they want: more may be known than before."""
        for wait in self._waits:
            if not wait.reached.done() and self._durable_on(wait.stream, wait.sequence) >= wait.wanted:
                wait.reached.set_result(None)
