"""What only HTTP has: verbs, paths, headers, statuses, and who may reach the endpoint at all."""

from __future__ import annotations

import json
from typing import Any

import pytest

from node.peer_config import PeerConfig
from tests.conformance.mcp.harness import CAPABILITIES_KEY, VERSION_KEY, Client
from tests.conformance.mcp.links import HttpLink
from tests.conformance.mcp.model import HTTP, LEGACY, requirement
from tests.conformance.mcp.shared_peer import ALLOWED_HOST, ALLOWED_ORIGIN, SharedPeer
from tests.support.hyphae_command import eventually

PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
PONG = {"jsonrpc": "2.0", "id": 1, "result": {}}
NOTICE = b'{"jsonrpc":"2.0","method":"notifications/initialized"}'
INITIALIZE = b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}'
META = {VERSION_KEY: "2026-07-28", CAPABILITIES_KEY: {}}
DISCOVER = json.dumps(
    {"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": {"_meta": META}}
).encode()
DISCOVER_HEADERS = [("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", "server/discover")]
FOREIGN_ORIGINS = [
    "null",
    "https://evil.example",
    "http://localhost.evil.com",
    "http://127.0.0.1.evil.com",
    "http://evil.com/http://localhost",
    "http://evil.com#localhost",
    "http://localhost@evil.com",
    "file://",
    "",
    "https://app.example:8443",
    "http://app.example",
]
FOREIGN_HOSTS = ["evil.example", "127.0.0.1.evil.example", "localhost.evil.com", "evil.com:4974", "[::2]"]


@requirement("http.origin", over=HTTP)
@pytest.mark.parametrize("origin", FOREIGN_ORIGINS)
@pytest.mark.parametrize("body", [PING, INITIALIZE, b"nonsense"], ids=["ping", "initialize", "nonsense"])
def test_a_foreign_origin_is_forbidden(http: HttpLink, origin: str, body: bytes) -> None:
    reply = http.exchange("POST", body, [("Origin", origin)])
    assert reply.status == 403
    assert reply.body["id"] is None
    assert "access-control-allow-origin" not in reply.headers


@requirement("http.own-origin", over=HTTP)
@pytest.mark.parametrize(
    "origin", ["http://localhost", "http://127.0.0.1:1", "https://[::1]:9", ALLOWED_ORIGIN]
)
def test_an_origin_of_this_machine_or_of_the_allow_list_is_served(http: HttpLink, origin: str) -> None:
    assert http.exchange("POST", PING, [("Origin", origin)]).result() == {}
    assert http.exchange("POST", PING).result() == {}


@requirement("http.host", over=HTTP)
@pytest.mark.parametrize("host", FOREIGN_HOSTS)
@pytest.mark.parametrize(
    "origin", [[], [("Origin", "http://evil.example")]], ids=["no origin", "evil origin"]
)
def test_a_foreign_host_is_forbidden(http: HttpLink, host: str, origin: list[tuple[str, str]]) -> None:
    assert http.exchange("POST", PING, [("Host", host), *origin]).status == 403


@requirement("http.own-host", over=HTTP)
@pytest.mark.parametrize(
    "host", ["localhost", "localhost:1", "127.0.0.1", "127.0.0.1:65535", "[::1]", "[::1]:9", ALLOWED_HOST]
)
def test_a_host_of_this_machine_or_of_the_allow_list_is_served(http: HttpLink, host: str) -> None:
    assert http.exchange("POST", PING, [("Host", host)]).result() == {}


@requirement("http.loopback", over=HTTP)
def test_a_peer_listens_on_loopback_unless_told_otherwise(peer: SharedPeer) -> None:
    assert PeerConfig(peer.root).http_host == "127.0.0.1"
    assert peer.url.startswith("http://127.0.0.1:")


@requirement("http.get", over=HTTP)
@pytest.mark.parametrize("accept", ["text/event-stream", "application/json"])
def test_get_is_not_allowed_key_or_not(peer: SharedPeer, http: HttpLink, accept: str) -> None:
    for link in (http, HttpLink(peer.url, None)):
        reply = link.exchange("GET", headers=[("Accept", accept), ("Last-Event-ID", "1")])
        assert (reply.status, reply.headers["allow"]) == (405, "POST")


@requirement("http.verbs", over=HTTP)
@pytest.mark.parametrize("verb", ["DELETE", "PUT", "PATCH", "OPTIONS", "HEAD"])
def test_any_verb_but_post_is_not_allowed(http: HttpLink, verb: str) -> None:
    reply = http.exchange(verb, headers=[("Mcp-Session-Id", "1")])
    assert (reply.status, reply.headers["allow"]) == (405, "POST")


