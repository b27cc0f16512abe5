"""The NATS servers that `deploy.prepare` configures: a cluster in which everybody speaks as itself only."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from deploy.prepare import Plan, prepare
from mesh.nats_address import gateway_echo, gateway_reply_prefix, parse_nats_url
from mesh.nats_connections import peer_transport
from mesh.nats_transport import NatsOptions, NatsTransport
from node.identity import Identity, load_identity
from proto.errors import Unavailable
from proto.ids import MeshId, format_base32
from proto.subjects import Subjects
from tests.support.hyphae_command import eventually
from tests.support.places import short_directory
from tests.support.prepared_mesh import FAR_MS, PreparedServer, loopback_plan, prepared_servers
from tests.support.running_mesh import RunningPeer
from tests.support.waiting import until

FAST = NatsOptions(heartbeat_s=0.2, retry_s=0.02, retry_max_s=0.1)
PEERS = ("peer-1", "peer-2", "peer-3")


class Stage:
    """The identities and addresses of a prepared mesh."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.who: dict[str, Identity] = {
            name: load_identity(plan.peer(n), name) for n, name in enumerate(PEERS, 1)
        }
        mesh = self.who["peer-1"].mesh
        assert mesh is not None
        self.mesh: MeshId = mesh
        self.subjects = Subjects(mesh)
        self._open: list[NatsTransport] = []

    async def peer(self, name: str, *, claiming: str | None = None) -> NatsTransport:
        """Log in as a peer, perhaps with the subjects of another one."""
        url = self.who[name].nats_url
        assert url is not None
        transport = peer_transport(url, self.mesh, self.who[claiming or name].peer, "live", FAST)
        await transport.start()
        self._open.append(transport)
        return transport

    async def gateway(self, user: str, prefix: str | None = None) -> NatsTransport:
        url = (self.plan.peer(1).secrets / f"nats-{user}.url").read_text().strip()
        prefix = prefix or gateway_reply_prefix(parse_nats_url(url).user)
        echo = gateway_echo(gateway_reply_prefix(user), "c1")
        transport = NatsTransport(url, inbox_prefix=prefix, echo_subject=echo, options=FAST)
        await transport.start()
        self._open.append(transport)
        return transport

    async def close(self) -> None:
        await asyncio.gather(*(transport.close() for transport in self._open))


class Ear:
    def __init__(self) -> None:
        self.heard: list[tuple[str, bytes]] = []

    async def __call__(self, subject: str, _reply: str, body: bytes) -> None:
        self.heard.append((subject, body))


def _play(
    scene: Callable[[Stage], Awaitable[None]], servers: int = 1, gateways: tuple[str, ...] = ()
) -> None:
    async def run(stage: Stage) -> None:
        try:
            await scene(stage)
        finally:
            await stage.close()

    with short_directory() as root:
        plan = loopback_plan(root, 3, servers, ("gateway", *gateways))
        with prepared_servers(plan):
            asyncio.run(run(Stage(plan)))


async def _up(transport: NatsTransport) -> NatsTransport:
    assert await transport.wait_connected(20), transport.last_error
    return transport


def test_every_peer_reaches_every_other_across_the_cluster() -> None:
    async def scene(stage: Stage) -> None:
        peers = {name: await _up(await stage.peer(name)) for name in PEERS}
        ears = {name: Ear() for name in PEERS}
        for name, transport in peers.items():

            async def answer(_subject: str, reply: str, body: bytes, me: NatsTransport = transport) -> None:
                await me.publish(reply, body.upper())

            await transport.subscribe(stage.subjects.live_all(), ears[name])
            await transport.subscribe(stage.subjects.requests(stage.who[name].peer), answer)
        for asking in PEERS:
            for asked in PEERS:
                subject = stage.subjects.requests(stage.who[asked].peer)
                await until_answered(peers[asking], subject)
        await peers["peer-1"].publish(stage.subjects.live(0, stage.who["peer-1"].peer), b"news")
        await until(lambda: all(ear.heard for ear in ears.values()), "all hear what one says")
        assert not any(transport.counters.violations for transport in peers.values())

    _play(scene, servers=3)


async def until_answered(transport: NatsTransport, subject: str) -> None:
    """Ask until the interest of whoever serves it is known across the routes."""
    async with asyncio.timeout(20):
        while True:
            with contextlib.suppress(Unavailable):
                assert await transport.request(subject, b"hello", 5) == b"HELLO"
                return


@pytest.mark.parametrize("kind", ["live", "digest", "echo"])
def test_a_peer_cannot_publish_as_another(kind: str) -> None:
    async def scene(stage: Stage) -> None:
        victim, subjects = stage.who["peer-1"].peer, stage.subjects
        forged = {
            "live": subjects.live(0, victim),
            "digest": subjects.digest(victim),
            "echo": subjects.echo(victim, "live"),
        }[kind]
        witness, ear = await _up(await stage.peer("peer-3")), Ear()
        await witness.subscribe(subjects.live_all(), ear)
        await witness.subscribe(subjects.digest_all(), ear)
        forger, violations = await stage.peer("peer-2"), list[str]()
        forger.watch(on_violation=violations.append)
        await _up(forger)
        await forger.publish(forged, b"forged")
        await until(lambda: forger.counters.violations == 1, "the refusal is noticed")
        assert "publish" in violations[0].lower()
        await forger.publish(subjects.live(0, stage.who["peer-2"].peer), b"mine")
        await until(lambda: bool(ear.heard), "what it says of itself is heard")
        assert [body for _, body in ear.heard] == [b"mine"]
        assert forger.connected

    _play(scene)


