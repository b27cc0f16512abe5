"""JSON-RPC as MCP narrows it: ids, notifications, errors for what is no request, and survival of all of it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.conformance.mcp.harness import Client
from tests.conformance.mcp.model import ALL, BOTH, LATEST_LEGACY, LEGACY, requirement

BROKEN = {
    "not json": b"hello",
    "cut off": b'{"jsonrpc":"2.0","id":1,"method":"ping"',
    "two values": b'{"jsonrpc":"2.0","id":1,"method":"ping"}{}',
    "not utf-8": b'{"jsonrpc":"2.0","id":1,"method":"ping","x":"\xff"}',
    "utf-16": '{"jsonrpc":"2.0","id":1,"method":"ping"}'.encode("utf-16"),
    "NaN": b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":NaN}}',
    "Infinity": b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":-Infinity}}',
    "deep": b"[" * 100_000,
    "deep object": b'{"a":' * 100_000,
    "huge number": b'{"jsonrpc":"2.0","method":"ping","id":' + b"9" * 5_000 + b"}",
    "comment": b'{"jsonrpc":"2.0","id":1,"method":"ping"} // x',
    "single quotes": b"{'jsonrpc':'2.0'}",
}
IDS: list[int | str] = [
    0,
    1,
    -1,
    2**53 - 1,
    2**63,
    "0",
    "1",
    "",
    "server-discover-probe-1",
    "ümläut 🍄",
    "x" * 500,
]
NO_IDS: list[Any] = [None, 1.5, 1.0, True, False, {}, {"a": 1}, [], [1]]
OTHER_METHODS = (
    "resources/list",
    "resources/read",
    "resources/templates/list",
    "resources/subscribe",
    "resources/unsubscribe",
    "prompts/list",
    "prompts/get",
    "logging/setLevel",
    "completion/complete",
    "tasks/list",
    "tasks/get",
    "tasks/result",
    "tasks/cancel",
    "subscriptions/listen",
    "sampling/createMessage",
    "elicitation/create",
    "roots/list",
    "no/such",
    "Tools/List",
)


@requirement("wire.parse-error", "wire.utf8", "wire.survival", "wire.unreadable-id", revisions=BOTH)
@pytest.mark.parametrize("data", BROKEN.values(), ids=BROKEN.keys())
def test_what_is_no_json_is_a_parse_error_with_the_id_null(client: Client, data: bytes) -> None:
    error = client.ask(data).error(-32700, id=None, http=400)
    assert error["message"].startswith("Parse error: ")
    client.lives()


@requirement("wire.utf8", revisions=ALL)
def test_any_text_of_unicode_goes_there_and_back(client: Client) -> None:
    text = f'ümläut 漢字 🍄 \u2028 "quoted" \\ \t \x7f \r\n {client.link.name} {client.revision}'
    stored = client.call("store", {"content": text, "cell_type": "Fact"}).content()
    found = client.call("recall", {"query": stored["node_id"], "include_content": True}).content()["results"]
    assert [hit["content"] for hit in found] == [text]


@requirement("wire.id-echo", "wire.id-zero", revisions=ALL)
def test_an_id_is_echoed_with_its_value_and_type(client: Client) -> None:
    for id in IDS:
        client.request("tools/list", id=id).result(id)
        client.request("no/such", id=id).error(-32601, id, http=client.http(modern=404))
        client.call("no_such", id=id).error(-32602, id, http=client.http(modern=400))


@requirement("wire.id-kinds", "wire.invalid-request", revisions=BOTH)
@pytest.mark.parametrize("id", NO_IDS, ids=repr)
def test_an_id_that_is_no_string_and_no_integer_is_an_invalid_request(client: Client, id: Any) -> None:
    client.request("tools/list", id=id).error(-32600, id=None, http=400)
    client.lives()


@requirement("wire.invalid-request", "wire.unreadable-id", "wire.survival", revisions=BOTH)
@pytest.mark.parametrize(
    ("message", "id"),
    [
        (5, None),
        ("ping", None),
        (None, None),
        (True, None),
        ({}, None),
        ({"jsonrpc": "2.0"}, None),
        ({"jsonrpc": "2.0", "id": 1}, 1),
        ({"jsonrpc": "2.0", "id": "a", "method": 5}, "a"),
        ({"jsonrpc": "2.0", "id": 1, "method": None}, 1),
        ({"jsonrpc": "2.0", "method": ["ping"]}, None),
        ({"jsonrpc": "1.0", "id": 1, "method": "ping"}, 1),
        ({"jsonrpc": 2.0, "id": 0, "method": "ping"}, 0),
        ({"id": "b", "method": "ping"}, "b"),
        ({"id": [], "method": "ping"}, None),
    ],
    ids=str,
)
def test_what_is_no_request_is_an_invalid_request_with_the_id_that_could_be_read(
    client: Client, message: Any, id: Any
) -> None:
    assert client.ask(message).error(-32600, id, http=400)["message"].startswith("Invalid request: ")
    client.lives()


@requirement("wire.params-object", revisions=BOTH)
@pytest.mark.parametrize("params", [[], [1], "x", 5, True], ids=repr)
def test_parameters_that_are_no_object_are_invalid(client: Client, params: Any) -> None:
    client.ask({"jsonrpc": "2.0", "id": 7, "method": "tools/list", "params": params}).error(-32602, 7, 400)


@requirement("wire.notification", revisions=ALL)
def test_a_message_without_an_id_is_never_answered(client: Client) -> None:
    for method in (
        "notifications/initialized",
        "notifications/x",
        "no/such",
        "ping",
        "tools/list",
        "tools/call",
    ):
        client.tell(client.notice(method, {"name": "list_beacons"})).nothing()


@requirement("wire.notification-has-no-effect", revisions=LATEST_LEGACY)
def test_a_call_without_an_id_stores_nothing(client: Client) -> None:
    arguments = {"content": f"quiet {client.link.name}", "cell_type": "Fact"}
    client.tell(client.notice("tools/call", {"name": "store", "arguments": arguments})).nothing()
    found = client.call("recall", {"query": arguments["content"], "mode": "lexical", "include_content": True})
    assert arguments["content"] not in [hit["content"] for hit in found.content()["results"]]


@requirement("wire.answers-ignored", revisions=LEGACY)
@pytest.mark.parametrize("member", [{"result": {}}, {"error": {"code": -1, "message": "x"}}], ids=str)
def test_an_answer_from_the_client_is_ignored(client: Client, member: dict[str, Any]) -> None:
    client.tell({"jsonrpc": "2.0", "id": 5, **member}).nothing()


@requirement("wire.unknown-method", "error.http-200", revisions=ALL)
def test_a_method_that_is_not_offered_does_not_exist(client: Client) -> None:
    for method in OTHER_METHODS:
        error = client.request(method).error(-32601, http=client.http(modern=404))
        assert error["message"] == f"Method not found: {method}"


@requirement("wire.unknown-method", revisions=LEGACY)
def test_a_method_with_a_blank_is_another_method(client: Client) -> None:
    for method in ("tools/list ", " ping", ""):
        client.request(method).error(-32601)


@requirement("wire.only-answers", "modern.log-level", revisions=ALL)
def test_a_call_with_a_progress_token_and_a_log_level_brings_its_answer_and_nothing_else(
    client: Client,
) -> None:
    for token in (0, "token"):
        meta = {"progressToken": token, "io.modelcontextprotocol/logLevel": "debug"}
        message = client.message("tools/call", {"name": "list_beacons"})
        message["params"] = client.params({"name": "list_beacons"}, **meta)
        client.ask(message).content()
        client.link.settle()


@requirement("wire.extras", revisions=ALL)
def test_unknown_members_and_metadata_are_ignored(client: Client) -> None:
    message = client.message("tools/list")
    meta = {
        "com.example/x": [1, {"y": None}],
        "traceparent": "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01",
    }
    message["params"] = client.params({"unknown": {"deep": [1]}}, **meta)
    assert len(client.ask({**message, "extra": 1, "auth": {"a": 1}}).result()["tools"]) == 11


@requirement("wire.extras", revisions=ALL)
def test_of_a_member_given_twice_the_last_counts(client: Client) -> None:
    data = json.dumps(client.message("tools/list", id=2)).replace('"id": 2', '"id": 1, "id": 2').encode()
    assert b'"id": 1, "id": 2' in data
    client.ask(data, client.headers(client.message("tools/list"))).result(2)


@requirement("wire.strict-output", revisions=BOTH)
def test_text_that_utf_8_cannot_hold_is_answered_in_clean_json(client: Client) -> None:
    lone = b'"\\ud800 lone"'
    message = json.dumps(
        client.message("tools/call", {"name": "store", "arguments": {"content": "@", "cell_type": "Fact"}})
    )
    data = message.encode().replace(b'"@"', lone)
    text = client.ask(data, client.headers(json.loads(message))).refusal()
    assert text.startswith("invalid: ")
    assert text.encode("utf-8")
    unknown = json.dumps(client.message("tools/call", {"name": "@"})).encode().replace(b'"@"', lone)
    if not (client.is_modern and client.over_http):  # no header can repeat that name
        client.ask(unknown).error(-32602)
    client.lives()


@requirement("wire.cancel-ignored", revisions=LATEST_LEGACY)
@pytest.mark.parametrize(
    "params",
    [
        {},
        {"requestId": 404},
        {"requestId": None},
        {"requestId": [1]},
        {"requestId": True},
        {"requestId": 1.5},
    ],
    ids=repr,
)
def test_a_cancellation_of_nothing_that_runs_is_ignored(client: Client, params: dict[str, Any]) -> None:
    client.request("ping", id=1).result()
    client.tell(client.notice("notifications/cancelled", params)).nothing()
    client.tell(client.notice("notifications/cancelled", {"requestId": 1})).nothing()
    client.lives()


@requirement("wire.initialize-not-cancelled", revisions=LEGACY)
def test_initialize_is_answered_whatever_is_cancelled(client: Client) -> None:
    client.tell(client.notice("notifications/cancelled", {"requestId": "hello"})).nothing()
    params = {"protocolVersion": client.revision}
    client.request("initialize", params, id="hello").result("hello")
    client.tell(client.notice("notifications/cancelled", {"requestId": "hello"})).nothing()
