"""The descriptors of the tools against what every model provider and client is known to accept."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from typing import Any

import pytest

from mcp_gateway.eras import REVISIONS
from mcp_gateway.instructions import INSTRUCTIONS
from mcp_gateway.results import RESULTS
from mcp_gateway.tools import TOOLS, descriptors
from tests.support.mcp_agent import list_tools
from tests.support.token_count import count_tokens

ALLOWED_IN_PROPERTY = {"type", "description", "enum", "minimum", "maximum", "items"}
TYPES = ["string", "integer", "number", "boolean", "array"]
SERVER_NAME_CHARS = len("mcp__" + "s" * 30 + "__")  # a server's name of 30, as clients prefix tools with it
NAME_CHARS = 60
TEXT_BYTES = 2_000
ARGUMENT_BYTES = 200
ROSTER_TOKENS = 2_500
INSTRUCTIONS_COUNTED_ONCE = (
    "Memory shared by the agents of this team. What others decided, learned or ruled out reaches you here, and "
    "yours reaches them. place_beacon once per subject you care about: matching memories of other agents then "
    "arrive in your inbox unasked. Sub-agents should recall, not drain. Never store secrets."
)


def problems(descriptor: dict[str, Any]) -> list[str]:
    """Return what a strict client would refuse about one tool."""
    found = []
    if not re.fullmatch(r"[a-z0-9_]+", descriptor["name"]):
        found.append("name has other characters than a-z, 0-9 and _")
    if len(descriptor["name"]) + SERVER_NAME_CHARS > NAME_CHARS:
        found.append("name is too long beside a server's name")
    if not 0 < len(descriptor["description"].encode()) <= TEXT_BYTES:
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


def shown_to_models() -> list[dict[str, Any]]:
    """Return of each tool what clients put before a model: titles and hints are for people and hosts."""
    return [{key: d[key] for key in ("name", "description", "inputSchema")} for d in descriptors()]


def test_the_roster_takes_at_most_2500_tokens_also_with_the_instructions() -> None:
    text = json.dumps(shown_to_models(), ensure_ascii=False, separators=(",", ":"))
    assert count_tokens(text) <= ROSTER_TOKENS
    assert count_tokens(text) + count_tokens(INSTRUCTIONS) <= ROSTER_TOKENS


def test_the_instructions_and_each_description_fit_what_clients_show() -> None:
    assert 0 < len(INSTRUCTIONS.encode()) <= TEXT_BYTES
    for tool in TOOLS.values():
        assert 0 < len(tool.description.encode()) <= TEXT_BYTES
        assert all(len(a.description.encode()) <= ARGUMENT_BYTES for a in tool.arguments)


def test_the_instructions_name_only_tools_and_arguments_that_exist() -> None:
    known = set(TOOLS) | {a.name for tool in TOOLS.values() for a in tool.arguments}
    results = {"superseded_by"}
    assert set(re.findall(r"[a-z]+_[a-z_]+", INSTRUCTIONS)) <= known | results


def test_each_name_that_a_description_says_exists() -> None:
    known = set(TOOLS) | {a.name for tool in TOOLS.values() for a in tool.arguments} | result_fields()
    for tool in TOOLS.values():
        texts = [tool.description, *(a.description for a in tool.arguments)]
        assert set(re.findall(r"[a-z]+_[a-z_]+", " ".join(texts))) <= known | {"node_ids"}, tool.name


def result_fields() -> set[str]:
    """Return the names of the members of the tools' results, one level deep."""
    return {field.name for name in TOOLS for field in RESULTS[name].fields}


def test_the_roster_is_the_same_each_time_and_in_each_process() -> None:
    text = json.dumps(descriptors())
    assert json.dumps(descriptors()) == text
    code = "import json; from mcp_gateway.tools import descriptors; print(json.dumps(descriptors()))"
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        other = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, check=True)
        assert other.stdout.decode().strip() == text


@pytest.mark.parametrize("revision", REVISIONS.names)
def test_every_revision_lists_the_same_tools(revision: str) -> None:
    assert asyncio.run(list_tools(revision)) == json.loads(json.dumps(descriptors()))


@pytest.mark.parametrize("name", ["Store", "store.cell", "store-cell", "", "s" * 40, "läsen"])
def test_the_linter_finds_planted_names(name: str) -> None:
    assert problems({**descriptors()[0], "name": name}) != []


@pytest.mark.parametrize("text", ["", "x" * 2001, "é" * 1001])
def test_the_linter_finds_planted_descriptions(text: str) -> None:
    assert problems({**descriptors()[0], "description": text}) != []


@pytest.mark.parametrize(
    ("text", "o200k"),
    [  # counted once with the o200k_base encoding
        (INSTRUCTIONS_COUNTED_ONCE, 62),
        ('{"type":"string","description":"Default: every project you may read"}', 15),
        ('{"type":"integer","minimum":1,"maximum":500,"description":"Default 20"}', 19),
    ],
)
def test_the_count_of_tokens_is_near_that_of_models(text: str, o200k: int) -> None:
    assert o200k * 0.9 <= count_tokens(text) <= o200k * 1.2
