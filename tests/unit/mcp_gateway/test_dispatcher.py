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
from mcp_gateway.dispatcher import BATCH_MESSAGES, Answer, Dispatcher, is_call, tool_of
from mcp_gateway.tools import TOOLS, descriptors
from proto.errors import Conflict, Forbidden, NotFound, Overloaded, Unauthenticated, Uncertain
from proto.messages import KeyCredential, Reply, Request
from tests.support.recording_requester import KEY, UNKNOWN_KEY, Gate, RecordingRequester

DISPATCHER = Dispatcher("1.2.3", Calls(call_ms=2_000))


def door_of(peer: RecordingRequester, key: str = KEY) -> Any:
    async def door(method: str, args: Mapping[str, Any], deadline_ms: int) -> Reply:
        return await peer.request(Request(method, args, deadline_ms, KeyCredential(key)))

    return door


def answer(
    method: str, params: Any = None, peer: RecordingRequester | None = None, key: str = KEY, id: Any = 1
) -> Answer:
    message = jsonrpc.parse(
        json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).encode()
    )
    assert not isinstance(message, jsonrpc.Batch)
    result = asyncio.run(DISPATCHER.answer(message, door_of(peer or RecordingRequester(), key)))
    assert result is not None
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


@pytest.mark.parametrize(
    "method",
    ["server/discover", "resources/list", "prompts/list", "logging/setLevel", "tasks/get", "", "\ud800"],
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
    assert len(error["message"]) < 100


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
    assert refused.body["error"]["message"] == f"{error.code}: {error.message}"
    assert refused.body["error"]["data"] == data
    assert refused.error is error


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


@pytest.mark.parametrize("method", ["notifications/initialized", "tools/call", "ping", "unknown"])
def test_a_notification_is_never_answered_and_never_carried_out(method: str) -> None:
    peer = RecordingRequester()
    params = {"name": "store", "arguments": {"content": "x", "cell_type": "Fact"}}
    message = jsonrpc.Notification(method, params)
    assert asyncio.run(DISPATCHER.answer(message, door_of(peer))) is None
    assert peer.requests == []


def batch(*messages: jsonrpc.Message, peer: RecordingRequester | None = None) -> Answer | None:
    door = door_of(peer or RecordingRequester())
    return asyncio.run(DISPATCHER.answer_all(jsonrpc.Batch(messages), door))


def test_a_batch_is_answered_as_one_array_without_its_notifications() -> None:
    peer = RecordingRequester()
    peer.plan("drain_inbox", Reply(result={}, page="p1"))
    answered = batch(
        jsonrpc.Request(1, "ping"),
        jsonrpc.Notification("notifications/initialized"),
        jsonrpc.Request("a", "tools/call", {"name": "drain_inbox"}),
        jsonrpc.Malformed(-32600, "x"),
        jsonrpc.Request(3, "initialize", {}),
        peer=peer,
    )
    assert answered is not None
    assert [element["id"] for element in answered.body] == [1, "a", None, 3]
    assert answered.body[3]["error"]["code"] == -32600
    assert answered.pages == (("", "p1"),)
    assert answered.asked


def test_a_batch_of_notifications_is_not_answered() -> None:
    assert batch(jsonrpc.Notification("a"), jsonrpc.Response()) is None


def test_a_batch_is_bounded() -> None:
    within = batch(*[jsonrpc.Request(n, "ping") for n in range(BATCH_MESSAGES)])
    beyond = batch(*[jsonrpc.Request(n, "ping") for n in range(BATCH_MESSAGES + 1)])
    assert within is not None
    assert len(within.body) == BATCH_MESSAGES
    assert beyond is not None
    assert beyond.body["error"]["code"] == -32600


def test_transports_can_tell_calls_from_the_rest() -> None:
    store = jsonrpc.Request(1, "tools/call", {"name": "store"})
    assert is_call(store)
    assert is_call(jsonrpc.Batch((jsonrpc.Request(1, "ping"), store)))
    assert not is_call(jsonrpc.Request(1, "ping"))
    assert not is_call(jsonrpc.Notification("tools/call"))
    assert tool_of(store) is TOOLS["store"]
    assert tool_of(jsonrpc.Request(1, "tools/call", {"name": []})) is None
    assert tool_of(jsonrpc.Batch((store,))) is None


def test_calls_do_not_wait_for_one_another() -> None:
    async def run() -> None:
        peer, gate = RecordingRequester(), Gate()
        peer.plan("recall", gate)
        slow = asyncio.create_task(
            DISPATCHER.answer(
                jsonrpc.Request(1, "tools/call", {"name": "recall", "arguments": {"query": "x"}}),
                door_of(peer),
            )
        )
        fast = await DISPATCHER.answer(
            jsonrpc.Request(2, "tools/call", {"name": "list_beacons"}), door_of(peer)
        )
        assert fast is not None
        assert not slow.done()
        gate.open()
        assert await slow is not None

    asyncio.run(run())
