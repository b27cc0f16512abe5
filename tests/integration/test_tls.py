"""TLS by settings, with real processes: who may listen how, and whom a client trusts."""

from __future__ import annotations

import contextlib
import datetime
import json
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme
from psutil import Process

from tests.support.certificates import write_ca, write_certificate
from tests.support.hyphae_command import Home, eventually, running_up
from tests.support.places import short_directory
from tests.support.running_mesh import RunningPeer, running_peer
from tests.support.stdio_process import HANDSHAKE, StdioProcess

CA, OTHER_CA = trustme.CA(), trustme.CA()


@pytest.fixture(scope="module")
def files() -> Iterator[Path]:
    """A directory with a CA, another one, and certificates for loopback: a good one and three that are not."""
    with short_directory() as root:
        write_ca(CA, root / "ca.pem")
        write_ca(OTHER_CA, root / "other-ca.pem")
        long_ago = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
        for name, names, options in (
            ("good", ["localhost", "127.0.0.1"], {}),
            ("misnamed", ["mesh.example"], {}),
            ("expired", ["localhost", "127.0.0.1"], {"not_after": long_ago}),
        ):
            (root / name).mkdir()
            write_certificate(CA, root / name, *names, **options)
        yield root


def tls(files: Path, name: str = "good", **more: str) -> dict[str, str]:
    """Return the variables of a peer that speaks https."""
    pair = {"HYPHAE_TLS_CERT": files / name / "cert.pem", "HYPHAE_TLS_KEY": files / name / "key.pem"}
    return {**{variable: str(path) for variable, path in pair.items()}, **more}


@pytest.fixture(scope="module")
def peer(files: Path) -> Iterator[RunningPeer]:
    with running_peer("--no-nats", environment=tls(files)) as running:
        yield running


def client(peer: RunningPeer, root: Path, ca: Path | None, url: str = "") -> Home:
    """Return somebody on another machine who has a key and the address."""
    trusted = {} if ca is None else {"HYPHAE_TLS_CA": str(ca)}
    key = {"HYPHAE_API_KEY": peer.secret("agent"), "HYPHAE_URL": url or peer.url}
    return Home(root, {**key, **trusted})


def test_commands_store_and_recall_over_https(peer: RunningPeer, files: Path) -> None:
    assert peer.url.startswith("https://127.0.0.1:")
    with short_directory() as root:
        home = client(peer, root, files / "ca.pem")
        stored = home.json("store", "Certificates are renewed on Mondays", "--type", "Decision")
        found = home.json("recall", "when are certificates renewed?")
    assert stored["node_id"] in [result["node_id"] for result in found["results"]]


def test_a_stdio_gateway_stores_and_recalls_over_https(peer: RunningPeer, files: Path) -> None:
    with short_directory() as root:
        env = client(peer, root, files / "ca.pem").environment()
        del env["HYPHAE_DATA_DIR"]
        with StdioProcess(env, ("-P",), ("-m", "node", "mcp", "serve")) as gateway:
            gateway.send(HANDSHAKE)
            gateway.answer("init")
            gateway.call(1, "store", content="The gateway speaks TLS", cell_type="Fact")
            node_id = gateway.answer(1)["result"]["structuredContent"]["node_id"]
            gateway.call(2, "recall", query="what does the gateway speak?")
            results = gateway.answer(2)["result"]["structuredContent"]["results"]
    assert node_id in [result["node_id"] for result in results]


@pytest.mark.parametrize(
    ("ca", "text"),
    [
        (None, "nobody signed whom this system trusts. Name the file"),
        ("other-ca.pem", "other-ca.pem did not sign. Name the file"),
        ("nowhere.pem", "nowhere.pem, which cannot be read: No such file or directory"),
        ("good/key.pem", "key.pem, which holds no certificate in PEM"),
    ],
)
def test_a_client_that_does_not_know_the_authority_sends_nothing(
    peer: RunningPeer, files: Path, ca: str | None, text: str
) -> None:
    with short_directory() as root:
        said = client(peer, root, None if ca is None else files / ca).run(
            "recall", "anything", code=2 if ca in {"nowhere.pem", "good/key.pem"} else 4
        )
    assert text in said
    assert "Nothing was sent." in said


@pytest.mark.parametrize(
    ("name", "text"),
    [("misnamed", 'is not for "127.0.0.1". Use a name'), ("expired", "has expired. Its operator")],
)
def test_a_certificate_of_another_name_or_out_of_date_is_refused(files: Path, name: str, text: str) -> None:
    with running_peer("--no-nats", environment=tls(files, name)) as bad, short_directory() as root:
        assert text in client(bad, root, files / "ca.pem").run("recall", "anything", code=4)