def test_a_peer_that_claims_to_be_another_never_comes_up() -> None:
    async def scene(stage: Stage) -> None:
        claiming = await stage.peer("peer-2", claiming="peer-1")
        await until(lambda: claiming.counters.violations > 0, "the server refuses its subjects")
        assert not claiming.connected

    _play(scene)


@pytest.mark.parametrize("whose", ["pull", "rpc", "ack", "replies", "everything"])
def test_a_peer_cannot_listen_to_what_is_asked_of_another_or_answered_to_it(whose: str) -> None:
    async def scene(stage: Stage) -> None:
        victim = stage.who["peer-1"].peer
        subject = {
            "pull": stage.subjects.pull(victim),
            "rpc": stage.subjects.requests(victim),
            "ack": stage.subjects.acks(victim),
            "replies": f"_PEER.{format_base32(victim)}.>",
            "everything": "hyphae.>",
        }[whose]
        listener, ear = await _up(await stage.peer("peer-2")), Ear()
        await listener.subscribe(subject, ear)
        await until(lambda: listener.counters.violations > 0, "the server refuses")
        assert not ear.heard

    _play(scene)


def test_a_gateway_cannot_read_the_replies_of_another() -> None:
    async def scene(stage: Stage) -> None:
        peer, ear = await _up(await stage.peer("peer-1")), Ear()
        subject = stage.subjects.requests(stage.who["peer-1"].peer)

        async def answer(_subject: str, reply: str, _body: bytes) -> None:
            await peer.publish(reply, b"a secret")

        await peer.subscribe(subject, answer)
        assert await peer.request(subject, b"", 10) == b"a secret"  # the subscription is in force
        spy = await _up(await stage.gateway("other"))
        for ear_at in ("_GW.gateway.>", "_GW.*.>", "_GW.>", ">"):
            before = spy.counters.violations
            await spy.subscribe(ear_at, ear)
            await until(lambda before=before: spy.counters.violations > before, f"{ear_at} is refused")  # type: ignore[misc]
        gateway = await _up(await stage.gateway("gateway"))
        assert await gateway.request(subject, b"", 10) == b"a secret"
        posing = await stage.gateway("other", gateway_reply_prefix("gateway"))
        await until(lambda: posing.counters.violations > 0, "another's prefix is refused")
        assert not ear.heard

    _play(scene, gateways=("other",))


def test_a_further_peer_comes_in_after_a_reload_and_the_others_stay() -> None:
    async def scene(plan: Plan, server: PreparedServer) -> None:
        stage = Stage(plan)
        first = await _up(await stage.peer("peer-1"))
        prepare(replace(plan, peers=4), FAR_MS)
        server.send_signal(signal.SIGHUP)
        newcomer = load_identity(plan.peer(4), "peer-4")
        assert newcomer.nats_url is not None
        fourth = peer_transport(newcomer.nats_url, stage.mesh, newcomer.peer, "live", FAST)
        await fourth.start()
        await _up(fourth)
        assert first.connected
        await fourth.close()
        await stage.close()

    with short_directory() as root:
        plan = loopback_plan(root, 3, 1)
        with prepared_servers(plan) as servers:
            asyncio.run(scene(plan, servers[0]))


def test_nobody_comes_in_without_a_password_or_as_a_server_of_the_cluster() -> None:
    async def scene(stage: Stage) -> None:
        server = stage.plan.servers[0]
        for address in (
            f"nats://127.0.0.1:{server.client_port}",
            f"nats://peer-1:wrong@127.0.0.1:{server.client_port}",
            f"nats://route:wrong@127.0.0.1:{server.route_port}",
        ):
            stranger = NatsTransport(address, inbox_prefix="_X", echo_subject="x", options=FAST)
            await stranger.start()
            await until(lambda s=stranger: s.last_error != "not started", "an attempt has failed")  # type: ignore[misc]
            assert not stranger.connected
            await stranger.close()

    _play(scene)


def test_a_peer_with_a_login_of_its_own_joins_by_an_invitation_made_on_another_one() -> None:
    with short_directory() as root:
        plan = loopback_plan(root, peers=2, servers=1)
        with prepared_servers(plan):
            one = RunningPeer(root, "--nats-url", f"@{plan.peer(1).secrets / 'nats-url'}", name="peer-1")
            two = RunningPeer(root, name="peer-2")
            try:
                one.start()
                two.options = ("--join", one.operator()("invite_peer")["token"])  # names the user of peer-1
                two.start()
                eventually(lambda: one.operator()("status")["members"] == 2, "it is a member")
            finally:
                one.kill()
                two.kill()
