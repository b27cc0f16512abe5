"""The SQLite log of the product keeps the contract of the event log, with its writer thread and its files."""

from __future__ import annotations

import asyncio
import random
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from node import database
from node.heads_file import HeadsFile
from node.replica import Draft, Replica
from node.sqlite_log import Logged
from node.writer import LogReader, Writer
from proto.ids import NO_TENANT, AgentId, MeshId
from proto.payloads import KeyRevoked
from proto.streams import Position
from tests.contract.event_log_suite import EventLogSuite, OpenLog, Storage
from tests.support.sealed import peer

MESH = MeshId(bytes(range(16)))


class _Log(LogReader):
    def __init__(self, path: str, writer: Writer) -> None:
        super().__init__(path, writer)
        self._own = writer

    async def append(self) -> Position:
        (outcome,) = await self._own.append(
            [Draft.of(NO_TENANT, AgentId(bytes(16)), KeyRevoked(key_id="abcd"))]
        )
        assert isinstance(outcome, Logged)
        return outcome.event.header.position


class _Storage:
    peer = peer(1)

    def __init__(self) -> None:
        self._directory = tempfile.TemporaryDirectory()
        self._rng = random.Random(0)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[OpenLog]:
        path = Path(self._directory.name)
        db = database.open_writer(path / "log.db")
        replica = Replica(db, self.peer, MESH, "space", self._rng.randbytes)
        writer = Writer(replica, HeadsFile(path / "heads"), lambda _changes, _own: None)
        writer.start()
        log = _Log(str(path / "log.db"), writer)
        try:
            yield log
        finally:
            await asyncio.to_thread(log.close)
            await asyncio.to_thread(writer.stop)


class TestSqliteLog(EventLogSuite):
    def storage(self) -> Storage:
        return _Storage()