def test_https_to_a_peer_that_speaks_plain_http_says_so(files: Path) -> None:
    with running_peer("--no-nats") as plain, short_directory() as root:
        url = plain.url.replace("http://", "https://")
        said = client(plain, root, files / "ca.pem", url).run("recall", "anything", code=4)
    assert "does not speak TLS as it should" in said


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_versions_of_tls_before_1_2_are_refused(
    peer: RunningPeer, files: Path, version: ssl.TLSVersion
) -> None:
    context = ssl.create_default_context(cafile=str(files / "ca.pem"))
    context.minimum_version = context.maximum_version = version
    context.set_ciphers("ALL:@SECLEVEL=0")
    host, port = peer.url.removeprefix("https://").split(":")
    with (
        socket.create_connection((host, int(port)), timeout=20) as plain,
        pytest.raises((ssl.SSLError, ConnectionError)),
        context.wrap_socket(plain, server_hostname=host),
    ):
        raise AssertionError("it was accepted")


def test_the_socket_of_a_peer_with_tls_needs_no_certificate(peer: RunningPeer) -> None:
    home = Home(peer.root, {"HYPHAE_DATA_DIR": str(peer.directory)})
    assert home.json("status")


def test_up_prints_https_everywhere_and_its_peers_speak_it(files: Path) -> None:
    with short_directory() as root:
        home = Home(root, tls(files, HYPHAE_HTTP_NAME="localhost"))
        with running_up(home, "--peers", "2") as up:
            for peer in up.ready["peers"]:
                assert peer["rest_url"].startswith("https://localhost:")
                assert peer["mcp_url"] == f"{peer['rest_url']}/mcp"
            config = json.loads(home.run("mcp", "print-config", "--client", "claude-code", "--http"))
            assert config["mcpServers"]["memory"]["url"] == up.ready["peers"][0]["mcp_url"]
            distant = {
                "HYPHAE_URL": up.ready["peers"][1]["rest_url"],
                "HYPHAE_API_KEY": up.ready["agent_key"],
            }
            other = Home(root / "other", {**distant, "HYPHAE_TLS_CA": str(files / "ca.pem")})
            other.root.mkdir()
            assert other.json("store", "Both peers speak TLS", "--type", "Fact")["node_id"]


def test_an_address_that_others_reach_is_refused_without_tls(files: Path) -> None:
    with short_directory() as root:
        peer = RunningPeer(root, "--no-nats", "--http-host", "0.0.0.0")
        assert "over plain HTTP keys and memories travel in clear" in peer.refusal()
        assert not (root / "peer" / "log.db").exists()
        said = Home(root).run("up", "--http-host", "0.0.0.0", "--http-port", "0", code=2)
        assert "HYPHAE_ALLOW_PLAIN_HTTP=true" in said


@pytest.mark.parametrize("allowed", [True, False])
def test_it_listens_there_with_tls_or_with_leave(files: Path, allowed: bool) -> None:
    environment = {"HYPHAE_ALLOW_PLAIN_HTTP": "true"} if allowed else tls(files)
    with running_peer("--no-nats", "--http-host", "0.0.0.0", environment=environment) as peer:
        assert peer.url.startswith("http://0.0.0.0:" if allowed else "https://0.0.0.0:")


def test_a_key_that_everybody_can_read_keeps_a_peer_from_starting(files: Path) -> None:
    with short_directory() as root:
        loose = write_certificate(CA, root, "localhost")
        loose.key.chmod(0o644)
        environment = {"HYPHAE_TLS_CERT": str(loose.certificate), "HYPHAE_TLS_KEY": str(loose.key)}
        assert "chmod o=" in RunningPeer(root, "--no-nats", environment=environment).refusal()
        assert "chmod o=" in Home(root, environment).run("up", "--http-port", "0", code=2)


def test_connections_that_never_shake_hands_are_bounded_and_leave_the_peer_serving(files: Path) -> None:
    with running_peer("--no-nats", environment=tls(files, HYPHAE_HTTP_CONNECTIONS="40")) as peer:
        handles, port = Process(peer.pid).num_fds(), int(peer.url.rpartition(":")[2])
        with contextlib.ExitStack() as stack:
            silent = [
                stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=20))
                for _ in range(150)
            ]
            hung_up = [connection for connection in silent if _is_hung_up(connection)]
            assert len(hung_up) >= 110
            assert Process(peer.pid).num_fds() <= handles + 41
        with short_directory() as root:
            home = client(peer, root, files / "ca.pem")
            eventually(lambda: Process(peer.pid).num_fds() <= handles, "the places came back")
            home.run("recall", "anything")


def _is_hung_up(connection: socket.socket) -> bool:
    connection.settimeout(0.2)
    try:
        return connection.recv(1) == b""
    except ConnectionError:
        return True
    except TimeoutError:
        return False
