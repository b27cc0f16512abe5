"""Wrong arguments of every kind: the exact text that an agent reads, and that its example works as it stands."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mcp_gateway.argument_kinds import ID_BEGINNING, ID_EXAMPLE
from mcp_gateway.tools import TOOLS
from tests.situations.stage import Stage, situation_without_model
from tests.support.mcp_agent import McpAgent, Told

STORE = {"content": "c", "cell_type": "Fact"}

# One line a case: tool, arguments, and the exact text that the agent reads.
WRONG = [
    json.loads(line)
    for line in Path(__file__).with_name("wrong_arguments.jsonl").read_text("utf-8").splitlines()
]

NO_ID = "which is no id. {kept} Give the id as it was returned, such as 6f9619ff-8b86-d011-b42d-00cf4fc964ff."
NO_IDS: list[tuple[str, dict[str, Any], str]] = [
    ("store", {**STORE, "supersedes": "the old one"}, "Nothing was stored."),
    ("store", {**STORE, "derived_from": ["the old one"]}, "Nothing was stored."),
    ("store", {**STORE, "session_id": "the old one"}, "Nothing was stored."),
    ("close_session", {"session_id": "the old one"}, "Nothing was closed."),
    ("drain_inbox", {"session_id": "the old one"}, "Your place in the inbox is unchanged."),
]


@pytest.mark.parametrize("case", WRONG, ids=lambda case: f"{case['tool']}-{'-'.join(case['arguments'])}")
def test_a_wrong_argument_is_named_and_the_example_works(small_stage: Stage, case: dict[str, Any]) -> None:
    async def play() -> None:
        alice = await small_stage.agent("alice")
        refused = await alice(case["tool"], **case["arguments"])
        assert refused.error == case["text"]
        assert not (await pasted(alice, case["tool"], refused.example)).failed

    small_stage.runner.run(play())


async def pasted(agent: McpAgent, tool: str, example: dict[str, Any]) -> Told:
    """Make the call of an example, with ids that exist in the place of those that it shows."""
    text = json.dumps(example)
    if ID_EXAMPLE in text and "session_id" in example:
        text = text.replace(ID_EXAMPLE, (await agent("open_session"))["session_id"])
    if {"supersedes", "derived_from"} & example.keys():
        text = text.replace(ID_BEGINNING, (await agent("store", **STORE))["node_id"])
    told = await agent(tool, **json.loads(text))
    if tool == "get_scene":  # this team has none: what counts is that the call is well formed
        assert told.error.startswith("not_found: ")
        return await agent("list_scenes")
    return told


@pytest.mark.parametrize(("tool", "arguments", "kept"), NO_IDS)
def test_what_is_no_id_is_shown_with_the_form_of_one(
    small_stage: Stage, tool: str, arguments: dict[str, Any], kept: str
) -> None:
    async def play() -> None:
        refused = await (await small_stage.agent("alice"))(tool, **arguments)
        assert refused.error.endswith('"the old one", ' + NO_ID.format(kept=kept))

    small_stage.runner.run(play())


@pytest.mark.parametrize("tool", TOOLS)
def test_every_argument_that_a_call_takes_has_an_example_that_is_accepted(
    small_stage: Stage, tool: str
) -> None:
    async def play() -> None:
        for argument in TOOLS[tool].arguments:
            alice = await small_stage.agent(f"alice of {argument.name}")
            refused = await alice(tool, **{**required(tool), argument.name: {"wrong": True}})
            assert refused.error.startswith(f"invalid: {argument.name} "), refused.text
            assert not (await pasted(alice, tool, refused.example)).failed, refused.text

    small_stage.runner.run(play())


def required(tool: str) -> dict[str, Any]:
    values: dict[str, Any] = {
        "content": "c",
        "cell_type": "Fact",
        "query": "q",
        "layer": 0,
        "interest": "i",
        "since": "1h",
    }
    return {argument.name: values.get(argument.name, ID_EXAMPLE) for argument in TOOLS[tool].required}


ACCEPTED: list[tuple[str, dict[str, Any]]] = [
    ("store", {"content": "c", "cell_type": "decision", "salience": "0.9", "tags": '["a","b"]'}),
    ("store", {**STORE, "project": None, "tags": [], "supersedes": None}),
    ("recall", {"query": "c", "k": "5", "include_content": "true", "cell_types": '["FACT"]'}),
    ("recall", {"query": "c", "k": 5.0, "since": " 24h ", "mode": "LEXICAL"}),
    ("query", {"query": "c", "layer": "0"}),
    ("drain_inbox", {"limit": "10", "advance": "false"}),
    ("diffs_since", {"since": "2026-11-30"}),
]


@pytest.mark.parametrize(("tool", "arguments"), ACCEPTED)
def test_what_models_send_beside_the_exact_form_is_accepted(
    small_stage: Stage, tool: str, arguments: dict[str, Any]
) -> None:
    async def play() -> None:
        assert not (await (await small_stage.agent("alice"))(tool, **arguments)).failed

    small_stage.runner.run(play())


@situation_without_model
async def test_a_refused_store_leaves_nothing_behind(stage: Stage) -> None:
    alice = await stage.agent("alice")
    for case in WRONG:
        if case["tool"] == "store":
            assert (await alice("store", **case["arguments"])).failed
    assert (await alice("recall", query="c"))["results"] == []


@situation_without_model
async def test_what_is_too_long_is_refused_with_both_sizes(stage: Stage) -> None:
    alice = await stage.agent("alice")
    assert (await alice("store", content="x" * 65_537, cell_type="Fact")).error == (
        "invalid: content has 65537 bytes; the limit is 65536 bytes. Nothing was stored."
        " Shorten it to one statement, or split it."
    )
    long = await alice("open_session", title="x" * 129)
    assert long.error == (
        "invalid: title has 129 characters; the limit is 128. Nothing was opened. Shorten it."
    )
    tagged = await alice("store", **STORE, tags=["x" * 65])
    assert tagged.error == (
        "invalid: an item of tags has 65 characters; the limit is 64. Nothing was stored. Shorten it."
    )
    halves = [await alice("store", content="x" * 32_768, cell_type="Fact") for _ in range(2)]
    assert all("node_id" in half for half in halves)
