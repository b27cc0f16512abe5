"""What every transport promises, held by the wire and by the fake alike."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Protocol

import pytest

from mesh.loopback import Loopback, LoopbackTransport
from mesh.nats_transport import NatsOptions, NatsTransport
from mesh.transport import Transport
from proto.errors import Overloaded, ProtocolError, Unavailable, Uncertain
from proto.limits import NATS_MESSAGE_BYTES
from tests.support.nats_process import NatsProcess
from tests.support.waiting import until

FAST = NatsOptions(heartbeat_s=0.2, retry_s=0.02, retry_max_s=0.1, requests_max=8)


class World(Protocol):
    """A server that can go away, and transports attached to it."""

    def transport(self) -> Transport: ...

    async def stop(self) -> None: ...

    async def restart(self) -> None: ...


class MemoryWorld:
    def __init__(self) -> None:
        self.loopback = Loopback()
        self.made: list[Transport] = []

    def transport(self) -> Transport:
        made = LoopbackTransport(self.loopback, inbox_prefix=f"_PEER.{len(self.made)}", requests_max=8)
        self.made.append(made)
        return made

    async def stop(self) -> None:
        self.loopback.stop()

    async def restart(self) -> None:
        self.loopback.restart()


class NatsWorld:
    def __init__(self, server: NatsProcess) -> None:
        self.server = server
        self.made: list[Transport] = []

    def transport(self) -> Transport:
        n = len(self.made)
        made = NatsTransport(
            self.server.url, inbox_prefix=f"_PEER.{n}", echo_subject=f"hyphae.m.echo.{n}", options=FAST
        )
        self.made.append(made)
        return made

    async def stop(self) -> None:
        await self.server.kill()

    async def restart(self) -> None:
        await self.server.start()


@asynccontextmanager
async def _memory(_directory: Path) -> AsyncIterator[World]:
    world = MemoryWorld()
    yield world
    await asyncio.gather(*(t.close() for t in world.made))


@asynccontextmanager
async def _nats(directory: Path) -> AsyncIterator[World]:
    server = NatsProcess(directory)
    await server.start()
    world = NatsWorld(server)
    try:
        yield world
    finally:
        await asyncio.gather(*(t.close() for t in world.made))
        await server.kill()


Scene = Callable[[World], Awaitable[None]]
Play = Callable[[Scene], None]


@pytest.fixture(params=[_memory, _nats], ids=["loopback", "nats"])
def play(request: pytest.FixtureRequest, tmp_path: Path) -> Play:
    """Run a scene in a world of each kind."""
    make: Callable[[Path], AbstractAsyncContextManager[World]] = request.param

    async def run(scene: Scene) -> None:
        async with make(tmp_path) as world:
            await scene(world)

    return lambda scene: asyncio.run(run(scene))


class Ear:
    """Remembers what it hears."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, str, bytes]] = []

    async def __call__(self, subject: str, reply: str, body: bytes) -> None:
        self.heard.append((subject, reply, body))

    @property
    def bodies(self) -> list[bytes]:
        return [body for _, _, body in self.heard]


def _raise() -> None:
    raise ZeroDivisionError


async def _connected(world: World, count: int) -> list[Transport]:
    made = [world.transport() for _ in range(count)]
    for transport in made:
        await transport.start()
        assert await transport.wait_connected(10)
    return made


def test_a_message_reaches_every_matching_subscription_and_no_other(play: Play) -> None:
    async def scene(world: World) -> None:
        a, b = await _connected(world, 2)
        exact, star, tail, other, own = Ear(), Ear(), Ear(), Ear(), Ear()
        await b.subscribe("hyphae.m.ev.0.p", exact)
        await b.subscribe("hyphae.*.ev.*.p", star)
        await b.subscribe("hyphae.m.>", tail)
        await b.subscribe("hyphae.m.ev", other)
        await a.subscribe("hyphae.m.ev.0.p", own)
        await b.publish("hyphae.m.ready", b"")  # b's subscriptions are in force once b hears itself
        await until(lambda: tail.bodies == [b""], "b hears itself")
        await a.publish("hyphae.m.ev.0.p", b"x", reply="_PEER.0.t")
        await until(lambda: len(tail.heard) == 2 and bool(own.heard), "the message is heard")
        want = [("hyphae.m.ev.0.p", "_PEER.0.t", b"x")]
        assert exact.heard == star.heard == own.heard == want
        assert other.heard == []

    play(scene)


