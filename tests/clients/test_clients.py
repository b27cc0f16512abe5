"""Every official client, over every transport, in every era that it has, lives through the same story."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from tests.clients import scenario
from tests.clients.driving import Run, http_server, left_behind, run_driver, stdio_server
from tests.clients.matrix import REVISIONS, Case, cases
from tests.support.http_agent import HttpAgent
from tests.support.hyphae_command import Up, eventually

INSPECTOR_EXITS = {
    "connect": 0,
    "list": 0,
    "store": 0,
    "recall": 0,
    "invalid": 5,
    "missing": 1,
    "drain": 0,
    "again": 0,
}


@dataclass(frozen=True, slots=True)
class Told:
    """A story, and what the peer answers to the same agent over plain HTTP.

    Args:
        run: what the client showed.
        waiting: the page that lay in the inbox before the client drained it.
        answers: JSON-RPC answers to the other steps, by name, asked for again after the client.
        author: a second agent's name.
        wanted: id of the memory of the second agent that the beacon matches.
    """

    case: Case
    run: Run
    waiting: Mapping[str, Any]
    answers: Mapping[str, Mapping[str, Any]]
    author: str
    wanted: str

    def shown(self, step: str) -> Mapping[str, Any]:
        return self.run.lines[step]


@pytest.fixture(scope="module", params=list(cases()), ids=str)
def told(request: pytest.FixtureRequest, up: Up, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Told]:
    """Let a second agent store what a beacon of the first matches, then run the client as the first."""
    case: Case = request.param
    project, tap = str(case).replace("_", "-"), tmp_path_factory.mktemp("run") / "stdout"
    base, mcp_url = up.ready["peers"][0]["rest_url"], up.ready["peers"][0]["mcp_url"]
    operator = HttpAgent(base, up.ready["admin_key"])
    keys = {name: operator("issue_key", agent=f"{name}-{project}")["key"] for name in ("reader", "author")}
    reader, author = (HttpAgent(base, key) for key in keys.values())
    reader("place_beacon", interest=scenario.INTEREST, project=project)
    author("store", content=scenario.UNWANTED, cell_type="Fact", project=project)
    wanted = author("store", content=scenario.WANTED, cell_type="Decision", project=project)["node_id"]
    peek = {**scenario.DRAIN, "project": project, "advance": False}
    eventually(lambda: bool(reader("drain_inbox", **peek)["diffs"]), "the memory is in the inbox")
    waiting = reader("drain_inbox", **peek)

    steps = scenario.steps(project)
    environment = {
        "HYPHAE_DATA_DIR": str(up.home.data),
        "HYPHAE_CONFIG_DIR": str(tap.parent),
        "HYPHAE_API_KEY": keys["reader"],
    }
    over_http = case.transport == "http"
    server = http_server(mcp_url, keys["reader"]) if over_http else stdio_server(environment, tap)
    run = run_driver(case, server, steps, tap)
    asked = [step for step in steps if step["name"] in {"recall", "invalid", "missing"}]
    answers = {step["name"]: plain_answer(reader, step) for step in asked}
    yield Told(case, run, waiting, answers, f"author-{project}", wanted)
    for agent in (operator, reader, author):
        agent.close()
    eventually(lambda: not left_behind(tap), "everything that the client started has ended", 10)


def plain_answer(agent: HttpAgent, step: scenario.Step) -> Mapping[str, Any]:
    params = {"name": step["tool"], "arguments": step["arguments"]}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
    answer: dict[str, Any] = json.loads(agent.send("POST", "/mcp", body)[1])
    return answer


def structured(line: Mapping[str, Any]) -> dict[str, Any]:
    """Return the structured content of a call that succeeded, which its one text says as well."""
    assert line["is_error"] is False, line
    (text,) = line["texts"]
    assert json.loads(text) == line["structured"]
    content: dict[str, Any] = line["structured"]
    return content


def test_the_newest_common_revision_is_spoken(told: Told) -> None:
    assert told.shown("connect")["revision"] == REVISIONS[told.case.era]


def test_the_eleven_tools_are_listed_in_order(told: Told) -> None:
    assert told.shown("list")["tools"] == list(scenario.ELEVEN)


def test_what_is_stored_is_recalled_as_the_peer_has_it(told: Told) -> None:
    stored = structured(told.shown("store"))
    found = structured(told.shown("recall"))
    assert list(stored) == ["node_id"]
    assert found == told.answers["recall"]["result"]["structuredContent"]
    (hit,) = found["results"]
    assert (hit["node_id"], hit["content"]) == (stored["node_id"], scenario.OWN)


def test_a_wrong_argument_is_a_result_that_the_model_reads(told: Told) -> None:
    line, plain = told.shown("invalid"), told.answers["invalid"]["result"]
    assert line["is_error"] is True
    assert line["texts"] == [plain["content"][0]["text"]]
    assert line["texts"][0].startswith(scenario.VALIDATION_ERROR)
    assert line["structured"] is None


def test_an_error_of_the_service_begins_with_its_code_word(told: Told) -> None:
    error, plain = told.shown("missing")["error"], told.answers["missing"]["error"]
    code, beginning, data = scenario.SERVICE_ERROR
    assert error["message"] == plain["message"]
    assert error["message"].startswith(beginning)
    if not told.case.client.command_line:  # which shows only the message
        assert (error["code"], error["data"]) == (code, data)


def test_the_inbox_holds_what_the_beacon_matched_and_only_that(told: Told) -> None:
    drained = structured(told.shown("drain"))
    assert drained["diffs"] == told.waiting["diffs"]
    (diff,) = drained["diffs"]
    seen = (diff["kind"], diff["node_id"], diff["content"], diff["source_agent"])
    assert seen == ("created", told.wanted, scenario.WANTED, told.author)
    assert [match["interest"] for match in diff["matched"]] == [scenario.INTEREST]
    assert drained["remaining"] == 0


def test_a_page_that_the_client_got_comes_once(told: Told) -> None:
    again = structured(told.shown("again"))
    if told.case.client.command_line and told.case.transport == "stdio":
        # Nothing followed the page on its pipe, so nobody knows whether it arrived.
        assert (again["diffs"], again["may_repeat"]) == (told.waiting["diffs"], True)
    else:
        assert again["diffs"] == []


def test_the_server_writes_messages_to_stdout_and_nothing_else(told: Told) -> None:
    if told.case.transport == "http":
        assert told.run.written == []
        return
    *lines, rest = told.run.written
    assert rest == ""
    messages = [json.loads(line) for line in lines]
    assert len(messages) >= len(scenario.steps("")), "every answer went this way"
    for message in messages:
        assert message["jsonrpc"] == "2.0"
        assert ("result" in message) != ("error" in message)


def test_the_client_has_nothing_to_complain_of(told: Told) -> None:
    assert told.run.complaints == ""


def test_the_inspector_exits_as_each_step_deserves(told: Told) -> None:
    if told.case.client.command_line:
        assert {step: line["exit"] for step, line in told.run.lines.items()} == INSPECTOR_EXITS
