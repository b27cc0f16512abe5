"""Wakes whoever waits on the event loop for the next commit of the log."""

from __future__ import annotations

import asyncio


class CommitSignal:
    """Counts arrivals; `commit` is called on the writer's thread, `wait_beyond` on the loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._local = 0
        self._changed = asyncio.Event()

    @property
    def local(self) -> int:
        """The last place of arrival that was told; what is derived from it is in place."""
        return self._local

    def commit(self, last_local: int) -> None:
        """Note that events up to this place of arrival are durable."""
        self._loop.call_soon_threadsafe(self._note, last_local)

    def _note(self, last_local: int) -> None:
        self._local = max(self._local, last_local)
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def wait_beyond(self, local: int, timeout_s: float) -> None:
        """Return once an event beyond this place was committed, or when the time is up."""
        try:
            async with asyncio.timeout(timeout_s):
                while self._local <= local:
                    await self._changed.wait()
        except TimeoutError:
            return