def test_messages_of_one_publisher_arrive_in_order(play: Play) -> None:
    async def scene(world: World) -> None:
        a, b = await _connected(world, 2)
        ear = Ear()
        await b.subscribe("hyphae.m.>", ear)
        await b.publish("hyphae.m.ready", b"ready")
        await until(lambda: bool(ear.heard), "b hears itself")
        sent = [n.to_bytes(4, "big") for n in range(2_000)]
        for body in sent:
            await a.publish("hyphae.m.x", body)
        await until(lambda: len(ear.heard) == 2_001, "all have arrived")
        assert ear.bodies[1:] == sent

    play(scene)


def test_a_subscription_made_before_the_start_is_in_force_when_up(play: Play) -> None:
    async def scene(world: World) -> None:
        (a,) = await _connected(world, 1)
        b, ear = world.transport(), Ear()
        await b.subscribe("hyphae.m.x", ear)
        await b.start()
        assert await b.wait_connected(10)
        await a.publish("hyphae.m.x", b"1")
        await until(lambda: ear.bodies == [b"1"], "the message is heard")

    play(scene)


def test_a_transport_starts_without_a_server_and_comes_up_when_there_is_one(play: Play) -> None:
    async def scene(world: World) -> None:
        await world.stop()
        transport = world.transport()
        ups: list[int] = []
        transport.watch(on_up=lambda: ups.append(1))
        await transport.start()
        assert not await transport.wait_connected(0.05)
        assert not transport.connected
        await world.restart()
        assert await transport.wait_connected(10)
        assert ups == [1]

    play(scene)


def test_a_publish_while_down_is_refused_and_never_sent(play: Play) -> None:
    async def scene(world: World) -> None:
        (a,) = await _connected(world, 1)
        ear = Ear()
        await a.subscribe("hyphae.m.x", ear)
        await world.stop()
        await until(lambda: not a.connected, "the loss is noticed")
        with pytest.raises(Unavailable) as refused:
            await a.publish("hyphae.m.x", b"ghost")
        assert refused.value.definite
        await world.restart()
        assert await a.wait_connected(10)
        await a.publish("hyphae.m.x", b"live")
        await until(lambda: bool(ear.heard), "the live message is heard")
        assert ear.bodies == [b"live"]

    play(scene)


def test_subscriptions_survive_an_outage_and_listeners_hear_of_both_turns(play: Play) -> None:
    async def scene(world: World) -> None:
        a, b = await _connected(world, 2)
        ear, turns = Ear(), list[str]()
        await b.subscribe("hyphae.m.x", ear)
        b.watch(on_up=lambda: turns.append("up"), on_down=lambda: turns.append("down"))
        await world.stop()
        await until(lambda: not b.connected and not a.connected, "the loss is noticed")
        await world.restart()
        assert await a.wait_connected(10)
        assert await b.wait_connected(10)
        await a.publish("hyphae.m.x", b"again")
        await until(lambda: ear.bodies == [b"again"], "the message is heard")
        assert turns == ["down", "up"]
        assert (b.counters.connects, b.counters.losses) == (2, 1)

    play(scene)


def test_a_listener_that_raises_disturbs_nothing(play: Play) -> None:
    async def scene(world: World) -> None:
        transport = world.transport()
        transport.watch(on_up=_raise, on_down=_raise)
        heard: list[str] = []
        transport.watch(on_up=lambda: heard.append("up"))
        await transport.start()
        assert await transport.wait_connected(10)
        await world.stop()
        await until(lambda: not transport.connected, "the loss is noticed")
        await world.restart()
        assert await transport.wait_connected(10)
        assert heard == ["up", "up"]

    play(scene)


def test_a_handler_that_raises_is_counted_and_gets_the_next_message(play: Play) -> None:
    async def scene(world: World) -> None:
        (a,) = await _connected(world, 1)
        good: list[bytes] = []

        async def fussy(_subject: str, _reply: str, body: bytes) -> None:
            if body == b"poison":
                raise ValueError(body)
            good.append(body)

        await a.subscribe("hyphae.m.x", fussy)
        for body in (b"1", b"poison", b"2"):
            await a.publish("hyphae.m.x", body)
        await until(lambda: good == [b"1", b"2"], "the messages around the poison are handled")
        assert a.counters.handler_errors == 1

    play(scene)


