"""Anything at all into the gateway: an answer or a refusal comes out, never an exception, never a change."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_gateway import jsonrpc, operations
from mcp_gateway.arguments import check
from mcp_gateway.authentication import key_of_headers, parse_key
from mcp_gateway.calling import Calls
from mcp_gateway.dispatcher import Dispatcher
from mcp_gateway.eras import REVISIONS
from mcp_gateway.intake import classify
from mcp_gateway.ladder import CAPABILITIES_KEY, VERSION_KEY, Headers
from mcp_gateway.lines import LineSplitter, Oversized
from mcp_gateway.refusals import TEXT_CHARS
from mcp_gateway.specs import CallSpec
from mcp_gateway.tools import TOOLS
from proto.codec import encode
from proto.errors import Invalid, Unauthenticated
from proto.messages import KeyCredential, Reply, Request
from tests.support.recording_requester import KEY, RecordingRequester

CALLS: list[CallSpec] = [*TOOLS.values(), *operations.OPERATIONS.values()]
NAMES = sorted({argument.name for call in CALLS for argument in call.arguments})
DISPATCHER = Dispatcher("0", Calls())

any_text = st.text(st.characters(), max_size=20) | st.sampled_from(
    [
        "",
        "5",
        "0.9",
        "true",
        "Decision",
        "[1]",
        '["a"]',
        '{"a":"r"}',
        "24h",
        "2026-11-30",
        "\ud800",
        "1758344479",
    ]
)
any_number = st.integers() | st.floats() | st.sampled_from([0, 1, 5.0, 1e300, 10**400])
any_value = st.recursive(
    st.none() | st.booleans() | any_number | any_text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(any_text, inner, max_size=4),
    max_leaves=10,
)
any_arguments = st.dictionaries(st.sampled_from(NAMES), any_value, max_size=6)
mostly_right = st.fixed_dictionaries(
    {},
    optional={
        "content": any_text,
        "cell_type": st.sampled_from(["fact", "Decision", "x"]),
        "query": any_text,
        "interest": any_text,
        "since": st.sampled_from(["24h", "2026-11-30", "x"]),
        "layer": st.integers(-1, 3),
        "k": st.integers(-1, 200) | any_text,
        "session_id": any_text,
        "tags": st.lists(any_text, max_size=3) | any_text,
    },
)


@given(st.sampled_from(CALLS), any_arguments | mostly_right)
@settings(max_examples=300, deadline=None)
def test_arguments_are_accepted_or_refused_and_checking_again_changes_nothing(
    spec: CallSpec, raw: dict[str, Any]
) -> None:
    try:
        checked = check(spec, raw)
    except Invalid as refused:
        text = f"invalid: {refused.message}"
        assert len(text) <= TEXT_CHARS
        text.encode("utf-8")
        assert ("Nothing was stored." in text) == spec.stores
        return
    assert check(spec, checked) == checked
    assert set(checked) <= set(spec.by_name)
    assert None not in checked.values()
    if spec.name != "store_bulk":  # its cells are judged one by one
        encode(checked)


@given(st.sampled_from(CALLS), st.sampled_from(NAMES), any_value)
@settings(max_examples=300, deadline=None)
def test_one_wrong_value_is_refused_in_any_place(spec: CallSpec, name: str, value: Any) -> None:
    right = {argument.name: json.loads(argument.example or '"x"') for argument in spec.required}
    text = name
    try:
        check(spec, {**right, name: value})
    except Invalid as refused:
        text = refused.message
    assert name in text


def through(data: bytes, headers: Headers | None = None) -> tuple[RecordingRequester, Any]:
    """Send bytes through parser, intake and dispatcher, and return the peer and what is sent back."""
    peer = RecordingRequester()

    async def door(method: str, args: Mapping[str, Any], deadline_ms: int) -> Reply:
        return await peer.request(Request(method, args, deadline_ms, KeyCredential(KEY)))

    async def run() -> Any:
        asked = classify(jsonrpc.parse(data), DISPATCHER.revisions, headers=headers)
        return None if asked is None else await DISPATCHER.answer(asked, door)

    answer = asyncio.run(run())
    return peer, None if answer is None else json.loads(jsonrpc.encode(answer.body))


def elements(body: Any) -> list[Any]:
    """Return the answers that were sent back, none or one or those to a batch."""
    return body if isinstance(body, list) else [] if body is None else [body]


@given(st.binary(max_size=200) | any_value.map(lambda v: json.dumps(v).encode()))
@settings(max_examples=200, deadline=None)
def test_arbitrary_bytes_and_json_are_answered_and_reach_no_peer(data: bytes) -> None:
    peer, body = through(data)
    assert peer.requests == []
    assert {one["error"]["code"] for one in elements(body)} <= {-32700, -32600, -32601, -32602}


methods = st.sampled_from(["initialize", "ping", "server/discover", "tools/list", "tools/call", "x"])
versions = st.sampled_from([*REVISIONS.names, "2099-01-01", ""])
metas = st.fixed_dictionaries(
    {}, optional={VERSION_KEY: versions | any_value, CAPABILITIES_KEY: st.just({}) | any_value}
)
header_values = st.lists(
    versions | methods | st.sampled_from([*TOOLS, "=?base64?c3RvcmU=?="]) | any_text, max_size=2
)
any_headers = st.none() | st.builds(Headers, header_values, header_values, header_values)
envelopes = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.just("2.0") | any_value,
        "id": st.integers() | any_text | any_value,
        "method": methods | any_value,
        "params": st.fixed_dictionaries(
            {},
            optional={
                "name": st.sampled_from(list(TOOLS)) | any_value,
                "arguments": mostly_right | any_value,
                "protocolVersion": any_value,
                "cursor": any_value,
                "_meta": metas | any_value,
            },
        )
        | any_value,
    },
)


@given(envelopes | st.lists(envelopes, max_size=3), any_headers)
@settings(max_examples=300, deadline=None)
def test_whatever_is_called_is_answered_with_its_id_or_not_at_all(
    message: Any, headers: Headers | None
) -> None:
    _, body = through(json.dumps(message).encode(), headers)
    assert all("error" not in one or one["error"]["code"] != -32603 for one in elements(body))
    single = isinstance(message, dict)
    if single and body is not None:
        assert body["jsonrpc"] == "2.0"
        assert ("result" in body) != ("error" in body)
        assert body["id"] is None or (body["id"] == message["id"] and type(body["id"]) is type(message["id"]))
    elif body is not None and isinstance(body, list):
        assert len(body) <= len(message)


@given(st.lists(st.binary(max_size=3000), max_size=20), st.integers(1, 400))
@settings(max_examples=200, deadline=None)
def test_any_stream_is_split_into_bounded_lines(chunks: list[bytes], limit: int) -> None:
    splitter = LineSplitter(limit)
    lines = [line for chunk in chunks for line in splitter.feed(chunk)] + splitter.finish()
    sizes = [line.size if isinstance(line, Oversized) else len(line) for line in lines]
    whole = b"".join(chunks)
    assert sizes == [len(part) for part in whole.split(b"\n")][: len(sizes)]
    assert all(len(line) <= limit for line in lines if not isinstance(line, Oversized))


@given(st.lists(any_text, max_size=3), st.lists(any_text, max_size=3))
def test_any_headers_hold_one_key_or_none_or_are_refused(keys: list[str], authorization: list[str]) -> None:
    try:
        found = key_of_headers(keys, authorization)
    except Unauthenticated:
        return
    assert found is None or parse_key(found)
