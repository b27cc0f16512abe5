"""Wrong arguments of every kind: the exact text that an agent reads, and that its example works as it stands."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_gateway.argument_kinds import ID_BEGINNING, ID_EXAMPLE
from mcp_gateway.tools import TOOLS
from tests.situations.stage import Stage, situation_without_model
from tests.support.mcp_agent import McpAgent

STORE = {"content": "c", "cell_type": "Fact"}
RECALL = {"query": "q"}

# tool, arguments, text without its code word
WRONG: list[tuple[str, dict[str, Any], str]] = [
    (
        "store",
        {},
        'content is missing. Nothing was stored. Example: {"content": "...", "cell_type": "Decision"}',
    ),
    (
        "store",
        {"content": "c"},
        "cell_type is missing; one of Decision, Constraint, Risk, Pattern, Lesson, Fact,"
        ' Preference, Context, Task. Nothing was stored. Example: {"content": "...",'
        ' "cell_type": "Decision"}',
    ),
    (
        "store",
        {"content": "c", "cell_type": "Opinion"},
        'cell_type is "Opinion"; one of Decision, Constraint, Risk, Pattern, Lesson, Fact,'
        ' Preference, Context, Task. Nothing was stored. Example: {"content": "...",'
        ' "cell_type": "Decision"}',
    ),
    (
        "store",
        {"content": "c", "cell_type": 5},
        "cell_type is 5; one of Decision, Constraint, Risk, Pattern, Lesson, Fact,"
        ' Preference, Context, Task. Nothing was stored. Example: {"content": "...",'
        ' "cell_type": "Decision"}',
    ),
    (
        "store",
        {"content": "", "cell_type": "Fact"},
        'content is empty; give some text. Nothing was stored. Example: {"content": "...",'
        ' "cell_type": "Decision"}',
    ),
    (
        "store",
        {"content": {"a": 1}, "cell_type": "Fact"},
        'content is an object; give text. Nothing was stored. Example: {"content": "...",'
        ' "cell_type": "Decision"}',
    ),
    (
        "store",
        {"text": "c", "cell_type": "Fact"},
        "store has no argument text; did you mean content? It takes content, cell_type,"
        " salience, project, session_id, tags, supersedes, derived_from, idempotency_key."
        ' Nothing was stored. Example: {"content": "...", "cell_type": "Decision"}',
    ),
    (
        "store",
        {"message": "c", "cell_type": "Fact"},
        "store has no argument message; did you mean content? It takes content, cell_type,"
        " salience, project, session_id, tags, supersedes, derived_from, idempotency_key."
        ' Nothing was stored. Example: {"content": "...", "cell_type": "Decision"}',
    ),
    (
        "store",
        {"body": "c", "cell_type": "Fact"},
        "store has no argument body; did you mean content? It takes content, cell_type,"
        " salience, project, session_id, tags, supersedes, derived_from, idempotency_key."
        ' Nothing was stored. Example: {"content": "...", "cell_type": "Decision"}',
    ),
    (
        "store",
        {"content": "c", "type": "Fact"},
        "store has no argument type; did you mean cell_type? It takes content, cell_type,"
        " salience, project, session_id, tags, supersedes, derived_from, idempotency_key."
        ' Nothing was stored. Example: {"content": "...", "cell_type": "Decision"}',
    ),
    (
        "store",
        {**STORE, "importance": 0.9},
        "store has no argument importance; did you mean salience? It takes content,"
        " cell_type, salience, project, session_id, tags, supersedes, derived_from,"
        ' idempotency_key. Nothing was stored. Example: {"content": "...", "cell_type":'
        ' "Decision", "salience": 0.5}',
    ),
    (
        "store",
        {**STORE, "salience": "high"},
        'salience is "high"; give a number, 0 to 1. Nothing was stored. Example: {"content":'
        ' "...", "cell_type": "Decision", "salience": 0.5}',
    ),
    (
        "store",
        {**STORE, "salience": 5},
        'salience is 5; allowed 0 to 1. Nothing was stored. Example: {"content": "...",'
        ' "cell_type": "Decision", "salience": 0.5}',
    ),
    (
        "store",
        {**STORE, "tags": "retry"},
        "tags is text of 5 characters; give an array. Nothing was stored. Example:"
        ' {"content": "...", "cell_type": "Decision", "tags": ["retry"]}',
    ),
    (
        "store",
        {**STORE, "tags": ["x" * 65]},
        "an item of tags has 65 characters; the limit is 64. Nothing was stored. Shorten it.",
    ),
    (
        "store",
        {**STORE, "tags": [5]},
        'an item of tags is a number; give text. Nothing was stored. Example: {"content":'
        ' "...", "cell_type": "Decision", "tags": ["retry"]}',
    ),
    (
        "store",
        {**STORE, "node_id": "x"},
        "store has no argument node_id; did you mean supersedes? It takes content,"
        " cell_type, salience, project, session_id, tags, supersedes, derived_from,"
        ' idempotency_key. Nothing was stored. Example: {"content": "...", "cell_type":'
        ' "Decision", "supersedes": "6f9619ff"}',
    ),
    (
        "store",
        {**STORE, "source_agent": "bob"},
        "store has no argument source_agent: who you are comes from your key. It takes"
        " content, cell_type, salience, project, session_id, tags, supersedes, derived_from,"
        ' idempotency_key. Nothing was stored. Example: {"content": "...", "cell_type":'
        ' "Decision"}',
    ),
    (
        "store",
        {**STORE, "project": "a\nb"},
        "project holds a control character at 1; it must be one line of text. Nothing was"
        ' stored. Example: {"content": "...", "cell_type": "Decision", "project": "billing"}',
    ),
    (
        "store",
        {**STORE, "replaces": "x"},
        "store has no argument replaces; did you mean supersedes? It takes content,"
        " cell_type, salience, project, session_id, tags, supersedes, derived_from,"
        ' idempotency_key. Nothing was stored. Example: {"content": "...", "cell_type":'
        ' "Decision", "supersedes": "6f9619ff"}',
    ),
    (
        "store",
        {**STORE, "supersedes": ["a"]},
        'supersedes is an array of 1; give text. Nothing was stored. Example: {"content":'
        ' "...", "cell_type": "Decision", "supersedes": "6f9619ff"}',
    ),
    (
        "store",
        {**STORE, "idempotency_key": " "},
        "idempotency_key is blank; leave it out or give some text. Nothing was stored."
        ' Example: {"content": "...", "cell_type": "Decision", "idempotency_key": "k7f3a9"}',
    ),
    (
        "store",
        {**STORE, "ttl": 5},
        "store has no argument ttl. It takes content, cell_type, salience, project,"
        " session_id, tags, supersedes, derived_from, idempotency_key. Nothing was stored."
        ' Example: {"content": "...", "cell_type": "Decision"}',
    ),
    (
        "recall",
        {},
        'query is missing. Nothing was searched. Example: {"query": "how are payments retried"}',
    ),
    (
        "recall",
        {"q": "x"},
        "recall has no argument q; did you mean query? It takes query, k, include_content,"
        " project, cell_types, tags, from_agents, since, min_salience, include_superseded,"
        ' mode, max_bytes. Nothing was searched. Example: {"query": "how are payments'
        ' retried"}',
    ),
    (
        "recall",
        {**RECALL, "limit": 5},
        "recall has no argument limit; did you mean k? It takes query, k, include_content,"
        " project, cell_types, tags, from_agents, since, min_salience, include_superseded,"
        ' mode, max_bytes. Nothing was searched. Example: {"query": "how are payments'
        ' retried", "k": 10}',
    ),
    (
        "recall",
        {"node_id": "x"},
        "recall has no argument node_id; did you mean query? It takes query, k,"
        " include_content, project, cell_types, tags, from_agents, since, min_salience,"
        ' include_superseded, mode, max_bytes. Nothing was searched. Example: {"query": "how'
        ' are payments retried"}',
    ),
    (
        "recall",
        {"id": "x"},
        "recall has no argument id; did you mean query? It takes query, k, include_content,"
        " project, cell_types, tags, from_agents, since, min_salience, include_superseded,"
        ' mode, max_bytes. Nothing was searched. Example: {"query": "how are payments'
        ' retried"}',
    ),
    (
        "recall",
        {**RECALL, "k": 500},
        'k is 500; allowed 1 to 100. Nothing was searched. Example: {"query": "how are'
        ' payments retried", "k": 10}',
    ),
    (
        "recall",
        {**RECALL, "k": 0},
        'k is 0; allowed 1 to 100. Nothing was searched. Example: {"query": "how are'
        ' payments retried", "k": 10}',
    ),
    (
        "recall",
        {**RECALL, "k": "12px"},
        'k is "12px"; give a whole number, 1 to 100. Nothing was searched. Example:'
        ' {"query": "how are payments retried", "k": 10}',
    ),
    (
        "recall",
        {**RECALL, "k": 5.5},
        'k is 5.5; give a whole number, 1 to 100. Nothing was searched. Example: {"query":'
        ' "how are payments retried", "k": 10}',
    ),
    (
        "recall",
        {**RECALL, "k": True},
        'k is true; give a whole number, 1 to 100. Nothing was searched. Example: {"query":'
        ' "how are payments retried", "k": 10}',
    ),
    (
        "recall",
        {**RECALL, "k": "NaN"},
        'k is "NaN"; give a whole number, 1 to 100. Nothing was searched. Example: {"query":'
        ' "how are payments retried", "k": 10}',
    ),
    (
        "recall",
        {**RECALL, "since": "yesterday"},
        'since is "yesterday"; give 2026-11-30T09:00:00Z, a span such as 24h or 7d, or a'
        ' next_since. Nothing was searched. Example: {"query": "how are payments retried",'
        ' "since": "24h"}',
    ),
    (
        "recall",
        {**RECALL, "since": 1758344479},
        "since is the number 1758344479: seconds and milliseconds look alike; give"
        " 2026-11-30T09:00:00Z, a span such as 24h or 7d, or a next_since. Nothing was"
        ' searched. Example: {"query": "how are payments retried", "since": "24h"}',
    ),
    (
        "recall",
        {**RECALL, "since": "1758344479000"},
        "since is the number 1758344479000: seconds and milliseconds look alike; give"
        " 2026-11-30T09:00:00Z, a span such as 24h or 7d, or a next_since. Nothing was"
        ' searched. Example: {"query": "how are payments retried", "since": "24h"}',
    ),
    (
        "recall",
        {**RECALL, "since": "3M"},
        'since is "3M"; give 2026-11-30T09:00:00Z, a span such as 24h or 7d, or a'
        ' next_since. Nothing was searched. Example: {"query": "how are payments retried",'
        ' "since": "24h"}',
    ),
    (
        "recall",
        {**RECALL, "cell_types": ["Opinion"]},
        'an item of cell_types is "Opinion"; one of Decision, Constraint, Risk, Pattern,'
        ' Lesson, Fact, Preference, Context, Task. Nothing was searched. Example: {"query":'
        ' "how are payments retried", "cell_types": ["Decision"]}',
    ),
    (
        "recall",
        {**RECALL, "mode": "semantic"},
        'mode is "semantic"; one of hybrid, vector, lexical. Nothing was searched. Example:'
        ' {"query": "how are payments retried", "mode": "hybrid"}',
    ),
    (
        "recall",
        {**RECALL, "include_content": "yes"},
        'include_content is "yes"; give true or false. Nothing was searched. Example:'
        ' {"query": "how are payments retried", "include_content": true}',
    ),
    (
        "recall",
        {**RECALL, "content": True},
        "recall has no argument content; did you mean include_content? It takes query, k,"
        " include_content, project, cell_types, tags, from_agents, since, min_salience,"
        ' include_superseded, mode, max_bytes. Nothing was searched. Example: {"query": "how'
        ' are payments retried", "include_content": true}',
    ),
    (
        "recall",
        {**RECALL, "from_agents": "me"},
        "from_agents is text of 2 characters; give an array. Nothing was searched. Example:"
        ' {"query": "how are payments retried", "from_agents": ["me"]}',
    ),
    (
        "recall",
        {**RECALL, "max_bytes": 100},
        'max_bytes is 100; allowed 1000 to 45000. Nothing was searched. Example: {"query":'
        ' "how are payments retried", "max_bytes": 20000}',
    ),
    (
        "recall",
        {**RECALL, "min_score": 0.5},
        "recall has no argument min_score. It takes query, k, include_content, project,"
        " cell_types, tags, from_agents, since, min_salience, include_superseded, mode,"
        ' max_bytes. Nothing was searched. Example: {"query": "how are payments retried"}',
    ),
    (
        "recall",
        {**RECALL, "layer": 1},
        "recall has no argument layer; query searches a layer. It takes query, k,"
        " include_content, project, cell_types, tags, from_agents, since, min_salience,"
        ' include_superseded, mode, max_bytes. Nothing was searched. Example: {"query": "how'
        ' are payments retried"}',
    ),
    (
        "recall",
        {**RECALL, "agent": "bob"},
        "recall has no argument agent; did you mean from_agents? It takes query, k,"
        " include_content, project, cell_types, tags, from_agents, since, min_salience,"
        ' include_superseded, mode, max_bytes. Nothing was searched. Example: {"query": "how'
        ' are payments retried", "from_agents": ["me"]}',
    ),
    (
        "query",
        {"query": "q"},
        'layer is missing. Nothing was searched. Example: {"layer": 1, "query": "how are payments retried"}',
    ),
    (
        "query",
        {**RECALL, "layer": 3},
        'layer is 3; allowed 0 to 2. Nothing was searched. Example: {"layer": 1, "query":'
        ' "how are payments retried"}',
    ),
    (
        "open_session",
        {"name": "x"},
        "open_session has no argument name; did you mean title? It takes project, title."
        ' Nothing was opened. Example: {"title": "retries of payments"}',
    ),
    (
        "open_session",
        {"title": "x" * 129},
        "title has 129 characters; the limit is 128. Nothing was opened. Shorten it.",
    ),
    (
        "close_session",
        {},
        'session_id is missing. Nothing was closed. Example: {"session_id":'
        ' "6f9619ff-8b86-d011-b42d-00cf4fc964ff"}',
    ),
    (
        "close_session",
        {"id": "x"},
        "close_session has no argument id; did you mean session_id? It takes session_id."
        ' Nothing was closed. Example: {"session_id": "6f9619ff-8b86-d011-b42d-00cf4fc964ff"}',
    ),
    (
        "place_beacon",
        {},
        'interest is missing. Nothing was placed. Example: {"interest": "payment retries"}',
    ),
    (
        "place_beacon",
        {"query": "x"},
        "place_beacon has no argument query; did you mean interest? It takes interest,"
        " threshold, project, cell_types, layers, min_salience, ttl_seconds, include_own,"
        ' strict. Nothing was placed. Example: {"interest": "payment retries"}',
    ),
    (
        "place_beacon",
        {"interest": "x", "layers": [3]},
        'an item of layers is 3; allowed 0 to 2. Nothing was placed. Example: {"interest":'
        ' "payment retries", "layers": [0]}',
    ),
    (
        "place_beacon",
        {"interest": "x", "ttl_seconds": -1},
        'ttl_seconds is -1; allowed 0 to 31536000. Nothing was placed. Example: {"interest":'
        ' "payment retries", "ttl_seconds": 86400}',
    ),
    (
        "place_beacon",
        {"interest": "x", "ttl": 60},
        "place_beacon has no argument ttl; did you mean ttl_seconds? It takes interest,"
        " threshold, project, cell_types, layers, min_salience, ttl_seconds, include_own,"
        ' strict. Nothing was placed. Example: {"interest": "payment retries",'
        ' "ttl_seconds": 86400}',
    ),
    (
        "place_beacon",
        {"interest": "x", "threshold": 30},
        'threshold is 30; allowed 0 to 1. Nothing was placed. Example: {"interest": "payment'
        ' retries", "threshold": 0.4}',
    ),
    (
        "list_beacons",
        {"project": "x"},
        "list_beacons has no argument project. It takes no arguments. Nothing was read. Example: {}",
    ),
    (
        "diffs_since",
        {},
        'since is missing. Nothing was read. Example: {"since": "24h"}',
    ),
    (
        "diffs_since",
        {"since": "now"},
        'since is "now"; give 2026-11-30T09:00:00Z, a span such as 24h or 7d, or a'
        ' next_since. Nothing was read. Example: {"since": "24h"}',
    ),
    (
        "diffs_since",
        {"since": "24h", "k": 5},
        "diffs_since has no argument k; did you mean limit? It takes since, limit, project,"
        ' include_content, max_bytes. Nothing was read. Example: {"since": "24h", "limit":'
        " 10}",
    ),
    (
        "diffs_since",
        {"cursor": "x"},
        "diffs_since has no argument cursor; did you mean since? It takes since, limit,"
        ' project, include_content, max_bytes. Nothing was read. Example: {"since": "24h"}',
    ),
    (
        "get_scene",
        {},
        'scene_id is missing. Nothing was read. Example: {"scene_id":'
        ' "6f9619ff-8b86-d011-b42d-00cf4fc964ff"}',
    ),
    (
        "get_scene",
        {"id": "x"},
        "get_scene has no argument id; did you mean scene_id? It takes scene_id. Nothing was"
        ' read. Example: {"scene_id": "6f9619ff-8b86-d011-b42d-00cf4fc964ff"}',
    ),
    (
        "list_scenes",
        {"page": 2},
        "list_scenes has no argument page; did you mean cursor? It takes project, limit,"
        " cursor. Nothing was read. Example: {}",
    ),
    (
        "drain_inbox",
        {"k": 5},
        "drain_inbox has no argument k; did you mean limit? It takes limit, session_id,"
        " project, ack, advance, include_content, skip_before, max_bytes. Your place in the"
        ' inbox is unchanged. Example: {"limit": 10}',
    ),
    (
        "drain_inbox",
        {"limit": 501},
        'limit is 501; allowed 1 to 500. Your place in the inbox is unchanged. Example: {"limit": 10}',
    ),
    (
        "drain_inbox",
        {"cursor": "x"},
        "drain_inbox has no argument cursor; did you mean ack? It takes limit, session_id,"
        " project, ack, advance, include_content, skip_before, max_bytes. Your place in the"
        " inbox is unchanged. Example: {}",
    ),
    (
        "drain_inbox",
        {"since": "24h"},
        "drain_inbox has no argument since; diffs_since reads again from a time. It takes"
        " limit, session_id, project, ack, advance, include_content, skip_before, max_bytes."
        " Your place in the inbox is unchanged. Example: {}",
    ),
    (
        "drain_inbox",
        {"peek": True},
        "drain_inbox has no argument peek; did you mean advance? It takes limit, session_id,"
        " project, ack, advance, include_content, skip_before, max_bytes. Your place in the"
        ' inbox is unchanged. Example: {"advance": false}',
    ),
    (
        "drain_inbox",
        {"skip_before": "last week"},
        'skip_before is "last week"; give 2026-11-30T09:00:00Z, a span such as 24h or 7d, or'
        ' a next_since. Your place in the inbox is unchanged. Example: {"skip_before": "24h"}',
    ),
    (
        "drain_inbox",
        {"advance": 0},
        'advance is 0; give true or false. Your place in the inbox is unchanged. Example: {"advance": false}',
    ),
]

NO_ID = "which is no id. {kept} Give the id as it was returned, such as 6f9619ff-8b86-d011-b42d-00cf4fc964ff."
NO_IDS: list[tuple[str, dict[str, Any], str]] = [
    ("store", {**STORE, "supersedes": "the old one"}, "Nothing was stored."),
    ("store", {**STORE, "derived_from": ["the old one"]}, "Nothing was stored."),
    ("store", {**STORE, "session_id": "the old one"}, "Nothing was stored."),
    ("close_session", {"session_id": "the old one"}, "Nothing was closed."),
    ("drain_inbox", {"session_id": "the old one"}, "Your place in the inbox is unchanged."),
]


@pytest.mark.parametrize(("tool", "arguments", "text"), WRONG)
def test_a_wrong_argument_is_named_and_its_example_works(
    small_stage: Stage, tool: str, arguments: dict[str, Any], text: str
) -> None:
    async def play() -> None:
        alice = await small_stage.agent("alice")
        refused = await alice(tool, **arguments)
        assert refused.error == f"invalid: {text}"
        if "Example: " in text:
            assert not (await pasted(alice, tool, refused.example)).failed

    small_stage.runner.run(play())


async def pasted(agent: McpAgent, tool: str, example: dict[str, Any]) -> Any:
    """Make the call of an example, with ids that exist in the place of those that it shows."""
    known: dict[str, str] = {}
    if "session_id" in example:
        known[ID_EXAMPLE] = (await agent("open_session"))["session_id"]
    if {"supersedes", "derived_from"} & example.keys():
        known[ID_BEGINNING] = (await agent("store", **STORE))["node_id"]
    if tool == "get_scene":  # there is none in this team: what counts is that the call is well formed
        assert (await agent(tool, **example)).error.startswith("not_found: ")
        return await agent("list_scenes")
    shown = {
        name: known.get(value, value) if isinstance(value, str) else value for name, value in example.items()
    }
    return await agent(tool, **shown)


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
        alice = await small_stage.agent("alice")
        for argument in TOOLS[tool].arguments:
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
    for tool, arguments, _ in WRONG:
        if tool == "store":
            await alice(tool, **arguments)
    assert (await alice("recall", query="c"))["results"] == []


@situation_without_model
async def test_content_beyond_the_limit_is_refused_with_both_sizes(stage: Stage) -> None:
    alice = await stage.agent("alice")
    assert (await alice("store", content="x" * 65_537, cell_type="Fact")).error == (
        "invalid: content has 65537 bytes; the limit is 65536 bytes. Nothing was stored."
        " Shorten it to one statement, or split it."
    )
    halves = [await alice("store", content="x" * 32_768, cell_type="Fact") for _ in range(2)]
    assert all("node_id" in half for half in halves)
