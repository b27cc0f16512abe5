"""MCP methods over a door to a fake peer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import pytest
from structlog.testing import capture_logs

from mcp_gateway import jsonrpc
from mcp_gateway.calling import Calls
from mcp_gateway.dispatcher import Answer, Dispatcher, is_call, tool_of
from mcp_gateway.eras import REVISIONS
from mcp_gateway.intake import Call, Refusal, Together, classify
from mcp_gateway.ladder import CAPABILITIES_KEY, VERSION_KEY
from mcp_gateway.tools import TOOLS, descriptors
from proto.errors import Conflict, Forbidden, NotFound, Overloaded, Unauthenticated, Uncertain
from proto.messages import KeyCredential, Reply, Request
from tests.support.recording_requester import KEY, UNKNOWN_KEY, Gate, RecordingRequester

DISPATCHER = Dispatcher("1.2.3", Calls(call_ms=2_000))
META = {"_meta": {VERSION_KEY: "2026-07-28", CAPABILITIES_KEY: {}}}
SERVER_INFO = {"name": "hyphae", "title": "Hyphae shared memory", "version": "1.2.3"}
SIGNED = {
    "resultType": "complete",
    "_meta": {"io.modelcontextprotocol/serverInfo": SERVER_INFO},
}


def door_of(peer: RecordingRequester, key: str = KEY) -> Any:
    async def door(method: str, args: Mapping[str, Any], deadline_ms: int) -> Reply:
        return await peer.request(Request(method, args, deadline_ms, KeyCredential(key)))

    return door


def answer(
    method: str, params: Any = None, peer: RecordingRequester | None = None, key: str = KEY, id: Any = 1
) -> Answer:
    data = json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).encode()
    asked = classify(jsonrpc.parse(data), REVISIONS)
    assert asked is not None
    result = asyncio.run(DISPATCHER.answer(asked, door_of(peer or RecordingRequester(), key)))
    jsonrpc.encode(result.body)
    assert result.body["id"] == id
    return result


def call(name: Any, arguments: Any = None, peer: RecordingRequester | None = None, key: str = KEY) -> Answer:
    return answer("tools/call", {"name": name, "arguments": arguments}, peer, key)


def test_initialize_answers_revision_capabilities_and_instructions() -> None:
    agreed = answer("initialize", {"protocolVersion": "2025-03-26"})
    assert agreed.body["result"]["protocolVersion"] == "2025-03-26"
    assert agreed.body["result"]["capabilities"] == {"tools": {}}
    assert agreed.body["result"]["serverInfo"]["version"] == "1.2.3"
    assert "drain_inbox" in agreed.body["result"]["instructions"]
    assert agreed.revision is not None
    assert agreed.revision.batches
    assert answer("initialize").body["result"]["protocolVersion"] == "2025-11-25"


def test_ping_answers_an_empty_object() -> None:
    assert answer("ping", id="0").body == {"jsonrpc": "2.0", "id": "0", "result": {}}


@pytest.mark.parametrize("params", [None, {}, {"cursor": None}, {"_meta": {"progressToken": 1}}])
def test_tools_list_answers_all_tools_and_no_cursor(params: Any) -> None:
    assert answer("tools/list", params).body["result"] == {"tools": descriptors()}


def test_a_cursor_that_was_never_given_out_is_refused() -> None:
    assert answer("tools/list", {"cursor": "x"}).body["error"]["code"] == -32602


def test_discovery_answers_all_revisions_capabilities_and_instructions() -> None:
    found = answer("server/discover", META).body["result"]
    assert list(found.pop("supportedVersions")) == list(REVISIONS.names)
    assert "drain_inbox" in found.pop("instructions")
    assert found == {**SIGNED, "capabilities": {"tools": {}}, "ttlMs": 300_000, "cacheScope": "public"}


def test_both_eras_list_the_same_tools() -> None:
    assert answer("tools/list", META).body["result"] == {
        **SIGNED,
        "tools": descriptors(),
        "ttlMs": 300_000,
        "cacheScope": "public",
    }


def test_both_eras_answer_a_call_alike_but_for_the_envelope() -> None:
    for params in (
        {"name": "list_beacons"},
        {"name": "store", "arguments": {}},
    ):
        older = answer("tools/call", params).body["result"]
        newer = answer("tools/call", {**params, **META}).body["result"]
        assert newer == {**older, **SIGNED}


@pytest.mark.parametrize(
    ("params", "code", "status"),
    [
        ({"name": "unknown"}, -32602, 400),
        ({}, -32602, 400),
        ({"name": "store", "arguments": []}, -32602, 400),
        ({"name": "get_scene", "arguments": {"scene_id": "6f9619ff-8b86-d011-b42d-00cf4fc964ff"}}, 4040, 200),
    ],
)
def test_both_eras_answer_an_error_alike_but_for_its_status(params: Any, code: int, status: int) -> None:
    older, newer = answer("tools/call", params), answer("tools/call", {**params, **META})
    assert newer.body == older.body
    assert newer.body["error"]["code"] == code
    assert (older.status, newer.status) == (200, status)


@pytest.mark.parametrize("extra", [{"inputResponses": {"a": 1}}, {"requestState": "x"}, {"task": {"ttl": 1}}])
@pytest.mark.parametrize("meta", [{}, META], ids=["older", "newer"])
def test_members_of_a_call_that_mean_nothing_here_are_ignored(extra: Any, meta: Any) -> None:
    result = answer("tools/call", {"name": "list_beacons", **extra, **meta}).body["result"]
    assert result["structuredContent"] == {"agent": "alice", "beacons": []}


@pytest.mark.parametrize("meta", [{}, META], ids=["older", "newer"])
def test_a_lone_surrogate_is_never_a_defect(meta: Any) -> None:
    assert answer("tools/list", meta, id="\ud800").body["id"] == "\ud800"
    assert answer("tools/call", {"name": "\ud800", **meta}).body["error"]["code"] == -32602
    for arguments in ({"query": "\ud800"}, {"\ud800": 1}):
        body = answer("tools/call", {"name": "recall", "arguments": arguments, **meta}).body
        assert body["result"]["isError"] is True


@pytest.mark.parametrize(
    "method",
    ["resources/list", "prompts/list", "logging/setLevel", "tasks/get", "", "\ud800"],
)
def test_other_methods_do_not_exist(method: str) -> None:
    assert answer(method).body["error"]["code"] == -32601


def test_a_result_has_the_whole_envelope() -> None:
    peer = RecordingRequester()
    peer.plan("recall", Reply(result={"results": [], "note": "naïve 日本"}))
    result = call("recall", {"query": "x"}, peer).body["result"]
    assert result == {
        "content": [{"type": "text", "text": '{"results":[],"note":"naïve 日本"}'}],
        "structuredContent": {"results": [], "note": "naïve 日本"},
        "isError": False,
    }


def test_arguments_reach_the_peer_as_they_were_checked() -> None:
    peer = RecordingRequester()
    call("recall", {"query": "x", "k": "5", "project": None}, peer)
    assert peer.requests[0].args == {"query": "x", "k": 5}


@pytest.mark.parametrize("arguments", [None, {}])
def test_missing_arguments_are_a_tool_error_and_never_reach_the_peer(arguments: Any) -> None:
    peer = RecordingRequester()
    refused = call("store", arguments, peer)
    assert refused.body["result"]["isError"] is True
    assert refused.body["result"]["content"][0]["text"].startswith("invalid: content is missing.")
    assert "structuredContent" not in refused.body["result"]
    assert peer.requests == []
    assert not refused.asked


@pytest.mark.parametrize(
    "params",
    [
        None,
        {},
        {"name": None},
        {"name": 5},
        {"name": "store", "arguments": []},
        {"name": "store", "arguments": "{}"},
    ],
)
def test_a_call_of_the_wrong_shape_is_invalid_params(params: Any) -> None:
    assert answer("tools/call", params).body["error"]["code"] == -32602


@pytest.mark.parametrize("name", ["Store", "", "memprove", "x" * 100_000, "\ud800\n"])
def test_an_unknown_tool_is_named_briefly(name: str) -> None:
    error = call(name).body["error"]
    assert error["code"] == -32602
    assert error["message"].startswith("Unknown tool: ")
    assert len(error["message"]) <= 300
    assert error["message"].endswith(
        " There are store, recall, query, open_session, close_session, "
        "place_beacon, list_beacons, diffs_since, get_scene, list_scenes, drain_inbox."
    )
    assert ("did you mean store?" in error["message"]) == (name == "Store")


@pytest.mark.parametrize(
    ("error", "code", "data"),
    [
        (NotFound("no project payroll."), 4040, {"code": "not_found", "definite": True}),
        (Forbidden("reads only."), 4030, {"code": "forbidden", "definite": True}),
        (Conflict("taken."), 4090, {"code": "conflict", "definite": True}),
        (Uncertain("lost."), 5030, {"code": "unavailable", "definite": False}),
        (
            Overloaded("full.", retry_after_ms=60_000),
            4290,
            {"code": "overloaded", "definite": True, "retry_after_ms": 60_000},
        ),
    ],
)
def test_an_error_of_the_service_is_a_json_rpc_error_that_starts_with_its_code(
    error: Any, code: int, data: Any
) -> None:
    peer = RecordingRequester()
    peer.plan("recall", error)
    refused = call("recall", {"query": "x"}, peer)
    assert refused.body["error"]["code"] == code
    assert refused.body["error"]["message"].startswith(f"{error.code}: {error.message}")
    assert refused.body["error"]["data"] == data
    assert refused.error is not None
    assert refused.error.code == error.code


def test_an_unknown_key_is_told_to_the_transport() -> None:
    refused = call("recall", {"query": "x"}, key=UNKNOWN_KEY)
    assert isinstance(refused.error, Unauthenticated)
    assert refused.asked


def test_an_unexpected_exception_is_an_internal_error_and_logs_no_value() -> None:
    peer = RecordingRequester()
    peer.plan("store", KeyError("a secret"))
    with capture_logs() as logs:
        error = call("store", {"content": "a secret", "cell_type": "Fact"}, peer).body["error"]
    assert error["code"] == -32603
    assert error["data"] == {"code": "internal", "definite": False}
    assert "It may have been stored." in error["message"]
    assert logs[0]["event"] == "call_failed"
    assert logs[0]["error"] == "KeyError"
    assert "a secret" not in str(logs) + str(error)


@pytest.mark.parametrize("result", [{"distance": float("nan")}, {"id": b"bytes"}, {"x": object()}])
def test_a_result_without_json_form_is_an_internal_error(result: Any) -> None:
    peer = RecordingRequester()
    peer.plan("recall", Reply(result=result))
    with capture_logs():
        assert call("recall", {"query": "x"}, peer).body["error"]["code"] == -32603


def test_a_page_is_reported_with_its_reader() -> None:
    peer = RecordingRequester()
    peer.plan("drain_inbox", Reply(result={}, page="p1"), Reply(result={}, page="p2"), Reply(result={}))
    assert call("drain_inbox", {}, peer).pages == (("", "p1"),)
    session = {"session_id": "6F9619FF-8B86-D011-B42D-00CF4FC964FF"}
    assert call("drain_inbox", session, peer).pages == (("6f9619ff8b86d011b42d00cf4fc964ff", "p2"),)
    assert call("drain_inbox", {}, peer).pages == ()


def of(id: jsonrpc.Id, method: str, **params: Any) -> Call:
    return Call(jsonrpc.Request(id, method, params), REVISIONS.negotiate("2025-03-26"))


def test_a_refusal_is_answered_as_it_is() -> None:
    assert DISPATCHER.answer_now(Refusal({"a": 1}, 404)) == Answer({"a": 1}, 404)


def test_a_batch_is_answered_as_one_array_in_its_order() -> None:
    peer = RecordingRequester()
    peer.plan("drain_inbox", Reply(result={}, page="p1"))
    parts = (of(1, "ping"), of("a", "tools/call", name="drain_inbox"), Refusal(jsonrpc.error(3, -32600, "x")))
    answered = asyncio.run(DISPATCHER.answer(Together(parts), door_of(peer)))
    assert [element["id"] for element in answered.body] == [1, "a", 3]
    assert answered.status == 200
    assert answered.pages == (("", "p1"),)
    assert answered.asked


def test_a_batch_tells_of_a_key_that_nobody_knows() -> None:
    parts = (of(1, "ping"), of(2, "tools/call", name="list_beacons"))
    answered = asyncio.run(DISPATCHER.answer(Together(parts), door_of(RecordingRequester(), UNKNOWN_KEY)))
    assert isinstance(answered.error, Unauthenticated)


def test_transports_can_tell_calls_from_the_rest() -> None:
    store = of(1, "tools/call", name="store")
    assert is_call(store)
    assert is_call(Together((of(1, "ping"),)))
    assert not is_call(of(1, "ping"))
    assert not is_call(Refusal({}))
    assert tool_of(store) is TOOLS["store"]
    assert tool_of(of(1, "tools/call", name=[])) is None
    assert tool_of(of(1, "tools/list", name="store")) is None
    assert tool_of(Together((store,))) is None


def test_calls_do_not_wait_for_one_another() -> None:
    async def run() -> None:
        peer, gate = RecordingRequester(), Gate()
        peer.plan("recall", gate)
        recall = of(1, "tools/call", name="recall", arguments={"query": "x"})
        slow = asyncio.create_task(DISPATCHER.answer(recall, door_of(peer)))
        await DISPATCHER.answer(of(2, "tools/call", name="list_beacons"), door_of(peer))
        assert not slow.done()
        gate.open()
        await slow

    asyncio.run(run())
