"""Three replicators over a real NATS server that is killed while they write."""

from __future__ import annotations

import asyncio
import random
import time
from pathlib import Path

from mesh.digests import Vitals
from mesh.engine_config import EngineConfig
from mesh.nats_transport import NatsTransport
from mesh.replicator import Replicator
from proto.ids import MeshId, PeerId, format_base32
from proto.subjects import Subjects
from tests.support.memory_log import MemoryDisk, MemoryLog
from tests.support.nats_process import NatsProcess
from tests.support.sealed import events, peer, stream
from tests.support.waiting import until

SUBJECTS = Subjects(MeshId(bytes(range(16))))


class Member:
    """A replicator with a log in memory and two NATS connections."""

    def __init__(self, number: int, url: str, disk: MemoryDisk) -> None:
        self.peer: PeerId = peer(number)
        self.log = MemoryLog(self.peer, disk, random.Random(number), payload_bytes=1_000)
        self.live, self.bulk = (self._transport(url, use) for use in ("live", "bulk"))
        self.replicator = Replicator(
            self.peer, SUBJECTS, self.live, self.bulk, self.log, EngineConfig(), self._vitals
        )

    def _transport(self, url: str, use: str) -> NatsTransport:
        return NatsTransport(
            [url],
            inbox_prefix=f"_INBOX.{format_base32(self.peer)}{use}",
            echo_subject=SUBJECTS.echo(self.peer, use),
        )

    def _vitals(self) -> Vitals:
        return Vitals(wall_ms=time.time_ns() // 1_000_000)

    async def start(self, members: list[PeerId]) -> None:
        await self.live.start()
        await self.bulk.start()
        await self.replicator.start()
        self.replicator.set_members(members)

    async def stop(self) -> None:
        await self.replicator.stop()
        await self.live.close()
        await self.bulk.close()

    def append(self, count: int) -> None:
        for _ in range(count):
            self.log.append()
        self.replicator.publish_committed(self.log.sync())


def test_logs_are_alike_again_after_the_server_was_killed_in_the_middle_of_writing(tmp_path: Path) -> None:
    async def case() -> None:
        server = NatsProcess(tmp_path)
        await server.start()
        history = MemoryDisk({stream(50): events(stream(50), 2_000, size=500)})
        members = [Member(n, server.url, history if n == 1 else MemoryDisk()) for n in (1, 2, 3)]
        try:
            for member in members:
                await member.start([m.peer for m in members])

            def alike() -> bool:
                return all(m.log.heads() == members[0].log.heads() for m in members)

            await until(alike, "the newcomers hold the whole history", 30)
            for member in members:
                member.append(20)
            await until(alike, "live events are everywhere", 30)
            await server.kill()
            await until(lambda: not any(m.live.connected for m in members), "the loss is noticed", 30)
            for member in members:
                member.append(20)
            assert not alike()
            await server.start()
            await until(alike, "what was written meanwhile is everywhere", 30)
            assert members[0].log.heads().keys() > {stream(50)}
        finally:
            for member in members:
                await member.stop()
            await server.kill()

    asyncio.run(case())