@requirement("http.paths", "seed.post-mcp", over=HTTP)
def test_the_endpoint_is_one_path_beside_the_others_of_the_peer(http: HttpLink) -> None:
    assert http.exchange("POST", PING, path="/mcp").result() == {}
    assert http.exchange("POST", PING, path="/mcp/").result() == {}
    for path in ("/", "/mcp/x", "/mcpx", "/sse", "/messages", "/v1/mcp"):
        assert http.exchange("POST", PING, path=path).status == 404
    assert http.exchange("GET", path="/v1/status").status == 200


@requirement("http.key", "seed.header-key", over=HTTP)
@pytest.mark.parametrize("given", ["none", "empty", "malformed", "revoked", "bearer", "two"])
@pytest.mark.parametrize(
    "body",
    [PING, INITIALIZE, DISCOVER, NOTICE, b"nonsense", b"[]", b"x" * 2_000_000],
    ids=["ping", "initialize", "discover", "notification", "nonsense", "batch", "large"],
)
def test_every_post_without_a_good_key_is_401(peer: SharedPeer, key: str, given: str, body: bytes) -> None:
    revoked = peer.key("leaver")
    peer.run(peer.opened.call("revoke_key", {"id": revoked.split("_")[1]}))
    headers = {
        "none": [],
        "empty": [("x-hyphae-key", "")],
        "malformed": [("x-hyphae-key", key[:-1])],
        "revoked": [("x-hyphae-key", revoked)],
        "bearer": [("Authorization", f"Bearer {revoked}")],
        "two": [("x-hyphae-key", key), ("Authorization", f"Bearer {revoked}")],
    }[given]
    reply = HttpLink(peer.url, None).exchange(
        "POST", body, [*headers, *DISCOVER_HEADERS[: (body == DISCOVER and 2) or 0]]
    )
    assert reply.status == 401
    error = reply.body["error"]
    assert error["code"] == 4010
    assert error["message"].startswith("unauthenticated: ")
    assert not [secret for secret in (key, revoked) if secret in str(reply)]


@requirement("http.no-oauth", over=HTTP)
def test_401_sends_nobody_to_an_oauth_server_that_does_not_exist(peer: SharedPeer) -> None:
    stranger = HttpLink(peer.url, None)
    challenge = stranger.exchange("POST", INITIALIZE).headers["www-authenticate"]
    assert not challenge.lower().startswith("bearer")
    assert "resource_metadata" not in challenge
    assert stranger.exchange("GET", path="/.well-known/oauth-protected-resource").status == 404


@requirement("http.content-type", over=HTTP)
@pytest.mark.parametrize(
    "content_type", ["text/plain", "application/x-www-form-urlencoded", "application/msgpack", "", "json"]
)
def test_a_body_that_is_not_said_to_be_json_is_415(http: HttpLink, content_type: str) -> None:
    assert http.exchange("POST", PING, [("Content-Type", content_type)]).status == 415
    assert http.exchange("POST", PING, [("", "content-type")]).status == 415


@requirement("http.content-type", over=HTTP)
@pytest.mark.parametrize(
    "content_type", ["application/json; charset=utf-8", "Application/JSON", "application/json;x=y"]
)
def test_parameters_of_the_content_type_pass(http: HttpLink, content_type: str) -> None:
    assert http.exchange("POST", PING, [("Content-Type", content_type)]).result() == {}


@requirement("http.accept", over=HTTP)
@pytest.mark.parametrize(
    "accept",
    [
        ("Accept", "application/json"),
        ("Accept", "text/event-stream, application/json"),
        ("Accept", "application/*;q=0.5"),
        ("Accept", "*/*"),
        ("", "accept"),
    ],
    ids=str,
)
def test_an_accept_that_takes_json_or_is_absent_passes(http: HttpLink, accept: tuple[str, str]) -> None:
    assert http.exchange("POST", PING, [accept]).result() == {}


@requirement("http.accept", over=HTTP)
@pytest.mark.parametrize("accept", ["text/event-stream", "text/html", "application/json;q=0"])
def test_an_accept_that_excludes_json_is_406(http: HttpLink, accept: str) -> None:
    assert http.exchange("POST", PING, [("Accept", accept)]).status == 406


@requirement("http.bad-json", "http.bad-envelope", revisions=("2025-11-25", "2026-07-28"), over=HTTP)
def test_what_is_no_message_is_400(client: Client) -> None:
    client.ask(b"nonsense").error(-32700, id=None, http=400)
    client.ask(b"5").error(-32600, id=None, http=400)
    client.ask(b'{"jsonrpc":"2.0","id":3}').error(-32600, id=3, http=400)


@requirement("http.notification", over=HTTP)
def test_a_notification_is_202_without_a_body_and_a_malformed_one_is_400(http: HttpLink) -> None:
    reply = http.exchange("POST", NOTICE)
    assert (reply.status, reply.raw) == (202, b"")
    assert "content-type" not in reply.headers
    for body in (b'{"method":"notifications/x"}', b'{"jsonrpc":"2.0","method":5}'):
        assert http.exchange("POST", body).error(-32600, id=None, http=400)


