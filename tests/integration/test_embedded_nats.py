"""The server that `hyphae up` brings along: who may do what, its files, its start and its end."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import json
import os
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from mesh.nats_address import gateway_echo, gateway_reply_prefix, parse_nats_url
from mesh.nats_binary import check_version, find_nats_server
from mesh.nats_connections import peer_transport
from mesh.nats_server import EmbeddedNats
from mesh.nats_transport import NatsOptions, NatsTransport
from proto.errors import Conflict, Invalid, Unavailable
from proto.ids import MeshId, PeerId
from proto.subjects import Subjects
from tests.support.waiting import until

MESH, PEER = MeshId(bytes(16)), PeerId(b"p" * 16)
SUBJECTS = Subjects(MESH)
FAST = NatsOptions(heartbeat_s=0.2, retry_s=0.02, retry_max_s=0.1)


def _run(server: EmbeddedNats, scene: Callable[[EmbeddedNats], Awaitable[None]]) -> None:
    async def run() -> None:
        await server.start()
        try:
            await scene(server)
        finally:
            await server.stop()

    asyncio.run(run())


def _gateway(url: str, connection: str = "c1", prefix: str | None = None) -> NatsTransport:
    prefix = prefix or gateway_reply_prefix(parse_nats_url(url).user)
    return NatsTransport(
        url, inbox_prefix=prefix, echo_subject=gateway_echo(prefix, connection), options=FAST
    )


class Ear:
    def __init__(self) -> None:
        self.heard: list[tuple[str, bytes]] = []

    async def __call__(self, subject: str, _reply: str, body: bytes) -> None:
        self.heard.append((subject, body))


async def _up(transport: NatsTransport) -> NatsTransport:
    await transport.start()
    assert await transport.wait_connected(10), transport.last_error
    return transport


# -- who may do what


def test_a_peer_and_a_gateway_connect_and_a_request_is_answered(tmp_path: Path) -> None:
    async def scene(server: EmbeddedNats) -> None:
        peer = await _up(peer_transport(server.peer_url(), MESH, PEER, "rpc", FAST))
        gateway = await _up(_gateway(server.gateway_url()))

        async def serve(_subject: str, reply: str, body: bytes) -> None:
            await peer.publish(reply, body.upper())

        await peer.subscribe(SUBJECTS.requests(PEER), serve)
        assert await peer.request(SUBJECTS.requests(PEER), b"self", 10) == b"SELF"
        assert await gateway.request(SUBJECTS.requests(PEER), b"hello", 10) == b"HELLO"
        digests = Ear()
        await gateway.subscribe("hyphae.*.dg.*", digests)
        with contextlib.suppress(Unavailable):  # makes sure that the subscription is in force
            await gateway.request(SUBJECTS.requests(PeerId(b"q" * 16)), b"", 10)
        await peer.publish(SUBJECTS.digest(PEER), b"here")
        await until(lambda: digests.heard == [(SUBJECTS.digest(PEER), b"here")], "the gateway hears a digest")
        assert (peer.counters.violations, gateway.counters.violations) == (0, 0)
        await asyncio.gather(peer.close(), gateway.close())

    _run(EmbeddedNats(tmp_path / "nats"), scene)


@pytest.mark.parametrize(
    "subject",
    [
        SUBJECTS.live(0, PEER),
        SUBJECTS.digest(PEER),
        SUBJECTS.pull(PEER),
        SUBJECTS.acks(PEER),
        SUBJECTS.echo(PEER, "rpc"),
        "_PEER.x.y",
        "_GW.gateway.c1.token",
        "_GW.other.c1.echo",
        "$SYS.REQ.SERVER.PING",
    ],
)
def test_a_gateway_cannot_publish_anything_but_requests_and_notices_it(tmp_path: Path, subject: str) -> None:
    async def scene(server: EmbeddedNats) -> None:
        peer, ear = peer_transport(server.peer_url(), MESH, PEER, "live", FAST), Ear()
        await peer.subscribe("hyphae.>", ear)
        await peer.subscribe("_PEER.>", ear)
        await _up(peer)
        gateway, violations = _gateway(server.gateway_url()), list[str]()
        gateway.watch(on_violation=violations.append)
        await _up(gateway)
        await gateway.publish(subject, b"forged")
        await until(lambda: gateway.counters.violations == 1, "the refusal is noticed")
        assert "publish" in violations[0].lower()
        assert gateway.connected
        await peer.publish(SUBJECTS.live(0, PEER), b"real")
        await until(lambda: (SUBJECTS.live(0, PEER), b"real") in ear.heard, "the peer goes on")
        assert not [body for _, body in ear.heard if body == b"forged"]
        await asyncio.gather(peer.close(), gateway.close())

    _run(EmbeddedNats(tmp_path / "nats", gateways=("other",)), scene)


@pytest.mark.parametrize(
    "subject",
    [
        "hyphae.>",
        ">",
        "*.>",
        "hyphae.*.*.*",
        SUBJECTS.requests(PEER),
        "hyphae.*.rpc.*",
        "hyphae.*.ev.*.*",
        "_PEER.>",
        "_GW.>",
        "_GW.*.>",
        "_GW.*.*.*",
        "_GW.other.>",
        "$SYS.>",
    ],
)
def test_a_gateway_cannot_listen_to_the_mesh_or_to_answers_for_others(tmp_path: Path, subject: str) -> None:
    async def scene(server: EmbeddedNats) -> None:
        gateway, ear = _gateway(server.gateway_url()), Ear()
        await gateway.subscribe(subject, ear)
        await _up(gateway)
        await until(lambda: gateway.counters.violations == 1, "the refusal is noticed")
        peer = await _up(peer_transport(server.peer_url(), MESH, PEER, "live", FAST))
        other = await _up(_gateway(server.gateway_url("other")))
        probe = Ear()
        await gateway.subscribe("hyphae.*.dg.*", probe)
        with contextlib.suppress(Unavailable):  # makes sure that the subscription is in force
            await gateway.request(SUBJECTS.requests(PeerId(b"q" * 16)), b"", 10)
        for said in (SUBJECTS.live(0, PEER), SUBJECTS.requests(PEER), "_PEER.x.t", "_GW.other.c1.t"):
            await peer.publish(said, b"secret")
        await other.publish(SUBJECTS.requests(PEER), b"secret")
        await peer.publish(SUBJECTS.digest(PEER), b"last")
        await until(lambda: bool(probe.heard), "the gateway hears what it may hear")
        assert ear.heard == []
        assert gateway.counters.violations == 1  # and every reconnection would be refused again, not ended
        await asyncio.gather(gateway.close(), peer.close(), other.close())

    _run(EmbeddedNats(tmp_path / "nats", gateways=("other",)), scene)


@pytest.mark.parametrize("login", ["", "peer:wrong@", "peer:@", "nobody:x@", "gateway:wrong@"])
def test_nobody_gets_in_without_a_password(tmp_path: Path, login: str) -> None:
    async def scene(server: EmbeddedNats) -> None:
        transport = _gateway(f"nats://{login}127.0.0.1:{server.port}", prefix="_GW.gateway")
        await transport.start()
        await until(lambda: "Authorization" in transport.last_error, "the refusal is known")
        assert transport.counters.connects == 0
        await transport.close()

    _run(EmbeddedNats(tmp_path / "nats"), scene)


def test_it_listens_on_the_loopback_only(tmp_path: Path) -> None:
    async def scene(server: EmbeddedNats) -> None:
        psutil: Any = importlib.import_module("psutil")
        listening = [c for c in psutil.Process(server.pid).net_connections() if c.status == "LISTEN"]
        assert [(c.laddr.ip, c.laddr.port) for c in listening] == [("127.0.0.1", server.port)]

    _run(EmbeddedNats(tmp_path / "nats"), scene)


# -- files


def test_secrets_are_readable_by_their_owner_only_and_stand_in_no_log_and_no_command_line(
    tmp_path: Path,
) -> None:
    async def scene(server: EmbeddedNats) -> None:
        peer = await _up(peer_transport(server.peer_url(), MESH, PEER, "live", FAST))
        await peer.close()
        directory = tmp_path / "dätä dir" / "nats"
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700
        assert {path.name for path in directory.iterdir()} == {
            "nats.conf",
            "nats.json",
            "nats.log",
            "nats.pid",
        }
        assert {stat.S_IMODE(path.stat().st_mode) for path in directory.iterdir()} == {0o600}
        secrets = [urlsplit(url).password or "" for url in (server.peer_url(), server.gateway_url())]
        assert len(set(secrets)) == 2
        assert all(len(secret) >= 32 for secret in secrets)
        command_line = Path(f"/proc/{server.pid}/cmdline")
        shown = (directory / "nats.log").read_text() + (
            command_line.read_text() if command_line.exists() else ""
        )
        assert not [secret for secret in secrets if secret in shown]

    _run(EmbeddedNats(tmp_path / "dätä dir" / "nats"), scene)


def test_port_and_passwords_stay_the_same_across_restarts(tmp_path: Path) -> None:
    async def urls() -> tuple[str, str]:
        server = EmbeddedNats(tmp_path)
        await server.start()
        found = (server.peer_url(), server.gateway_url())
        await server.stop()
        return found

    assert asyncio.run(urls()) == asyncio.run(urls())


def test_an_unreadable_state_file_is_renewed(tmp_path: Path) -> None:
    async def scene(server: EmbeddedNats) -> None:
        await (await _up(peer_transport(server.peer_url(), MESH, PEER, "live", FAST))).close()

    (tmp_path / "nats.json").write_text('{"port": "x", "passwords": [')
    _run(EmbeddedNats(tmp_path), scene)


# -- starting and ending


@pytest.mark.parametrize("answers", [True, False], ids=["a listener", "a bound socket"])
def test_a_kept_port_that_was_taken_meanwhile_is_replaced_by_another(tmp_path: Path, answers: bool) -> None:
    async def scene() -> None:
        with socket.socket() as holder:
            holder.bind(("127.0.0.1", 0))
            if answers:
                holder.listen()
            taken = holder.getsockname()[1]
            (tmp_path / "nats.json").write_text(json.dumps({"port": taken}))
            server = EmbeddedNats(tmp_path)
            await server.start()
            assert server.port != taken
            assert json.loads((tmp_path / "nats.json").read_text())["port"] == server.port
            await (await _up(peer_transport(server.peer_url(), MESH, PEER, "live", FAST))).close()
            await server.stop()

    asyncio.run(scene())


def test_a_port_that_was_asked_for_and_is_taken_is_an_error_that_names_it(tmp_path: Path) -> None:
    async def scene() -> None:
        with socket.socket() as holder:
            holder.bind(("127.0.0.1", 0))
            holder.listen()
            port = holder.getsockname()[1]
            server = EmbeddedNats(tmp_path, port=port)
            with pytest.raises(Conflict, match=str(port)):
                await server.start()
            assert server.pid is None

    asyncio.run(scene())


def test_a_killed_server_is_seen_and_started_again_and_clients_come_back(tmp_path: Path) -> None:
    async def scene(server: EmbeddedNats) -> None:
        peer = await _up(peer_transport(server.peer_url(), MESH, PEER, "live", FAST))
        pid = server.pid
        assert pid is not None
        await server.start()  # harmless while it runs
        assert server.pid == pid
        os.kill(pid, signal.SIGKILL)
        assert await asyncio.wait_for(server.wait(), 10) == -signal.SIGKILL
        assert server.poll() == -signal.SIGKILL
        await server.start()
        await until(lambda: peer.counters.connects == 2, "the peer is back")
        await peer.close()

    _run(EmbeddedNats(tmp_path), scene)


def test_stop_is_bounded_even_for_a_server_that_does_not_listen_to_signals(tmp_path: Path) -> None:
    async def scene(server: EmbeddedNats) -> None:
        assert server.pid is not None
        os.kill(server.pid, signal.SIGSTOP)
        await asyncio.wait_for(server.stop(timeout_s=0.1), 10)
        assert server.poll() == -signal.SIGKILL
        await server.stop()

    _run(EmbeddedNats(tmp_path), scene)


PARENT = """
import asyncio, sys
from pathlib import Path
from mesh.nats_server import EmbeddedNats

