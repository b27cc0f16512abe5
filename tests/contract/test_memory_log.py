"""The fake in memory keeps the contract of the event log."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from proto.streams import Position
from tests.contract.event_log_suite import EventLogSuite, OpenLog, Storage
from tests.support.memory_log import MemoryDisk, MemoryLog
from tests.support.sealed import peer


class _Log(MemoryLog):
    async def append(self) -> Position:  # type: ignore[override]
        position = super().append()
        self.sync()
        return position


class _Storage:
    peer = peer(1)

    def __init__(self) -> None:
        self._disk = MemoryDisk()
        self._rng = random.Random(0)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[OpenLog]:
        yield _Log(self.peer, self._disk, self._rng)


class TestMemoryLog(EventLogSuite):
    def storage(self) -> Storage:
        return _Storage()
