"""What the fuzzers send: bytes, JSON and calls that are wrong in one place, in many, or nowhere.

Calls are drawn from the registry, so that a new tool or argument is fuzzed without a line here.
"""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

from mcp_gateway.specs import ArgumentSpec, ToolSpec
from mcp_gateway.tools import TOOLS

META = "io.modelcontextprotocol/"
METHODS = ("initialize", "ping", "tools/list", "tools/call", "server/discover", "resources/list", "x", "")
VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28", "2099-01-01", "")
TELLING_TEXTS = (
    *("", " ", "null", "true", "5", "0.9", "NaN", "12px", "[1]", '["a"]', '{"a": 1}', "24h", "me", "*"),
    *("Decision", "private", "default", "2026-11-30T09:00:00Z", "1758344479", "\ud800", "\u202e", "\x00"),
    *("6f9619ff-8b86-d011-b42d-00cf4fc964ff", "' OR 1=1 --", "../../etc/passwd", "%s%n", "a" * 130),
)

texts = st.sampled_from(TELLING_TEXTS) | st.text(st.characters(), max_size=30)
numbers = st.integers() | st.floats() | st.sampled_from((0, -1, 1, 5.0, 5.5, 1e300, -0.0, 2**63, 10**400))
values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)
"""Any JSON value, and some that JSON does not have (NaN) but a careless encoder writes."""

of_each_type: st.SearchStrategy[Any] = st.sampled_from(
    (None, True, 0, 1.5, "text", [], ["a"], [[]], [None], {}, {"a": 1})
)


def example(argument: ArgumentSpec) -> Any:
    """Return a right value of an argument."""
    return json.loads(argument.example) if argument.example else "x"


@st.composite
def calls(draw: st.DrawFn) -> tuple[ToolSpec, Any]:
    """Draw a tool and arguments: right ones, of which some are left out, replaced or added."""
    tool = TOOLS[draw(st.sampled_from(sorted(TOOLS)))]
    optional = [a for a in tool.arguments if not a.required]
    given = [*tool.required, *(a for a in optional if draw(st.booleans()))]
    arguments = {a.name: example(a) for a in given}
    for _ in range(draw(st.integers(0, 2))):
        arguments = draw(_damaged(tool, arguments))
    return tool, (draw(values) if draw(st.integers(0, 9)) == 0 else arguments)


@st.composite
def _damaged(draw: st.DrawFn, tool: ToolSpec, arguments: dict[str, Any]) -> dict[str, Any]:
    known = [a.name for a in tool.arguments]
    where = draw(st.sampled_from([*known, "limit", "k", "source_agent", "tenant_id", "id"]) | texts)
    inside = arguments.get(where)
    if isinstance(inside, list) and draw(st.booleans()):
        return {**arguments, where: [*inside, draw(of_each_type | values)]}
    if draw(st.integers(0, 4)) == 0:
        return {name: value for name, value in arguments.items() if name != where}
    return {**arguments, where: draw(of_each_type | values)}


@st.composite
def messages(draw: st.DrawFn) -> Any:
    """Draw a message of either era: mostly with the shape of JSON-RPC, some of its members wrong."""
    message: dict[str, Any] = {"jsonrpc": "2.0", "id": draw(st.integers(0, 9) | st.text(max_size=3))}
    message["method"] = draw(st.sampled_from(METHODS))
    tool, arguments = draw(calls())
    params: dict[str, Any] = {}
    if draw(st.booleans()):
        params |= {"name": tool.name, "arguments": arguments}
    if draw(st.booleans()):
        params["protocolVersion"] = draw(st.sampled_from(VERSIONS) | values)
    if draw(st.booleans()):
        params["_meta"] = draw(_envelopes | values)
    if draw(st.booleans()) or params:
        message["params"] = params
    if draw(st.booleans()):
        member = draw(st.sampled_from(("jsonrpc", "id", "method", "params", "result", "extra")))
        message[member] = draw(values)
    if draw(st.booleans()):
        message.pop(draw(st.sampled_from(sorted(message))))
    return message


_envelopes: st.SearchStrategy[Any] = st.fixed_dictionaries(
    {},
    optional={
        f"{META}protocolVersion": st.sampled_from(VERSIONS) | values,
        f"{META}clientCapabilities": st.just({}) | values,
        f"{META}clientInfo": st.just({"name": "f", "version": "0"}) | values,
        "progressToken": values,
    },
)


def as_json(value: Any) -> bytes:
    """Return a value as a careless client writes it: lone surrogates as escapes, NaN as it is."""
    return json.dumps(value).encode("ascii")


@st.composite
def bodies(draw: st.DrawFn) -> bytes:
    """Draw what stands where a message should: bytes, JSON, messages, and messages with damage."""
    kind = draw(st.integers(0, 5))
    if kind == 0:
        return draw(st.binary(max_size=300))
    if kind == 1:
        return as_json(draw(values))
    if kind == 2:
        return as_json([draw(messages()) for _ in range(draw(st.integers(0, 3)))])
    whole = as_json(draw(messages()))
    if kind == 3:
        where = draw(st.integers(0, len(whole)))
        return whole[:where] + draw(st.binary(max_size=3)) + whole[where + draw(st.integers(0, 3)) :]
    return whole
