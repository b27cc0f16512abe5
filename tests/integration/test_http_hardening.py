"""The HTTP surface of a real peer towards clients that are odd, old, in a browser, or hostile."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from mcp_gateway.http_app import LARGE_BODY_BYTES
from tests.support.running_mesh import RunningPeer, running_peer

PING = json.dumps({"jsonrpc": "2.0", "id": 7, "method": "ping"})
NO_KEY = "hyp_aaaaaaaaaaaaaaaa_" + "a" * 52


@pytest.fixture(scope="module")
def peer() -> Iterator[RunningPeer]:
    environment = {
        "HYPHAE_ALLOWED_HOSTS": "mesh.example, mesh.example:8443",
        "HYPHAE_ALLOWED_ORIGINS": "https://app.example",
        "HYPHAE_HTTP_NAME": "named.example",
    }
    with running_peer("--no-nats", environment=environment) as running:
        yield running


class Answer:
    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.status = response.status
        self.headers = {name.lower(): value for name, value in response.getheaders()}
        self.body = response.read()

    @property
    def json(self) -> Any:
        assert self.headers["content-type"] == "application/json"
        return json.loads(self.body)


def send(peer: RunningPeer, method: str, path: str, body: str | None = PING, **headers: str | None) -> Answer:
    """Make one request with the agent's key; headers by name with underscores, None leaves a usual one out."""
    usual: Mapping[str, str | None] = {
        "x-hyphae-key": peer.secret("agent"),
        "content-type": "application/json",
    }
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    connection = http.client.HTTPConnection("127.0.0.1", int(peer.url.rpartition(":")[2]), timeout=20)
    try:
        chosen = {name: value for name, value in {**usual, **given}.items() if value is not None}
        connection.request(method, path, body, chosen)
        return Answer(connection.getresponse())
    finally:
        connection.close()


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1", 200),
        ("127.0.0.1:1", 200),
        ("localhost", 200),
        ("LocalHost:8080", 200),
        ("[::1]", 200),
        ("[::1]:4974", 200),
        ("mesh.example", 200),
        ("mesh.example:443", 200),
        ("named.example", 200),
        ("evil.example", 403),
        ("127.0.0.1.evil.example", 403),
        ("[::2]", 403),
        ("", 403),
    ],
)
def test_hosts_that_are_loopback_or_configured_are_served_and_no_others(
    peer: RunningPeer, host: str, status: int
) -> None:
    assert send(peer, "POST", "/mcp", host=host).status == status


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("http://localhost:1", 200),
        ("http://[::1]:3000", 200),
        ("https://app.example", 200),
        ("https://app.example:8443", 403),
        ("http://app.example", 403),
        ("https://evil.example", 403),
        ("null", 403),
    ],
)
def test_origins_likewise(peer: RunningPeer, origin: str, status: int) -> None:
    assert send(peer, "POST", "/mcp", origin=origin).status == status


def test_what_a_proxy_says_about_the_client_is_ignored(peer: RunningPeer) -> None:
    forged = {
        "x_forwarded_host": "localhost",
        "forwarded": "host=localhost;for=127.0.0.1",
        "x_forwarded_for": "1",
    }
    assert send(peer, "POST", "/mcp", host="evil.example", **forged).status == 403
    honest = {
        "x_forwarded_host": "evil.example",
        "x_forwarded_proto": "https",
        "x_forwarded_for": "203.0.113.9",
    }
    assert send(peer, "POST", "/mcp", **honest).status == 200


@pytest.mark.parametrize("path", ["/mcp", "/mcp/"])
def test_both_spellings_answer_without_a_redirect_and_without_a_session(peer: RunningPeer, path: str) -> None:
    initialize = {
        "jsonrpc": "2.0",
        "id": 0,
        "method": "initialize",
        "params": {"protocolVersion": "2025-11-25"},
    }
    answer = send(peer, "POST", path, json.dumps(initialize), mcp_session_id="made-up", last_event_id="3")
    assert answer.status == 200
    assert answer.json["id"] == 0
    assert "mcp-session-id" not in answer.headers


@pytest.mark.parametrize("verb", ["GET", "DELETE", "PUT", "PATCH", "OPTIONS", "HEAD", "TRACE"])
@pytest.mark.parametrize("keyed", [True, False])
def test_other_verbs_are_405_as_json_with_allow_key_or_not(peer: RunningPeer, verb: str, keyed: bool) -> None:
    headers = {} if keyed else {"x_hyphae_key": None}
    answer = send(peer, verb, "/mcp", None, access_control_request_method="POST", **headers)
    assert (answer.status, answer.headers["allow"]) == (405, "POST")
    if verb != "HEAD":
        assert answer.json["error"]["code"] == "method_not_allowed"


