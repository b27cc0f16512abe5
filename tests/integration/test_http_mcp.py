"""`POST /mcp` on a real server, with a fake peer behind it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from proto.messages import KeyCredential
from tests.support.http_peer import JSON_HEADERS, HttpPeer
from tests.support.recording_requester import KEY, OTHER_KEY, UNKNOWN_KEY

PING = '{"jsonrpc":"2.0","id":1,"method":"ping"}'
STORE = {"content": "we retry payments", "cell_type": "Decision"}
NO_KEY = {"content-type": "application/json"}


@pytest.fixture(scope="module")
def shared() -> Iterator[HttpPeer]:
    with HttpPeer(allowed_hosts=["mesh.example"], allowed_origins=["https://app.example"]) as peer:
        yield peer


def test_the_handshake_and_a_call_work(shared: HttpPeer) -> None:
    agreed = shared.rpc(
        "initialize", {"protocolVersion": "2025-06-18"}, **{"MCP-Protocol-Version": "2025-06-18"}
    )
    assert agreed.status == 200
    assert agreed.json["result"]["protocolVersion"] == "2025-06-18"
    assert "mcp-session-id" not in agreed.headers
    assert len(shared.rpc("tools/list").json["result"]["tools"]) == 11
    node_id = shared.call("store", **STORE).json["result"]["structuredContent"]["node_id"]
    hits = shared.call("recall", query="payments").json["result"]["structuredContent"]["results"]
    assert node_id in [hit["node_id"] for hit in hits]


@pytest.mark.parametrize("path", ["/mcp", "/mcp/"])
def test_both_spellings_of_the_path_answer_without_a_redirect(shared: HttpPeer, path: str) -> None:
    assert shared.request("POST", path, PING).json == {"jsonrpc": "2.0", "id": 1, "result": {}}


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT", "PATCH", "OPTIONS", "HEAD"])
@pytest.mark.parametrize("headers", [{}, JSON_HEADERS], ids=["no key", "key"])
def test_other_verbs_are_405_as_json_with_or_without_a_key(
    shared: HttpPeer, method: str, headers: dict[str, str]
) -> None:
    answer = shared.request(method, "/mcp", headers=headers)
    assert answer.status == 405
    assert answer.headers["allow"] == "POST"
    assert answer.headers["content-type"] == "application/json"


@pytest.mark.parametrize(
    "path", ["/", "/mcp/x", "/mcpx", "/.well-known/oauth-protected-resource", "/v1", "/docs"]
)
def test_other_paths_are_404_as_json_without_a_key(shared: HttpPeer, path: str) -> None:
    answer = shared.request("GET", path, headers={})
    assert answer.status == 404
    assert answer.json["error"]["code"] == "not_found"


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"x-hyphae-key": ""},
        {"x-hyphae-key": "nonsense"},
        {"x-hyphae-key": UNKNOWN_KEY},
        {"authorization": f"Bearer {UNKNOWN_KEY}"},
        {"authorization": f"Basic {KEY}"},
        {"authorization": f"Bearer {OTHER_KEY}", "x-hyphae-key": KEY},
    ],
    ids=["none", "empty", "nonsense", "unknown", "unknown bearer", "basic", "two"],
)
@pytest.mark.parametrize(
    "body",
    [
        PING,
        '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}',
        '{"jsonrpc":"2.0","id":1,"method":"tools/list"}',
        '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"list_beacons"}}',
        '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"store"}}',
        '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"unknown"}}',
        '{"jsonrpc":"2.0","method":"notifications/initialized"}',
        '[{"jsonrpc":"2.0","id":1,"method":"ping"}]',
        "not json",
        "x" * 2_000_000,
    ],
    ids=[
        "ping",
        "initialize",
        "list",
        "call",
        "invalid",
        "unknown",
        "notification",
        "batch",
        "no json",
        "large",
    ],
)
def test_without_a_known_key_every_post_is_401(shared: HttpPeer, headers: dict[str, str], body: str) -> None:
    answer = shared.request("POST", "/mcp", body, {**NO_KEY, **headers})
    assert answer.status == 401
    assert answer.headers["www-authenticate"].startswith("Hyphae")
    assert answer.json["error"]["message"].startswith("unauthenticated: ")
    assert UNKNOWN_KEY not in answer.body.decode()


@pytest.mark.parametrize(
    "headers", [{"authorization": f"Bearer {KEY}"}, {"X-Hyphae-Key": KEY, "Authorization": f"bearer {KEY}"}]
)
def test_a_key_is_taken_from_either_header(shared: HttpPeer, headers: dict[str, str]) -> None:
    shared.request("POST", "/mcp", PING, {**NO_KEY, **headers})
    assert shared.requester.requests[-1].credential == KeyCredential(KEY)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost:1", "[::1]:9", "mesh.example", "mesh.example:443"])
@pytest.mark.parametrize("origin", [None, "http://localhost:1", "https://app.example"])
def test_known_hosts_and_origins_are_served(shared: HttpPeer, host: str, origin: str | None) -> None:
    headers = {**JSON_HEADERS, "host": host, **({"origin": origin} if origin else {})}
    assert shared.request("POST", "/mcp", PING, headers).status == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "evil.example"},
        {"host": "127.0.0.1.evil.example"},
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "http://localhost.evil.com"},
    ],
)
@pytest.mark.parametrize("path", ["/mcp", "/v1/status", "/healthz", "/nowhere"])
def test_foreign_hosts_and_origins_are_403_on_every_path(
    shared: HttpPeer, headers: dict[str, str], path: str
) -> None:
    answer = shared.request("POST", path, PING, {**JSON_HEADERS, **headers})
    assert answer.status == 403
    assert "error" in answer.json


@pytest.mark.parametrize("content_type", ["application/json; charset=utf-8", "Application/JSON"])
def test_json_may_have_parameters(shared: HttpPeer, content_type: str) -> None:
    assert shared.request("POST", "/mcp", PING, {**JSON_HEADERS, "content-type": content_type}).status == 200


@pytest.mark.parametrize(
    "content_type", [None, "text/plain", "application/x-www-form-urlencoded", "application/jsonx"]
)
def test_another_content_type_is_415(shared: HttpPeer, content_type: str | None) -> None:
    headers = {"x-hyphae-key": KEY, **({"content-type": content_type} if content_type else {})}
    assert shared.request("POST", "/mcp", PING, headers).status == 415


@pytest.mark.parametrize(
    ("accept", "status"),
    [
        (None, 200),
        ("*/*", 200),
        ("application/json", 200),
        ("application/json, text/event-stream", 200),
        ("text/event-stream, application/*;q=0.5", 200),
        ("text/event-stream", 406),
        ("text/html, application/json;q=0", 406),
    ],
)
def test_accept_is_refused_only_when_it_leaves_json_out(
    shared: HttpPeer, accept: str | None, status: int
) -> None:
    headers = {**JSON_HEADERS, **({"accept": accept} if accept else {})}
    assert shared.request("POST", "/mcp", PING, headers).status == status


@pytest.mark.parametrize("version", ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05", " 2025-11-25 "])
def test_a_known_version_header_is_fine(shared: HttpPeer, version: str) -> None:
    assert shared.rpc("ping", **{"mcp-protocol-version": version}).status == 200


@pytest.mark.parametrize(
    "versions",
    [["2099-01-01"], [""], ["2025-11-25", "2025-06-18"], ["2025-11-25"] * 2, ["2025-11-25,2025-06-18"]],
)
@pytest.mark.parametrize("body", [PING, '{"jsonrpc":"2.0","method":"notifications/initialized"}'])
def test_another_version_header_is_400(shared: HttpPeer, versions: list[str], body: str) -> None:
    headers = [*JSON_HEADERS.items(), *(("MCP-Protocol-Version", version) for version in versions)]
    answer = shared.request("POST", "/mcp", body, headers)
    assert answer.status == 400
    assert answer.json["error"]["code"] == -32600
    assert answer.json["id"] == (1 if "id" in body else None)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("", -32700),
        ("{", -32700),
        ("NaN", -32700),
        ("[" * 100_000, -32700),
        ("5", -32600),
        ("[]", -32600),
        ('{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600),
        ('{"method":"notifications/x"}', -32600),
        ('{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}', -32602),
        ('{"jsonrpc":"2.0","method":"notifications/x","params":[]}', -32602),
    ],
    ids=range(10),
)
def test_what_is_no_message_is_400(shared: HttpPeer, body: str, code: int) -> None:
    answer = shared.request("POST", "/mcp", body)
    assert answer.status == 400
    assert answer.json["error"]["code"] == code


@pytest.mark.parametrize(
    "body",
    [
        '{"jsonrpc":"2.0","method":"notifications/initialized"}',
        '{"jsonrpc":"2.0","method":"tools/call","params":{"name":"store"}}',
        '{"jsonrpc":"2.0","id":1,"result":{}}',
        '[{"jsonrpc":"2.0","method":"notifications/x"}]',
    ],
)
def test_what_must_not_be_answered_is_202_without_a_body(shared: HttpPeer, body: str) -> None:
    answer = shared.request("POST", "/mcp", body)
    assert (answer.status, answer.body) == (202, b"")


@pytest.mark.parametrize(
    ("method", "params", "code"),
    [
        ("no/such", {}, -32601),
        ("logging/setLevel", {"level": "info"}, -32601),
        ("tools/call", {"name": "unknown"}, -32602),
        (
            "tools/call",
            {"name": "get_scene", "arguments": {"scene_id": "6f9619ff-8b86-d011-b42d-00cf4fc964ff"}},
            4040,
        ),
    ],
)
def test_errors_of_the_protocol_and_the_service_travel_at_200(
    shared: HttpPeer, method: str, params: Any, code: int
) -> None:
    answer = shared.rpc(method, params)
    assert answer.status == 200
    assert answer.json["error"]["code"] == code


def test_a_batch_is_answered_unless_the_version_has_none(shared: HttpPeer) -> None:
    batch = f'[{PING},{{"jsonrpc":"2.0","id":2,"method":"initialize"}}]'
    answer = shared.request("POST", "/mcp", batch)
    assert [element["id"] for element in answer.json] == [1, 2]
    assert answer.json[1]["error"]["code"] == -32600
    newer = shared.request("POST", "/mcp", batch, {**JSON_HEADERS, "mcp-protocol-version": "2025-11-25"})
    assert (newer.status, newer.json["error"]["code"]) == (400, -32600)


def test_a_body_is_taken_to_its_limit_and_not_beyond(shared: HttpPeer) -> None:
    padding = " " * (1024 * 1024 - len(PING))
    assert shared.request("POST", "/mcp", PING + padding).status == 200
    beyond = shared.request("POST", "/mcp", PING + padding + " ")
    assert (beyond.status, beyond.json["error"]["code"]) == (413, -32600)
    assert "1048576" in beyond.json["error"]["message"]


def test_a_body_without_a_length_is_bounded_while_it_arrives(shared: HttpPeer) -> None:
    chunks = b"".join(b"10000\r\n" + b"x" * 0x10000 + b"\r\n" for _ in range(40)) + b"0\r\n\r\n"
    headers = {**JSON_HEADERS, "transfer-encoding": "chunked"}
    assert shared.request("POST", "/mcp", chunks, headers).status == 413


def test_the_project_header_is_the_default_project(shared: HttpPeer) -> None:
    shared.rpc("tools/call", {"name": "list_beacons"}, **{"x-hyphae-project": "b\u00c3\u00bcro"})
    assert shared.requester.requests[-1].default_project == "büro"
    refused = shared.rpc("ping", **{"x-hyphae-project": "p" * 129})
    assert refused.status == 400


def test_a_request_over_http_has_no_mark_and_says_nothing_of_pages(shared: HttpPeer) -> None:
    shared.call("drain_inbox")
    request = shared.requester.requests[-1]
    assert (request.mark, request.wrote) == (b"", None)
