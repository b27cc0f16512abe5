"""The replicator over transports in memory: what the shell adds to the engine."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from mesh.digests import Vitals
from mesh.engine_config import EngineConfig
from mesh.loopback import Loopback, LoopbackTransport
from mesh.ports import Applied, Segment
from mesh.replicator import Replicator
from proto.ids import MeshId, format_uuid
from proto.streams import StreamId
from proto.subjects import Subjects
from tests.support.memory_log import MemoryDisk, MemoryLog
from tests.support.sealed import events, peer, stream
from tests.support.waiting import until

SUBJECTS = Subjects(MeshId(bytes(16)))
QUICK = EngineConfig(
    digest_interval_ms=40,
    silent_after_ms=400,
    reconnect_jitter_ms=5,
    greet_jitter_ms=5,
    settle_ms=10,
    pull_timeout_ms=300,
    back_off_ms=20,
    back_off_max_ms=100,
)


class FailingLog(MemoryLog):
    """A log whose disk refuses for a while."""

    failing = False

    async def apply(self, segments: Sequence[Segment]) -> Applied:
        if self.failing:
            raise OSError("no space left on device")
        return await super().apply(segments)

    async def read(self, stream: StreamId, first: int, max_bytes: int) -> Segment | None:
        if self.failing:
            raise OSError("input/output error")
        return await super().read(stream, first, max_bytes)


@dataclass
class Member:
    """One replicator with its log and transports."""

    log: FailingLog
    replicator: Replicator
    live: LoopbackTransport
    bulk: LoopbackTransport
    vitals: Callable[[], Vitals]
    forks: list[tuple[StreamId, int]] = field(default_factory=list)

    def append(self, count: int = 1) -> None:
        for _ in range(count):
            self.log.append()
        self.replicator.publish_committed(self.log.sync())

    def counter(self, name: str) -> int:
        counters: dict[str, int] = self.replicator.status()["counters"]
        return counters.get(name, 0)


class Mesh:
    """Members around one loopback."""

    def __init__(self) -> None:
        self.server = Loopback()
        self.members: list[Member] = []

    async def add(self, number: int, disk: MemoryDisk | None = None) -> Member:
        me = peer(number)
        log = FailingLog(me, disk or MemoryDisk(), random.Random(number))
        live, bulk = (LoopbackTransport(self.server, inbox_prefix=f"{use}{number}") for use in ("l", "b"))
        member = Member(log, None, live, bulk, lambda: Vitals(wall_ms=7, version="0.1.0"))  # type: ignore[arg-type]
        member.replicator = Replicator(
            me,
            SUBJECTS,
            live,
            bulk,
            log,
            QUICK,
            lambda: member.vitals(),  # noqa: PLW0108 - a test exchanges it
            on_fork=lambda s, n, _other: member.forks.append((s, n)),
        )
        await live.start()
        await bulk.start()
        await member.replicator.start()
        self.members.append(member)
        for other in self.members:
            other.replicator.set_members([m.log.peer for m in self.members])
        return member

    def alike(self) -> bool:
        return all(m.log.heads() == self.members[0].log.heads() for m in self.members)

    async def close(self) -> None:
        for member in self.members:
            await member.replicator.stop()
            await member.live.close()
            await member.bulk.close()


@asynccontextmanager
async def mesh_of(count: int) -> AsyncIterator[Mesh]:
    mesh = Mesh()
    try:
        for number in range(1, count + 1):
            await mesh.add(number)
        yield mesh
    finally:
        await mesh.close()


def run(count: int, case: Callable[[Mesh], Awaitable[None]]) -> None:
    async def whole() -> None:
        async with mesh_of(count) as mesh:
            await case(mesh)
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert not left, "stopping leaves no task behind"

    asyncio.run(whole())


def test_committed_events_reach_every_log() -> None:
    async def case(mesh: Mesh) -> None:
        for member in mesh.members:
            member.append(5)
        await until(mesh.alike, "all logs are alike")
        assert len(mesh.members[0].log.heads()) == 3

    run(3, case)


def test_a_commit_may_be_reported_from_any_thread() -> None:
    async def case(mesh: Mesh) -> None:
        thread = threading.Thread(target=mesh.members[0].append, args=(3,))
        thread.start()
        await asyncio.to_thread(thread.join)
        await until(mesh.alike, "all logs are alike")
        assert mesh.members[1].counter("pulls") == 0

    run(2, case)


def test_a_member_that_comes_late_pulls_all_on_the_bulk_transport() -> None:
    async def case(mesh: Mesh) -> None:
        mesh.members[0].append(200)
        await until(mesh.alike, "the first two logs are alike")
        late = await mesh.add(9, MemoryDisk({stream(50): events(stream(50), 40)}))
        await until(mesh.alike, "all logs are alike")
        assert late.counter("pulls") > 0
        assert late.bulk.counters.published > 0

    run(2, case)


def test_with_the_server_away_events_are_kept_and_all_converges_when_it_is_back() -> None:
    async def case(mesh: Mesh) -> None:
        mesh.server.stop()
        for member in mesh.members:
            member.append(3)
        assert not mesh.alike()
        assert mesh.members[0].replicator.status()["connected"] is False
        mesh.server.restart()
        await until(mesh.alike, "all logs are alike")

    run(3, case)


def test_a_log_that_cannot_apply_or_read_stops_nothing() -> None:
    async def case(mesh: Mesh) -> None:
        writer, reader = mesh.members
        reader.log.failing = True
        writer.append()
        await until(lambda: reader.counter("apply_failures") > 0, "the log refused")
        reader.log.failing, writer.log.failing = False, True
        await until(lambda: writer.counter("pages_failed") > 0, "a page could not be read")
        writer.log.failing = False
        await until(mesh.alike, "all logs are alike")

    run(2, case)


def test_what_a_peer_says_of_itself_is_known_to_the_others() -> None:
    async def case(mesh: Mesh) -> None:
        one, two = mesh.members
        said = Vitals(7, ("http://127.0.0.1:4974",), "minilm", "0.1.0", 12, 3, True)
        one.vitals = lambda: said
        await until(lambda: [p.vitals for p in two.replicator.peers()] == [said], "it is known")
        [row] = two.replicator.status()["peers"]
        assert row["peer_id"] == format_uuid(one.log.peer)
        assert (row["state"], row["urls"], row["lag_ms"]) == ("up", ["http://127.0.0.1:4974"], 3)

    run(2, case)


def test_a_peer_that_cannot_say_how_it_is_says_that_it_is_out_of_service() -> None:
    async def case(mesh: Mesh) -> None:
        one, two = mesh.members

        def broken() -> Vitals:
            raise RuntimeError("no figures")

        one.vitals = broken
        await until(
            lambda: [p.vitals.in_service for p in two.replicator.peers()] == [False], "it is out of service"
        )

    run(2, case)


def test_who_waits_for_others_to_hold_an_event_is_told_when_they_do() -> None:
    async def case(mesh: Mesh) -> None:
        one = mesh.members[0]
        await until(lambda: len(one.replicator.peers()) == 2, "both were heard")
        for _ in range(3):
            one.append()
            at, last = one.log.stream, one.log.heads()[one.log.stream].sequence
            assert await one.replicator.durable_on(at, last, 3, 10.0) == 3
        assert await one.replicator.durable_on(at, last + 1, 1, 0.0) == 0

    run(3, case)


def test_who_waits_in_vain_learns_how_many_hold_it_and_a_later_answer_is_better() -> None:
    async def case(mesh: Mesh) -> None:
        one, two = mesh.members
        await until(lambda: bool(one.replicator.peers()), "it was heard")
        two.log.failing = True
        one.append()
        at, last = one.log.stream, one.log.heads()[one.log.stream].sequence
        assert await one.replicator.durable_on(at, last, 2, 0.05) == 1
        two.log.failing = False
        assert await one.replicator.durable_on(at, last, 2, 10.0) == 2

    run(2, case)


def test_a_wait_that_is_cancelled_leaves_nothing_behind() -> None:
    async def case(mesh: Mesh) -> None:
        one = mesh.members[0]
        one.append()
        at, last = one.log.stream, one.log.heads()[one.log.stream].sequence
        waiting = asyncio.create_task(one.replicator.durable_on(at, last, 9, 60.0))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait((waiting,))
        assert waiting.cancelled()

    run(1, case)


def test_a_peer_that_stopped_is_silent_after_a_while() -> None:
    async def case(mesh: Mesh) -> None:
        one, two = mesh.members
        await until(lambda: bool(two.replicator.peers()), "it was heard")
        await one.replicator.stop()
        await until(lambda: [p.silent for p in two.replicator.peers()] == [True], "it is silent")

    run(2, case)


def test_members_know_when_they_have_caught_up_with_all() -> None:
    async def case(mesh: Mesh) -> None:
        mesh.members[0].append()
        await until(mesh.alike, "all logs are alike")
        reader = mesh.members[1].replicator
        await until(lambda: len(reader.peers()) == 2, "both others were heard")
        moment = max(p.caught_up_at or 0 for p in reader.peers()) + 1
        await until(lambda: reader.caught_up_with_all(moment), "it has caught up")

    run(3, case)


def test_a_fork_is_reported_once_to_whoever_asked() -> None:
    async def case(mesh: Mesh) -> None:
        forked = stream(70)
        one = await mesh.add(1, MemoryDisk({forked: events(forked, 9, seed=1, shared=4)}))
        two = await mesh.add(2, MemoryDisk({forked: events(forked, 9, seed=2, shared=4)}))
        await until(lambda: bool(one.forks and two.forks), "both saw the fork")
        one.append()
        await until(lambda: one.log.stream in two.log.heads(), "everything else goes on")
        assert (one.forks, two.forks) == ([(forked, 9)], [(forked, 9)])

    run(0, case)


def test_rubbish_on_every_subject_is_counted_and_stops_nothing() -> None:
    async def case(mesh: Mesh) -> None:
        one, two = mesh.members
        for subject in (SUBJECTS.live(0, peer(2)), SUBJECTS.digest(peer(2)), SUBJECTS.pull(peer(1))):
            await two.live.publish(subject, b"\xc1 rubbish")
        await until(lambda: one.counter("malformed") == 3, "it was counted")
        two.append()
        await until(mesh.alike, "all logs are alike")

    run(2, case)
