"""`POST /mcp` in the revision that each request names itself, beside those with a handshake."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from mcp_gateway.tools import TOOLS
from tests.support.envelopes import MODERN, enveloped, repeated
from tests.support.http_peer import JSON_HEADERS, HttpPeer, Response
from tests.support.recording_requester import UNKNOWN_KEY, Gate
from tests.support.waiting import eventually

STORE = {"content": "we retry payments", "cell_type": "Decision"}
REVISIONS = [MODERN, "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"]
SERVER_INFO = "io.modelcontextprotocol/serverInfo"


@pytest.fixture(scope="module")
def shared() -> Iterator[HttpPeer]:
    with HttpPeer() as peer:
        yield peer


def ask(peer: HttpPeer, method: str, params: Any = None, **headers: str) -> Response:
    return peer.rpc(method, enveloped(params), **{**repeated(method, params), **headers})


def call(peer: HttpPeer, tool: str, **arguments: Any) -> Response:
    return ask(peer, "tools/call", {"name": tool, "arguments": arguments})


def test_discovery_a_list_and_calls_work_without_a_handshake(shared: HttpPeer) -> None:
    found = ask(shared, "server/discover")
    assert found.status == 200
    assert found.json["result"]["supportedVersions"] == REVISIONS
    assert found.json["result"]["_meta"][SERVER_INFO]["version"] == "9.9"
    assert "serverInfo" not in found.json["result"]
    listed = ask(shared, "tools/list").json["result"]
    assert [tool["name"] for tool in listed["tools"]] == list(TOOLS)
    for kept in (found.json["result"], listed):
        assert (kept["resultType"], kept["cacheScope"]) == ("complete", "public")
        assert kept["ttlMs"] >= 0
    stored = call(shared, "store", **STORE).json["result"]
    hits = call(shared, "recall", query="payments").json["result"]
    assert stored["structuredContent"]["node_id"] in [
        hit["node_id"] for hit in hits["structuredContent"]["results"]
    ]
    assert hits["resultType"] == "complete"
    assert "ttlMs" not in hits
    assert "mcp-session-id" not in found.headers


def test_results_after_a_handshake_have_nothing_of_the_other_era(shared: HttpPeer) -> None:
    for answer in (
        shared.rpc("initialize", {"protocolVersion": MODERN}),
        shared.rpc("ping"),
        shared.rpc("tools/list", **{"MCP-Protocol-Version": "2025-11-25"}),
        shared.call("list_beacons"),
    ):
        assert answer.status == 200
        assert not answer.json["result"].keys() & {"resultType", "ttlMs", "cacheScope", "_meta"}
    agreed = shared.rpc("initialize", {"protocolVersion": MODERN}).json["result"]
    assert agreed["protocolVersion"] == "2025-11-25"


def test_old_sessions_and_event_ids_are_ignored(shared: HttpPeer) -> None:
    answer = ask(shared, "tools/list", **{"Mcp-Session-Id": "x", "Last-Event-ID": "7"})
    assert answer.status == 200


@pytest.mark.parametrize(
    ("method", "params", "headers", "status", "code"),
    [
        ("tools/list", {}, repeated("tools/list"), 400, -32602),
        ("initialize", {"protocolVersion": MODERN}, repeated("initialize"), 400, -32602),
        ("server/discover", {}, {}, 400, -32602),
        ("tools/list", enveloped(), {}, 400, -32020),
        ("tools/list", enveloped(), {"MCP-Protocol-Version": ""}, 400, -32020),
        ("tools/list", enveloped(), repeated("tools/list", version="2025-11-25"), 400, -32020),
        ("tools/list", enveloped(), repeated("tools/call"), 400, -32020),
        ("tools/call", enveloped({"name": "recall"}), repeated("tools/call"), 400, -32020),
        ("tools/call", enveloped({"name": "recall"}), repeated("tools/call", {"name": "x"}), 400, -32020),
        *[
            ("tools/list", enveloped(version=old), repeated("tools/list", version=old), 400, -32022)
            for old in (*REVISIONS[1:], "2099-01-01")
        ],
        *[
            (gone, enveloped(), repeated(gone), 404, -32601)
            for gone in ("initialize", "ping", "logging/setLevel", "resources/list", "subscriptions/listen")
        ],
        ("tools/call", enveloped({"name": "x"}), repeated("tools/call", {"name": "x"}), 400, -32602),
        ("tools/list", enveloped({"cursor": "x"}), repeated("tools/list"), 400, -32602),
        (
            "tools/call",
            enveloped(
                {"name": "get_scene", "arguments": {"scene_id": "6f9619ff-8b86-d011-b42d-00cf4fc964ff"}}
            ),
            repeated("tools/call", {"name": "get_scene"}),
            200,
            4040,
        ),
    ],
)
@pytest.mark.parametrize("id", [0, "a"])
def test_a_refusal_has_its_code_its_status_and_the_id(
    shared: HttpPeer, method: str, params: Any, headers: dict[str, str], status: int, code: int, id: Any
) -> None:
    answer = shared.rpc(method, params, id, **headers)
    assert (answer.status, answer.json["error"]["code"], answer.json["id"]) == (status, code, id)
    if code == -32022:
        requested = params["_meta"]["io.modelcontextprotocol/protocolVersion"]
        assert answer.json["error"]["data"] == {"supported": REVISIONS, "requested": requested}


@pytest.mark.parametrize("name", ["  recall\t", "=?base64?cmVjYWxs?="])
def test_a_name_may_stand_among_blanks_or_be_wrapped(shared: HttpPeer, name: str) -> None:
    params = {"name": "recall", "arguments": {"query": "x"}}
    assert ask(shared, "tools/call", params, **{"Mcp-Name": name}).status == 200


@pytest.mark.parametrize("doubled", ["MCP-Protocol-Version", "Mcp-Method", "Mcp-Name"])
def test_a_header_given_twice_is_a_mismatch(shared: HttpPeer, doubled: str) -> None:
    params = {"name": "recall", "arguments": {"query": "x"}}
    single = repeated("tools/call", params)
    pairs = [*JSON_HEADERS.items(), *single.items(), (doubled, single[doubled])]
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": enveloped(params)}
    answer = shared.request("POST", "/mcp", json.dumps(body), pairs)
    assert (answer.status, answer.json["error"]["code"]) == (400, -32020)


@pytest.mark.parametrize(
    ("body", "version", "status"),
    [
        ({"method": "notifications/cancelled", "params": {"requestId": 1}}, MODERN, 202),
        ({"method": "tools/call", "params": enveloped({"name": "store", "arguments": STORE})}, MODERN, 202),
        ({"method": "notifications/x", "params": []}, MODERN, 400),
        ({"method": "notifications/x", "params": enveloped()}, "2099-01-01", 400),
        ({"id": 1, "result": {}}, MODERN, 400),
        ({"id": 1, "error": {"code": 1, "message": "x"}}, MODERN, 400),
        ({"id": 1, "result": {}}, "2025-11-25", 202),
    ],
    ids=range(7),
)
def test_what_needs_no_answer_is_taken_or_refused_by_its_status(
    shared: HttpPeer, body: dict[str, Any], version: str, status: int
) -> None:
    before = len(shared.requester.asked("store"))
    answer = shared.rest("POST", "/mcp", {"jsonrpc": "2.0", **body}, **{"MCP-Protocol-Version": version})
    assert answer.status == status
    assert (answer.body == b"") is (status == 202)
    assert len(shared.requester.asked("store")) == before


def test_a_batch_is_never_taken(shared: HttpPeer) -> None:
    listing = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": enveloped()}
    whole = shared.rest("POST", "/mcp", [listing], **repeated("tools/list"))
    assert (whole.status, whole.json["error"]["code"]) == (400, -32600)
    inside = shared.rest("POST", "/mcp", [listing])
    assert [element["error"]["code"] for element in inside.json] == [-32600]


@pytest.mark.parametrize("method", ["server/discover", "tools/list", "no/such"])
def test_without_a_known_key_nothing_is_told(shared: HttpPeer, method: str) -> None:
    answer = ask(shared, method, **{"x-hyphae-key": UNKNOWN_KEY})
    assert answer.status == 401
    assert answer.json["id"] == 1


def test_a_client_that_closes_its_connection_cancels_a_read_and_not_a_store() -> None:
    with HttpPeer() as peer:
        stored = Gate()
        peer.requester.plan("recall", Gate())
        peer.requester.plan("store", stored)
        for tool, arguments in (("recall", {"query": "x"}), ("store", STORE)):
            params = {"name": tool, "arguments": arguments}
            body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": enveloped(params)}
            connection = peer.connect()
            headers = {**JSON_HEADERS, **repeated("tools/call", params)}
            connection.request("POST", "/mcp", json.dumps(body), headers)
            eventually(partial(peer.requester.asked, tool))
            connection.close()
        eventually(lambda: peer.requester.cancelled == ["recall"])
        stored.open()
        eventually(lambda: len(peer.requester.cells) == 1)


def test_a_cancelled_notification_stops_no_call_because_ids_belong_to_their_callers() -> None:
    with HttpPeer() as peer:
        gate, answers = Gate(), []
        peer.requester.plan("recall", gate)
        slow = threading.Thread(target=lambda: answers.append(call(peer, "recall", query="x")))
        slow.start()
        eventually(partial(peer.requester.asked, "recall"))
        notice = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
        for headers in ({}, {"MCP-Protocol-Version": MODERN}):
            assert peer.rest("POST", "/mcp", notice, **headers).status == 202
        assert peer.rpc("ping").json["result"] == {}  # beside the slow call, in either era
        assert ask(peer, "tools/list").status == 200
        assert answers == []
        gate.open()
        slow.join()
        assert answers[0].json["result"]["isError"] is False
