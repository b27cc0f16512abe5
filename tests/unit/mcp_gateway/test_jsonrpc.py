"""Bytes to messages: every shape that the specification names, and what real clients send by mistake."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mcp_gateway import jsonrpc
from mcp_gateway.jsonrpc import Batch, Malformed, Notification, Request, Response, parse


def message(**fields: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **fields}).encode()


@pytest.mark.parametrize("id", [0, 1, -5, 2**70, "", "a", "0"])
def test_a_request_keeps_its_id_with_value_and_type(id: jsonrpc.Id) -> None:
    assert parse(message(id=id, method="ping")) == Request(id, "ping", {})


@pytest.mark.parametrize("id", [None, 1.5, 1.0, True, False, {}, [], [1]])
def test_an_id_of_another_type_is_no_request(id: Any) -> None:
    assert parse(message(id=id, method="ping")) == Malformed(
        -32600, "Invalid request: id must be a string or an integer", None
    )


def test_params_may_be_an_object_null_or_absent() -> None:
    assert parse(message(id=1, method="m", params={"a": 1})) == Request(1, "m", {"a": 1})
    assert parse(message(id=1, method="m", params=None)) == Request(1, "m", {})


@pytest.mark.parametrize("params", [[], [1], "a", 5, True])
def test_other_params_are_refused_with_the_id(params: Any) -> None:
    refused = parse(message(id=7, method="m", params=params))
    assert isinstance(refused, Malformed)
    assert (refused.code, refused.id) == (-32602, 7)


def test_a_message_without_id_is_a_notification_whatever_its_params() -> None:
    assert parse(message(method="tools/call")) == Notification("tools/call")
    assert parse(message(method="x", params=None)) == Notification("x")
    assert parse(message(method="x", params=[1])) == Notification("x", sound=False)


@pytest.mark.parametrize("body", [{"id": 1, "result": {}}, {"id": 1, "error": {}}, {"result": None}])
def test_an_answer_from_the_client_is_recognised(body: dict[str, Any]) -> None:
    assert parse(message(**body)) == Response()


@pytest.mark.parametrize(
    ("data", "id"),
    [
        (b"1", None),
        (b"null", None),
        (b'"text"', None),
        (b"{}", None),
        (b'{"jsonrpc":"1.0","id":3,"method":"ping"}', 3),
        (b'{"jsonrpc":2.0,"id":"x","method":"ping"}', "x"),
        (b'{"jsonrpc":"2.0","id":4}', 4),
        (b'{"jsonrpc":"2.0","id":4,"method":5}', 4),
        (b'{"jsonrpc":"2.0","method":null}', None),
        (b"[]", None),
    ],
)
def test_what_is_no_message_is_an_invalid_request_with_its_id_if_readable(data: bytes, id: Any) -> None:
    refused = parse(data)
    assert isinstance(refused, Malformed)
    assert (refused.code, refused.id) == (-32600, id)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b'{"a":"\xff"}',
        b"\xef\xbb\xbf{}",
        b"NaN",
        b'{"id":Infinity}',
        b'{"id":-Infinity}',
        b'{"id":' + b"9" * 5000 + b"}",
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b"{'a':1}",
        b'{"a":1}}',
        b'{"a":"\x00"}',
    ],
    ids=range(14),
)
def test_what_is_no_json_is_a_parse_error(data: bytes) -> None:
    refused = parse(data)
    assert isinstance(refused, Malformed)
    assert (refused.code, refused.id) == (-32700, None)
    assert len(refused.message) < 200


def test_a_batch_keeps_order_and_its_malformed_elements() -> None:
    batch = parse(b'[{"jsonrpc":"2.0","id":1,"method":"ping"},5,{"jsonrpc":"2.0","method":"n"},[]]')
    assert isinstance(batch, Batch)
    assert [type(each) for each in batch.messages] == [Request, Malformed, Notification, Malformed]


def test_duplicate_members_and_unknown_members_are_ignored() -> None:
    assert parse(b'{"jsonrpc":"2.0","id":1,"id":2,"method":"ping","extra":[1]}') == Request(2, "ping", {})


def test_encoding_keeps_non_ascii_and_stays_on_one_line() -> None:
    assert (
        jsonrpc.encode({"a": "naïve 日本語 👩‍👩‍👧 שלום\n"}) == '{"a":"naïve 日本語 👩‍👩‍👧 שלום\\n"}'.encode()
    )


def test_a_lone_surrogate_is_encoded_as_an_escape() -> None:
    data = jsonrpc.encode({"id": "\ud800", "é": 1})
    assert json.loads(data) == {"id": "\ud800", "é": 1}


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_a_number_that_json_lacks_is_never_written(value: float) -> None:
    with pytest.raises(ValueError):
        jsonrpc.encode({"distance": value})


def test_a_number_of_too_many_digits_is_told_in_our_own_words() -> None:
    refused = parse(b'{"jsonrpc":"2.0","id":' + b"1" * 5_000 + b',"method":"ping"}')
    assert refused == Malformed(-32700, "Parse error: a number has too many digits")
    constant = parse(b'{"jsonrpc":"2.0","id":NaN,"method":"ping"}')
    assert constant == Malformed(-32700, "Parse error: NaN is not JSON")
