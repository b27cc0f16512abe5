"""`tools/list`: the roster, its descriptors, and what each revision's schema asks of them."""

from __future__ import annotations

import re
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest

from mcp_gateway.tools import TOOLS
from tests.conformance.mcp.harness import Client
from tests.conformance.mcp.links import HttpLink, MemoryLink
from tests.conformance.mcp.model import ALL, BOTH, EVERYWHERE, HTTP, LATEST_LEGACY, requirement
from tests.conformance.mcp.shared_peer import SharedPeer

ELEVEN = [
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
HINTS = {"readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"}
READ = (True, False, True, False)
CHANGE = (False, False, False, False)
SETTLE = (False, False, True, False)
HINTS_OF = {
    "store": CHANGE,
    "recall": READ,
    "query": READ,
    "open_session": CHANGE,
    "close_session": SETTLE,
    "place_beacon": SETTLE,
    "list_beacons": READ,
    "diffs_since": READ,
    "get_scene": READ,
    "list_scenes": READ,
    "drain_inbox": CHANGE,
}


def tools_of(client: Client) -> list[dict[str, Any]]:
    tools: list[dict[str, Any]] = client.request("tools/list").result()["tools"]
    return tools


def schemas_in(schema: Any) -> list[Any]:
    """Return a schema and every schema below it."""
    if not isinstance(schema, dict):
        return [schema]
    below = [*schema.get("properties", {}).values(), *([schema["items"]] if "items" in schema else [])]
    return [schema, *(inner for each in below for inner in schemas_in(each))]


@requirement("tools.roster", "seed.eleven-tools", "seed.no-consolidate", revisions=ALL)
def test_the_roster_is_the_eleven_tools_in_their_order(client: Client) -> None:
    assert [tool["name"] for tool in tools_of(client)] == ELEVEN
    assert "consolidate_scene" not in ELEVEN


@requirement("tools.result", revisions=ALL)
def test_the_list_is_one_page(client: Client) -> None:
    extra = {"resultType", "ttlMs", "cacheScope", "_meta"} if client.is_modern else set()
    assert set(client.request("tools/list").result()) == {"tools"} | extra


@requirement("tools.cursor", revisions=ALL)
@pytest.mark.parametrize("cursor", ["next", "", "0"], ids=repr)
def test_a_cursor_that_was_never_given_out_is_refused(client: Client, cursor: str) -> None:
    reply = client.request("tools/list", {"cursor": cursor})
    assert reply.error(-32602, http=client.http(modern=400))["message"].startswith("Invalid cursor")


@requirement("tools.same-list", "modern.same-list", revisions=ALL)
def test_the_list_is_the_same_in_every_revision_and_after_any_call(
    client: Client, memory: MemoryLink
) -> None:
    memory.agree("2025-11-25")
    reference = tools_of(Client(memory, "2025-11-25"))
    assert tools_of(client) == reference
    client.call("open_session").content()
    client.call("no_such")
    assert tools_of(client) == reference


@requirement("tools.same-list", "modern.same-list", over=HTTP)
def test_the_list_is_the_same_for_every_caller(peer: SharedPeer, http: HttpLink) -> None:
    reader = HttpLink(peer.url, peer.key("reader", scopes=["read"]))
    for revision in ("2025-11-25", "2026-07-28"):
        assert tools_of(Client(reader, revision)) == tools_of(Client(http, revision))


@requirement("tools.descriptor", revisions=ALL)
def test_a_descriptor_has_exactly_its_members(client: Client) -> None:
    for tool in tools_of(client):
        assert set(tool) == {"name", "title", "description", "inputSchema", "annotations"}
        assert isinstance(tool["description"], str)
        assert tool["description"]
        assert tool["inputSchema"]["type"] == "object"


@requirement("tools.names", revisions=BOTH)
def test_names_are_short_unique_and_of_plain_characters(client: Client) -> None:
    names = [tool["name"] for tool in tools_of(client)]
    assert all(re.fullmatch(r"[A-Za-z0-9_.-]{1,64}", name) for name in names)
    assert len(set(names)) == len(names)


@requirement("tools.valid-schema", revisions=BOTH)
def test_each_schema_is_valid_in_the_default_dialect(client: Client) -> None:
    for tool in tools_of(client):
        assert "$schema" not in tool["inputSchema"]
        jsonschema.Draft202012Validator.check_schema(tool["inputSchema"])


@requirement("tools.property-schemas", "tools.no-header-annotations", revisions=BOTH)
def test_each_property_is_an_object_schema_of_one_type_without_references(client: Client) -> None:
    for tool in tools_of(client):
        for schema in schemas_in(tool["inputSchema"]):
            assert isinstance(schema, dict), tool["name"]
            assert isinstance(schema["type"], str)
            forbidden = {"$ref", "$defs", "anyOf", "oneOf", "allOf", "not", "if", "x-mcp-header"}
            assert not set(schema) & forbidden, tool["name"]


@requirement("tools.no-arguments", revisions=BOTH)
def test_a_tool_without_arguments_says_so_in_the_form_that_all_clients_take(client: Client) -> None:
    (tool,) = [tool for tool in tools_of(client) if tool["name"] == "list_beacons"]
    assert tool["inputSchema"] == {"type": "object", "properties": {}}


@requirement("tools.hints", "seed.all-hints", "seed.closed-world", "seed.six-reads", revisions=ALL)
def test_each_tool_states_all_four_hints(client: Client) -> None:
    order = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")
    for tool in tools_of(client):
        assert set(tool["annotations"]) == HINTS
        assert all(type(value) is bool for value in tool["annotations"].values())
        assert tuple(tool["annotations"][hint] for hint in order) == HINTS_OF[tool["name"]]
        assert tool["annotations"]["openWorldHint"] is False
    assert sum(tool["annotations"]["readOnlyHint"] for tool in tools_of(client)) == 6


@requirement("tools.no-identity", "seed.schemas-omit-identity", "seed.no-identity-argument", revisions=BOTH)
def test_no_schema_knows_an_argument_that_says_who_calls(client: Client) -> None:
    identity = {"source_agent", "tenant_id", "tenant", "agent", "agent_id", "owner", "user", "user_id"}
    for tool in tools_of(client):
        assert not set(tool["inputSchema"]["properties"]) & identity, tool["name"]


@requirement("tools.no-output-schema", "tools.no-tasks", revisions=BOTH)
def test_no_tool_promises_an_output_schema_or_tasks(client: Client) -> None:
    for tool in tools_of(client):
        assert not {"outputSchema", "execution", "icons"} & set(tool)


@requirement("seed.per-tool-pages", over=("memory",))
@pytest.mark.parametrize("name", ELEVEN)
def test_the_table_of_hints_here_is_that_of_the_registry(name: str) -> None:
    hints = TOOLS[name].hints
    assert (hints.read_only, hints.destructive, hints.idempotent, hints.open_world) == HINTS_OF[name]


@requirement("seed.example-list", over=EVERYWHERE, revisions=LATEST_LEGACY)
def test_the_example_of_the_seed_for_listing_tools_holds(client: Client) -> None:
    tools = client.ask({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}).result()["tools"]
    store = tools[0]
    assert store["name"] == "store"
    assert store["description"].startswith("Store a memory cell")
    schema = store["inputSchema"]
    assert schema["type"] == "object"
    assert schema["required"] == ["content", "cell_type"]
    assert schema["properties"]["content"]["type"] == "string"
    cell_type = schema["properties"]["cell_type"]
    assert cell_type["type"] == "string"
    assert cell_type["enum"][:2] == ["Decision", "Constraint"]