def test_what_a_slow_handler_cannot_take_is_dropped_and_counted(play: Play) -> None:
    async def scene(world: World) -> None:
        (a,) = await _connected(world, 1)
        release, taken = asyncio.Event(), list[bytes]()

        async def slow(_subject: str, _reply: str, body: bytes) -> None:
            taken.append(body)
            await release.wait()

        everything = Ear()
        await a.subscribe("hyphae.m.x", slow, pending_messages=10)
        await a.subscribe("hyphae.m.x", everything)
        await a.publish("hyphae.m.x", b"first")
        await until(lambda: taken == [b"first"], "the first is being handled")
        for n in range(30):
            await a.publish("hyphae.m.x", b"%d" % n)
        await until(lambda: len(everything.heard) == 31, "all have arrived")
        await until(lambda: a.counters.dropped == 20, "20 are dropped")
        release.set()
        await until(lambda: len(taken) == 11, "the ten that fit are handled")
        assert taken[1:] == [b"%d" % n for n in range(10)]

    play(scene)


def test_bytes_that_wait_are_bounded_too(play: Play) -> None:
    async def scene(world: World) -> None:
        (a,) = await _connected(world, 1)
        release, everything = asyncio.Event(), Ear()

        async def slow(_subject: str, _reply: str, _body: bytes) -> None:
            await release.wait()

        await a.subscribe("hyphae.m.x", slow, pending_bytes=10_000)
        await a.subscribe("hyphae.m.x", everything)
        for _ in range(10):
            await a.publish("hyphae.m.x", bytes(4_000))
        await until(lambda: len(everything.heard) == 10, "all have arrived")
        await until(lambda: a.counters.dropped in (7, 8), "what is beyond 10,000 bytes is dropped")
        release.set()

    play(scene)


def test_a_cancelled_subscription_hears_nothing_more(play: Play) -> None:
    async def scene(world: World) -> None:
        (a,) = await _connected(world, 1)
        gone, stays = Ear(), Ear()
        subscription = await a.subscribe("hyphae.m.x", gone)
        await a.subscribe("hyphae.m.x", stays)
        await subscription.cancel()
        await subscription.cancel()
        await a.publish("hyphae.m.x", b"1")
        await until(lambda: bool(stays.heard), "the other subscription hears")
        assert gone.heard == []

    play(scene)


def test_a_handler_that_swallows_its_cancellation_cannot_hold_up_the_end(play: Play) -> None:
    async def scene(world: World) -> None:
        (a,) = await _connected(world, 1)
        begun, ended = asyncio.Event(), list[bytes]()

        async def stubborn(_subject: str, _reply: str, body: bytes) -> None:
            begun.set()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.Event().wait()
            ended.append(body)

        subscription = await a.subscribe("hyphae.m.x", stubborn)
        await a.publish("hyphae.m.x", b"1")
        await a.publish("hyphae.m.x", b"2")
        await asyncio.wait_for(begun.wait(), 10)
        await asyncio.wait_for(subscription.cancel(), 10)
        assert ended == [b"1"]

    play(scene)


def test_an_oversize_message_is_refused_and_the_connection_stays(play: Play) -> None:
    async def scene(world: World) -> None:
        (a,) = await _connected(world, 1)
        ear = Ear()
        await a.subscribe("hyphae.m.x", ear)
        for call in (
            a.publish("hyphae.m.x", bytes(NATS_MESSAGE_BYTES + 1)),
            a.request("hyphae.m.x", bytes(NATS_MESSAGE_BYTES + 1), 1),
        ):
            with pytest.raises(ProtocolError, match="524289 bytes, limit 524288"):
                await call
        await a.publish("hyphae.m.x", bytes(NATS_MESSAGE_BYTES))
        await until(lambda: [len(b) for b in ear.bodies] == [NATS_MESSAGE_BYTES], "the largest is heard")
        assert a.counters.losses == 0

    play(scene)


@pytest.mark.parametrize("subject", ["", "a..b", "a b", "a.*", "a.>", "a\r\nPUB x 0", "a.b*c"])
def test_what_is_no_subject_is_refused(play: Play, subject: str) -> None:
    async def scene(world: World) -> None:
        (a,) = await _connected(world, 1)
        with pytest.raises(ProtocolError):
            await a.publish(subject, b"x")
        assert a.connected

    play(scene)