@requirement("http.one-object", "http.no-session", over=HTTP)
@pytest.mark.parametrize("body", [PING, INITIALIZE, b'{"jsonrpc":"2.0","id":1,"method":"no/such"}'])
def test_a_request_gets_one_json_object_and_no_session(http: HttpLink, body: bytes) -> None:
    reply = http.exchange("POST", body, [("Mcp-Session-Id", "theirs"), ("Last-Event-ID", "7")])
    assert (reply.status, reply.headers["content-type"]) == (200, "application/json")
    assert reply.headers["content-length"] == str(len(reply.raw))
    assert isinstance(reply.body, dict)
    assert "mcp-session-id" not in reply.headers


@requirement("http.version-known", "seed.version-header", revisions=LEGACY, over=HTTP)
def test_a_known_version_passes_on_every_request_and_notification(client: Client) -> None:
    for name in ("MCP-Protocol-Version", "mcp-protocol-version", "Mcp-Protocol-VERSION"):
        headers = [(name, f" {client.revision}\t")]
        assert client.ask(INITIALIZE, headers).result()["protocolVersion"] == "2025-11-25"
        assert client.ask(PING, headers).result() == {}
        client.tell(NOTICE, headers).nothing()


@requirement("http.version-absent", "seed.version-absent", over=HTTP)
def test_an_absent_version_is_accepted(http: HttpLink) -> None:
    for body in (INITIALIZE, PING, b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}'):
        assert http.exchange("POST", body).result() is not None
    http.exchange("POST", NOTICE).nothing()


@requirement("http.version-unknown", "seed.version-header", over=HTTP)
@pytest.mark.parametrize(
    "version", ["2025-11-24", "1.0", "", "latest", "2025-11-25,2025-06-18", "2026-07-29", "DRAFT"]
)
def test_an_unknown_version_is_400_with_the_id(http: HttpLink, version: str) -> None:
    headers = [("MCP-Protocol-Version", version)]
    for body in (PING, INITIALIZE):
        reply = http.exchange("POST", body, headers)
        assert reply.status == 400
        assert (reply.body["id"], reply.body["error"]["code"]) == (1, -32600)
    assert http.exchange("POST", NOTICE, headers).status == 400
    two = [("MCP-Protocol-Version", "2025-11-25"), ("MCP-Protocol-Version", "2025-06-18")]
    assert http.exchange("POST", PING, two).status == 400


@requirement("http.cancel-ignored", "wire.cancel-ignored", over=HTTP)
def test_one_request_cannot_cancel_another(peer: SharedPeer, http: HttpLink, other_key: str) -> None:
    call = b'{"jsonrpc":"2.0","id":"slow","method":"tools/call","params":{"name":"list_scenes"}}'
    notice = b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"slow"}}'
    connection = http.connect()
    with peer.holding("list_scenes"):
        http.begin(connection, "POST", call, [])
        eventually(lambda: "list_scenes" in peer.service.waiting, "the call runs")
        HttpLink(peer.url, other_key).exchange("POST", notice).nothing()
        http.exchange("POST", notice).nothing()
    answer = json.loads(connection.getresponse().read())
    connection.close()
    assert answer["result"]["isError"] is False
    assert peer.service.cancelled == []


@requirement("http.size", over=HTTP)
def test_a_body_beyond_its_limit_is_413_before_its_type_is_looked_at(http: HttpLink) -> None:
    assert http.exchange("POST", b" " * 1_100_000 + PING, [("Content-Type", "text/plain")]).status == 413
    assert http.exchange("POST", b" " * 1_000_000 + PING).result() == {}


@requirement("http.order", over=HTTP)
def test_the_first_thing_that_is_wrong_decides(peer: SharedPeer, http: HttpLink) -> None:
    wrong: list[tuple[str, str]] = [
        ("Host", "evil.example"),
        ("path", "/nowhere"),
        ("verb", "PUT"),
        ("x-hyphae-key", "nonsense"),
        ("Content-Type", "text/plain"),
        ("Accept", "text/html"),
        ("body", "nonsense"),
    ]
    statuses: list[Any] = []
    for first in range(len(wrong) + 1):
        rest = dict(wrong[first:])
        headers = [(n, v) for n, v in rest.items() if n not in {"path", "verb", "body"}]
        body = b"nonsense" if "body" in rest else PING
        verb, path = rest.get("verb", "POST"), rest.get("path", "/mcp")
        statuses.append(http.exchange(verb, body, headers, path).status)
    assert statuses == [403, 404, 405, 401, 415, 406, 400, 200]
    assert http.exchange("POST", PING).body == PONG
    assert peer.url.startswith("http://")