async def main():
    server = EmbeddedNats(Path(sys.argv[1]))
    await server.start()
    sys.stderr.write(f"{server.pid}\\n")
    sys.stderr.flush()
    await asyncio.Event().wait()

asyncio.run(main())
"""


def _start_parent(directory: Path) -> tuple[subprocess.Popen[str], int]:
    root = Path(__file__).parents[2]
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(directory)],
        cwd=root,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert parent.stderr is not None
    return parent, int(parent.stderr.readline())


def _alive(pid: int) -> bool:
    try:
        return "zombie" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def test_a_server_does_not_outlive_a_parent_that_was_killed_or_is_replaced_by_the_next(
    tmp_path: Path,
) -> None:
    async def scene() -> None:
        parent, pid = _start_parent(tmp_path)
        parent.kill()
        parent.communicate()
        if sys.platform == "linux":
            await until(lambda: not _alive(pid), "the server is gone")
        server = EmbeddedNats(tmp_path)
        await server.start()
        assert server.pid != pid
        await server.stop()

    asyncio.run(scene())


def test_a_server_left_behind_is_ended_by_the_next_start(tmp_path: Path) -> None:
    async def scene() -> None:
        first, second = EmbeddedNats(tmp_path), EmbeddedNats(tmp_path)
        await first.start()
        left, port = first.pid, first.port
        await second.start()
        assert await asyncio.wait_for(first.wait(), 10) == -signal.SIGKILL
        assert (second.pid != left, second.port) == (True, port)
        await second.stop()

    asyncio.run(scene())


def test_it_refuses_to_start_off_the_main_thread(tmp_path: Path) -> None:
    async def scene() -> None:
        with pytest.raises(RuntimeError, match="main thread"):
            await asyncio.to_thread(asyncio.run, EmbeddedNats(tmp_path).start())

    asyncio.run(scene())


# -- the program


def test_the_program_is_found_beside_python_and_the_variable_goes_before_it(tmp_path: Path) -> None:
    beside = find_nats_server({})
    assert beside.parent == Path(sys.executable).parent
    own = tmp_path / "my-nats"
    own.symlink_to(beside)
    assert find_nats_server({"HYPHAE_NATS_SERVER": str(own)}) == own
    assert check_version(own).split(".")[0] == "2"


def test_what_cannot_be_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match=r"HYPHAE_NATS_SERVER is /nowhere/nats"):
        find_nats_server({"HYPHAE_NATS_SERVER": "/nowhere/nats"})
    script = tmp_path / "nats-server"
    script.write_text("#!/bin/sh\necho something else\n")
    script.chmod(0o755)
    with pytest.raises(Unavailable, match="is no nats-server"):
        check_version(script)
    script.write_text("#!/bin/sh\necho nats-server: v2.9.25\n")
    with pytest.raises(Unavailable, match=r"2\.9\.25; 2\.10 is needed"):
        check_version(script)


def test_a_server_that_ends_at_once_is_an_error_that_names_its_log(tmp_path: Path) -> None:
    script = tmp_path / "nats-server"
    script.write_text(
        '#!/bin/sh\n[ "$1" = --version ] && echo nats-server: v2.15.1\necho broken >&2\nexit 3\n'
    )
    script.chmod(0o755)

    async def scene() -> None:
        server = EmbeddedNats(tmp_path / "nats", binary=script)
        with pytest.raises(Unavailable, match=r"exit code 3.*nats\.log"):
            await server.start()
        assert "broken" in (tmp_path / "nats" / "nats.log").read_text()

    asyncio.run(scene())


@pytest.mark.parametrize("name", ["peer", "gateway", "a.b", "", ">", "x" * 41])
def test_names_of_further_gateways_are_checked(tmp_path: Path, name: str) -> None:
    with pytest.raises(Invalid):
        EmbeddedNats(tmp_path, gateways=(name,))


def test_addresses_before_the_first_start_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(Unavailable):
        EmbeddedNats(tmp_path).peer_url()