def test_requests_side_by_side_each_get_their_own_answer(play: Play) -> None:
    async def scene(world: World) -> None:
        a, b = await _connected(world, 2)

        async def serve(_subject: str, reply: str, body: bytes) -> None:
            await b.publish(reply, body + b"!")

        await b.subscribe("hyphae.m.rpc.b", serve)
        assert await b.request("hyphae.m.rpc.b", b"self", 10) == b"self!"
        bodies = [b"%d" % n for n in range(8)]
        answers = await asyncio.gather(*(a.request("hyphae.m.rpc.b", body, 10) for body in bodies))
        assert answers == [body + b"!" for body in bodies]

    play(scene)


def test_a_request_that_nobody_serves_fails_at_once_and_for_certain(play: Play) -> None:
    async def scene(world: World) -> None:
        (a,) = await _connected(world, 1)
        with pytest.raises(Unavailable) as refused:
            await a.request("hyphae.m.rpc.nobody", b"x", 60)
        assert refused.value.definite

    play(scene)


def test_a_request_without_an_answer_is_uncertain(play: Play) -> None:
    async def scene(world: World) -> None:
        a, b = await _connected(world, 2)
        silent = Ear()
        await b.subscribe("hyphae.m.rpc.b", silent)
        with pytest.raises(Uncertain) as late:
            await b.request("hyphae.m.rpc.b", b"x", 0.05)
        assert not late.value.definite
        await a.publish(silent.heard[0][1], b"too late, and from somebody else")
        assert await b.wait_connected(0)

    play(scene)


def test_a_request_in_flight_fails_uncertain_at_the_moment_of_the_loss(play: Play) -> None:
    async def scene(world: World) -> None:
        (a,) = await _connected(world, 1)
        silent = Ear()
        await a.subscribe("hyphae.m.rpc.b", silent)
        waiting = asyncio.create_task(a.request("hyphae.m.rpc.b", b"x", 60))
        await until(lambda: bool(silent.heard), "the request has arrived")
        await world.stop()
        with pytest.raises(Uncertain, match="lost"):
            await asyncio.wait_for(waiting, 10)

    play(scene)


def test_requests_beyond_the_bound_are_refused_with_a_hint(play: Play) -> None:
    async def scene(world: World) -> None:
        (a,) = await _connected(world, 1)
        silent = Ear()
        await a.subscribe("hyphae.m.rpc.b", silent)
        waiting = [asyncio.create_task(a.request("hyphae.m.rpc.b", b"x", 60)) for _ in range(8)]
        await until(lambda: len(silent.heard) == 8, "eight requests wait")
        with pytest.raises(Overloaded) as refused:
            await a.request("hyphae.m.rpc.b", b"x", 60)
        assert refused.value.retry_after_ms
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        with pytest.raises(Uncertain):  # their places are free again
            await a.request("hyphae.m.rpc.b", b"x", 0.01)

    play(scene)


def test_after_close_everything_is_refused_and_close_may_be_repeated(play: Play) -> None:
    async def scene(world: World) -> None:
        (a,) = await _connected(world, 1)
        silent = Ear()
        await a.subscribe("hyphae.m.rpc.b", silent)
        waiting = asyncio.create_task(a.request("hyphae.m.rpc.b", b"x", 60))
        await until(lambda: bool(silent.heard), "the request has arrived")
        await a.close()
        await a.close()
        with pytest.raises(Unavailable):
            await asyncio.wait_for(waiting, 10)
        with pytest.raises(Unavailable):
            await a.publish("hyphae.m.x", b"x")
        with pytest.raises(Unavailable):
            await a.request("hyphae.m.x", b"x", 1)
        assert not a.connected

    play(scene)


def test_what_was_published_just_before_close_still_goes_out(play: Play) -> None:
    async def scene(world: World) -> None:
        a, b = await _connected(world, 2)
        ear = Ear()
        await b.subscribe("hyphae.m.x", ear)
        await b.publish("hyphae.m.x", b"ready")
        await until(lambda: bool(ear.heard), "b hears itself")
        for n in range(100):
            await a.publish("hyphae.m.x", b"%d" % n)
        await a.close()
        await until(lambda: len(ear.heard) == 101, "all 100 are heard")

    play(scene)
