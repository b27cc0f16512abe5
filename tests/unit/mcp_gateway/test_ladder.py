"""What a request must show that names its revision itself: each rung, and which of two failures wins."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import pytest

from mcp_gateway.eras import DISCOVER, REVISIONS, Revision
from mcp_gateway.jsonrpc import Notification, Request
from mcp_gateway.ladder import (
    CAPABILITIES_KEY,
    VERSION_KEY,
    Fault,
    Headers,
    climb,
    decoded,
    names_its_revision,
    notified,
)

MODERN = "2026-07-28"
META: Mapping[str, Any] = {VERSION_KEY: MODERN, CAPABILITIES_KEY: {}}
LIST = Request(1, "tools/list", {"_meta": META})
CALL = Request(1, "tools/call", {"_meta": META, "name": "store"})


def listing(**meta: Any) -> Request:
    return Request(1, "tools/list", {"_meta": meta})


def headers(
    version: Any = MODERN, method: Any = "tools/list", name: Any = None, **several: list[str]
) -> Headers:
    single = {"version": version, "method": method, "name": name}
    return Headers(**{key: [] if value is None else [value] for key, value in single.items()} | several)


def wrapped(text: str) -> str:
    return f"=?base64?{base64.b64encode(text.encode()).decode()}?="


def code_of(outcome: Revision | Fault) -> int | None:
    return outcome.code if isinstance(outcome, Fault) else None


@pytest.mark.parametrize("given", [None, headers()], ids=["no headers", "headers"])
@pytest.mark.parametrize(
    "extra",
    [
        {},
        {"io.modelcontextprotocol/clientInfo": {"name": "c", "version": "1"}},
        {"progressToken": 1, "x/y": [1], "io.modelcontextprotocol/logLevel": "debug"},
    ],
    ids=["no client info", "client info", "unknown keys"],
)
def test_a_whole_request_reaches_the_top(extra: dict[str, Any], given: Headers | None) -> None:
    outcome = climb(Request(1, "tools/list", {"_meta": {**META, **extra}}), given, REVISIONS)
    assert isinstance(outcome, Revision)
    assert outcome.name == MODERN


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"_meta": None},
        {"_meta": []},
        {"_meta": "x"},
        {"_meta": {}},
        {"_meta": {VERSION_KEY: MODERN}},
        {"_meta": {CAPABILITIES_KEY: {}}},
        {"_meta": {**META, VERSION_KEY: None}},
        {"_meta": {**META, VERSION_KEY: 20260728}},
        {"_meta": {**META, CAPABILITIES_KEY: None}},
        {"_meta": {**META, CAPABILITIES_KEY: []}},
        {"_meta": {**META, CAPABILITIES_KEY: True}},
    ],
)
@pytest.mark.parametrize("given", [None, headers(), headers(version="2025-11-25", method="x")])
def test_without_an_envelope_the_params_are_invalid_whatever_else_is_wrong(
    params: dict[str, Any], given: Headers | None
) -> None:
    assert code_of(climb(Request(1, "no/such", params), given, REVISIONS)) == -32602


@pytest.mark.parametrize(
    ("request_", "given"),
    [
        (LIST, headers(version=None)),
        (LIST, headers(version="")),
        (LIST, headers(version="2025-11-25")),
        (LIST, headers(version="2099-01-01")),
        (listing(**{**META, VERSION_KEY: "2025-11-25"}), headers()),
        (LIST, Headers([MODERN, MODERN], ["tools/list"])),
        (LIST, headers(method=None)),
        (LIST, headers(method="")),
        (LIST, headers(method="tools/call")),
        (LIST, headers(method="TOOLS/LIST")),
        (LIST, headers(method=wrapped("tools/list"))),
        (LIST, Headers([MODERN], ["tools/list", "tools/list"])),
        (LIST, Headers([MODERN], ["tools/list"], ["a", "a"])),
        (CALL, headers(method="tools/call")),
        (CALL, headers(method="tools/call", name="")),
        (CALL, headers(method="tools/call", name="recall")),
        (CALL, headers(method="tools/call", name="Store")),
        (CALL, headers(method="tools/call", name="=?base64?c3RvcmU?=")),
        (CALL, headers(method="tools/call", name="=?base64?c3RvcmV=?=")),
        (CALL, headers(method="tools/call", name="=?base64?%%%%?=")),
        (CALL, headers(method="tools/call", name="=?BASE64?c3RvcmU=?=")),
        (CALL, Headers([MODERN], ["tools/call"], ["store", "store"])),
        (Request(1, "tools/call", {"_meta": META}), headers(method="tools/call", name="store")),
        (Request(1, "tools/call", {"_meta": META, "name": 5}), headers(method="tools/call", name="5")),
    ],
    ids=range(24),
)
def test_headers_that_say_something_else_than_the_body_are_a_mismatch(
    request_: Request, given: Headers
) -> None:
    outcome = climb(request_, given, REVISIONS)
    assert code_of(outcome) == -32020
    assert isinstance(outcome, Fault)
    assert outcome.message.startswith("Header mismatch: ")


@pytest.mark.parametrize("tool", ["store", "büro 日本", "=?base64?x?=", " edges ", ""])
def test_a_name_may_come_wrapped(tool: str) -> None:
    request = Request(1, "tools/call", {"_meta": META, "name": tool})
    assert code_of(climb(request, headers(method="tools/call", name=wrapped(tool)), REVISIONS)) is None


def test_a_name_says_nothing_where_no_parameter_is_repeated() -> None:
    assert code_of(climb(LIST, headers(name="anything"), REVISIONS)) is None


@pytest.mark.parametrize(
    "requested", ["2025-11-25", "2025-03-26", "2024-11-05", "2099-01-01", "", "DRAFT", "\ud800"]
)
@pytest.mark.parametrize("over_http", [False, True])
def test_another_version_in_the_envelope_is_answered_with_all_that_are_spoken(
    requested: str, over_http: bool
) -> None:
    request = Request(1, "no/such", {"_meta": {**META, VERSION_KEY: requested}})
    outcome = climb(request, headers(version=requested, method="no/such") if over_http else None, REVISIONS)
    assert isinstance(outcome, Fault)
    assert outcome.code == -32022
    assert outcome.data == {"supported": list(REVISIONS.names), "requested": requested}


@pytest.mark.parametrize(
    "method",
    [
        *("initialize", "ping", "logging/setLevel", "resources/list", "resources/subscribe", "prompts/get"),
        *("subscriptions/listen", "completion/complete", "tasks/get", "tools/List", "", "\ud800"),
    ],
)
def test_methods_of_handshakes_and_of_nobody_do_not_exist(method: str) -> None:
    assert code_of(climb(Request(1, method, {"_meta": META}), None, REVISIONS)) == -32601
    assert code_of(climb(Request(1, method, {"_meta": META}), headers(method=method), REVISIONS)) == -32601


@pytest.mark.parametrize(
    ("message", "given", "its_own"),
    [
        (Request(1, DISCOVER), None, True),
        (Request(1, "ping", {"_meta": {VERSION_KEY: None}}), None, True),
        (Request(1, "initialize", {"_meta": META}), None, True),
        (Request(1, "initialize", {"protocolVersion": MODERN}), None, False),
        (Request(1, "initialize"), headers(), True),
        (Request(1, "ping"), headers(), True),
        (Request(1, "ping"), Headers(["2025-11-25", MODERN]), True),
        (Request(1, "ping"), headers(version="2025-11-25"), False),
        (Request(1, "ping"), headers(version="2099-01-01"), False),
        (Request(1, "ping", {"_meta": {"progressToken": 1, CAPABILITIES_KEY: {}}}), None, False),
        (Request(1, "ping", {"_meta": VERSION_KEY}), None, False),
        (Notification("notifications/x"), headers(), True),
        (Notification("notifications/x"), None, False),
    ],
    ids=range(13),
)
def test_a_message_names_its_revision_in_the_header_the_envelope_or_the_method(
    message: Request | Notification, given: Headers | None, its_own: bool
) -> None:
    assert names_its_revision(message, given, REVISIONS) is its_own


@pytest.mark.parametrize(
    ("versions", "code"),
    [([], None), ([MODERN], None), (["2025-11-25"], None), ([MODERN] * 2, -32020), (["2099-01-01"], -32022)],
)
def test_a_notification_needs_no_header_but_not_a_wrong_one(versions: list[str], code: int | None) -> None:
    fault = notified(Headers(versions), REVISIONS)
    assert (None if fault is None else fault.code) == code
    assert notified(None, REVISIONS) is None


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("store", "store"),
        ("", ""),
        ("=?base64?", "=?base64?"),
        ("=?base64?=", "=?base64?="),
        ("=?base64??=", ""),
        ("=?base64?c3RvcmU=?=", "store"),
        ("=?base64?/w==?=", None),
        ("=?base64?c3Rv cmU=?=", None),
        ("=?base64?\xe9?=", None),
    ],
)
def test_a_wrapped_value_is_canonical_base64_of_utf_8(value: str, text: str | None) -> None:
    assert decoded(value) == text


def test_error_texts_are_short_whatever_was_sent() -> None:
    long = "x" * 100_000
    for request, given in (
        (Request(1, long, {"_meta": META}), None),
        (Request(1, long, {"_meta": META}), headers(method=long + "y")),
        (Request(1, long, {"_meta": {**META, VERSION_KEY: long}}), None),
    ):
        outcome = climb(request, given, REVISIONS)
        assert isinstance(outcome, Fault)
        assert len(outcome.message) < 200
