"""The descriptors of the tools against what every model provider and client is known to accept."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from mcp_gateway.instructions import INSTRUCTIONS
from mcp_gateway.tools import TOOLS, descriptors

ALLOWED_IN_PROPERTY = {"type", "description", "enum", "minimum", "maximum", "items"}
TYPES = ["string", "integer", "number", "boolean", "array"]
SERVER_NAME_CHARS = 30
TEXT_BYTES = 2_000
ROSTER_TOKENS = 2_500


def problems(descriptor: dict[str, Any]) -> list[str]:
    """Return what a strict client would refuse about one tool."""
    found = []
    if not re.fullmatch(r"[a-z0-9_]+", descriptor["name"]):
        found.append("name has other characters than a-z, 0-9 and _")
    if len(descriptor["name"]) + SERVER_NAME_CHARS + 2 > 60:
        found.append("name is too long beside a server's name")
    if not 0 < len(descriptor["description"].encode()) < TEXT_BYTES:
        found.append("description is empty or would be cut")
    schema = descriptor["inputSchema"]
    if schema["type"] != "object" or set(schema) - {"type", "properties", "required"}:
        found.append("the root is more than a plain object")
    if "required" in schema and not schema["required"]:
        found.append("required is empty")
    for name, value in schema["properties"].items():
        found += [f"{name}: {problem}" for problem in property_problems(value)]
    if set(schema.get("required", [])) - set(schema["properties"]):
        found.append("a required argument does not exist")
    hints = descriptor["annotations"]
    if set(hints) != {"readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"}:
        found.append("not exactly the four hints")
    return found


def property_problems(value: Any) -> list[str]:
    if not isinstance(value, dict):
        return ["is a boolean schema"]
    found = [f"uses {key}" for key in set(value) - ALLOWED_IN_PROPERTY]
    if value.get("type") not in TYPES:
        found.append(f"has type {value.get('type')!r}")
    if (value.get("type") == "array") != ("items" in value):
        found.append("is an array without items, or items without an array")
    if "items" in value:
        found += [f"items: {problem}" for problem in property_problems(value["items"])]
    return found


@pytest.mark.parametrize("descriptor", descriptors(), ids=lambda d: d["name"])
def test_no_descriptor_holds_what_some_client_refuses(descriptor: dict[str, Any]) -> None:
    assert problems(descriptor) == []


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {}, "anyOf": []},
        {"type": "object", "properties": {}, "additionalProperties": False},
        {"type": "object", "properties": {"a": {"type": ["string", "null"]}}},
        {"type": "object", "properties": {"a": {"type": "array"}}},
        {"type": "object", "properties": {"a": {"$ref": "#/$defs/a"}}},
        {"type": "object", "properties": {"a": {"type": "string", "format": "uuid"}}},
        {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "array"}}}},
        {"type": "object", "properties": {"a": True}},
        {"type": "object", "properties": {}, "required": ["a"]},
    ],
)
def test_the_linter_finds_planted_faults(schema: dict[str, Any]) -> None:
    good = dict(descriptors()[0])
    assert problems({**good, "inputSchema": schema}) != []


def test_there_are_exactly_the_eleven_tools_in_the_order_of_the_roster() -> None:
    assert [descriptor["name"] for descriptor in descriptors()] == [
        "store",
        "recall",
        "query",
        "open_session",
        "close_session",
        "place_beacon",
        "list_beacons",
        "diffs_since",
        "get_scene",
        "list_scenes",
        "drain_inbox",
    ]


def test_no_tool_takes_an_identity() -> None:
    taken = {argument.name for tool in TOOLS.values() for argument in tool.arguments}
    assert taken.isdisjoint({"source_agent", "tenant_id", "tenant", "agent", "owner", "user_id"})


def test_the_hints_are_those_of_the_roster() -> None:
    hints = {d["name"]: tuple(d["annotations"].values()) for d in descriptors()}
    reads, changes, settles = (
        (True, False, True, False),
        (False, False, False, False),
        (False, False, True, False),
    )
    assert hints == {
        "store": changes,
        "recall": reads,
        "query": reads,
        "open_session": changes,
        "close_session": settles,
        "place_beacon": settles,
        "list_beacons": reads,
        "diffs_since": reads,
        "get_scene": reads,
        "list_scenes": reads,
        "drain_inbox": changes,
    }


def test_what_a_model_reads_stays_within_its_budget() -> None:
    shown = [{key: d[key] for key in ("name", "description", "inputSchema")} for d in descriptors()]
    text = json.dumps(shown, ensure_ascii=False, separators=(",", ":"))
    assert (len(text) + len(INSTRUCTIONS)) / 4 < ROSTER_TOKENS
    whole = json.dumps(descriptors(), ensure_ascii=False, separators=(",", ":"))
    assert len(whole) / 4 < ROSTER_TOKENS
    assert len(INSTRUCTIONS.encode()) < TEXT_BYTES