@pytest.mark.parametrize(
    "path",
    [
        "/.well-known/oauth-protected-resource",
        "/.well-known/oauth-protected-resource/mcp",
        "/.well-known/oauth-authorization-server",
        "/register",
        "/",
        "/mcp/x",
        "//mcp",
        "/%2e%2e/mcp",
    ],
)
def test_other_paths_are_404_as_json_key_or_not(peer: RunningPeer, path: str) -> None:
    for headers in ({}, {"x_hyphae_key": None}):
        answer = send(peer, "GET", path, None, **headers)
        assert (answer.status, answer.json["error"]["code"]) == (404, "not_found")


@pytest.mark.parametrize("key", [None, NO_KEY, "not a key", ""])
def test_a_missing_or_unknown_key_is_401_with_a_challenge_and_no_door_to_oauth(
    peer: RunningPeer, key: str | None
) -> None:
    for path in ("/mcp", "/v1/status"):
        answer = send(peer, "POST" if path == "/mcp" else "GET", path, x_hyphae_key=key)
        assert answer.status == 401
        assert answer.headers["www-authenticate"] == 'Hyphae realm="hyphae"'
        assert "unauthenticated" in json.dumps(answer.json)


def test_of_a_large_body_nothing_is_read_before_the_key_is_known(peer: RunningPeer) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", int(peer.url.rpartition(":")[2]), timeout=20)
    connection.putrequest("POST", "/mcp")
    for name, value in (("x-hyphae-key", NO_KEY), ("content-type", "application/json")):
        connection.putheader(name, value)
    connection.putheader("content-length", str(LARGE_BODY_BYTES + 1))
    connection.endheaders()  # and not one byte of the body
    assert Answer(connection.getresponse()).status == 401
    connection.close()


def test_no_answer_lets_other_origins_read_it_and_none_is_kept_or_guessed_at(peer: RunningPeer) -> None:
    notification = json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"})
    answers = [
        send(peer, "POST", "/mcp", origin="https://app.example"),
        send(peer, "POST", "/mcp", notification),
        send(peer, "POST", "/mcp", x_hyphae_key=None),
        send(peer, "POST", "/mcp", "{"),
        send(peer, "OPTIONS", "/mcp", None, origin="https://app.example"),
        send(peer, "GET", "/v1/status", None),
        send(peer, "GET", "/healthz", None),
        send(peer, "GET", "/nowhere", None),
    ]
    assert [answer.status for answer in answers] == [200, 202, 401, 400, 405, 200, 200, 404]
    for answer in answers:
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert not [name for name in answer.headers if name.startswith("access-control-")]
        assert not {"server", "location", "set-cookie"} & set(answer.headers)


def test_addresses_show_the_name_that_clients_use(peer: RunningPeer) -> None:
    assert peer.url.startswith("http://named.example:")


@pytest.mark.parametrize("field", ["x-hyphae-key: {key}", "authorization: Bearer {key}"])
@pytest.mark.parametrize("at_once", [True, False])
def test_a_field_behind_the_body_is_no_credential(peer: RunningPeer, field: str, at_once: bool) -> None:
    body = b'{"content":"in a trailer","cell_type":"Fact"}'
    head = b"POST /v1/nodes HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    trailer = b"0\r\n" + field.format(key=peer.secret("agent")).encode() + b"\r\n\r\n"
    chunk = b"%x\r\n%b\r\n" % (len(body), body)
    whole = head + b"connection: close\r\ntransfer-encoding: chunked\r\n\r\n" + chunk + trailer
    with socket.create_connection(("127.0.0.1", int(peer.url.rpartition(":")[2])), timeout=20) as raw:
        for part in [whole] if at_once else [whole[:60], whole[60:]]:
            raw.sendall(part)
        answer = b"".join(iter(lambda: raw.recv(65536), b""))
    assert answer.startswith(b"HTTP/1.1 401 ")


def test_of_a_body_beyond_4_kib_nothing_is_kept_before_the_key_is_known(peer: RunningPeer) -> None:
    unknown = "hyp_" + "a" * 16 + "_" + "a" * 52
    assert (
        send(peer, "POST", "/v1/recall", json.dumps({"query": "x" * 5_000}), x_hyphae_key=unknown).status
        == 401
    )
    raw = socket.create_connection(("127.0.0.1", int(peer.url.rpartition(":")[2])), timeout=20)
    with raw:
        head = f"POST /v1/recall HTTP/1.1\r\nhost: localhost\r\nx-hyphae-key: {unknown}\r\n"
        raw.sendall(
            f"{head}content-type: application/json\r\ncontent-length: 5000\r\n\r\n".encode() + b"{" * 100
        )
        assert raw.recv(100).startswith(b"HTTP/1.1 401 ")  # before the rest of the body came
