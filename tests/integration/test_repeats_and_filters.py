"""Storing again under one key, and searching under filters, on a real peer."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.support.http_agent import Answer, HttpAgent
from tests.support.running_mesh import RunningPeer, running_peer

DOORS = {"mcp": HttpAgent.by_mcp, "rest": HttpAgent.by_rest, "wire": HttpAgent.by_wire}
Door = Callable[[HttpAgent, str, dict[str, Any]], Answer]
doors = pytest.mark.parametrize("door", DOORS.values(), ids=DOORS.keys())
FACT = {"content": "the cache is warmed at six", "cell_type": "Fact"}


@pytest.fixture(scope="module")
def peer() -> Iterator[RunningPeer]:
    with running_peer() as peer:
        yield peer


@pytest.fixture
def agent(peer: RunningPeer) -> HttpAgent:
    return peer.new_agent()


def events(peer: RunningPeer) -> int:
    count: int = peer.operator()("status")["events"]
    return count


class TestAnIdempotencyKey:
    @doors
    def test_names_one_memory_however_often_and_wherever_it_is_sent(
        self, peer: RunningPeer, agent: HttpAgent, door: Door
    ) -> None:
        call = {**FACT, "tags": ["a", "b"], "salience": 0.7, "idempotency_key": "k-1"}
        first = agent("store", **call)["node_id"]
        before = events(peer)
        assert [door(agent, "store", call).ok()["node_id"] for _ in range(3)] == [first] * 3
        assert events(peer) == before

    @doors
    @pytest.mark.parametrize(
        "change",
        [
            {"content": "another"},
            {"cell_type": "Risk"},
            {"salience": 0.8},
            {"project": "web"},
            {"tags": ["b"]},
        ],
        ids=lambda change: next(iter(change)),
    )
    def test_with_another_payload_is_a_conflict_that_changes_nothing(
        self, peer: RunningPeer, agent: HttpAgent, door: Door, change: dict[str, Any]
    ) -> None:
        call = {**FACT, "idempotency_key": "k-2"}
        node = agent("store", **call)["node_id"]
        before = events(peer)
        text = door(agent, "store", {**call, **change}).refused("conflict")
        assert "already names another memory" in text
        assert "Nothing was stored." in text
        assert events(peer) == before
        assert agent("get_node", node_id=node)["content"] == FACT["content"]

    def test_of_one_agent_is_not_that_of_another(self, peer: RunningPeer, agent: HttpAgent) -> None:
        call = {**FACT, "idempotency_key": "k-3"}
        assert agent("store", **call) != peer.new_agent()("store", **call)

    def test_survives_a_race_of_equal_calls(self, peer: RunningPeer, agent: HttpAgent) -> None:
        before = events(peer)
        answers = self._race(peer, agent, [{**FACT, "idempotency_key": "k-4"}] * 12)
        assert len({a.ok()["node_id"] for a in answers}) == 1
        assert events(peer) == before + 1

    def test_survives_a_race_of_different_calls(self, peer: RunningPeer, agent: HttpAgent) -> None:
        for turn in range(4):
            calls = [{**FACT, "content": f"fact {n}", "idempotency_key": f"r{turn}"} for n in range(8)]
            answers = self._race(peer, agent, calls)
            assert [a.code for a in answers if a.result is None] == ["conflict"] * 7
            (won,) = [n for n, a in enumerate(answers) if a.result is not None]
            node = answers[won].ok()["node_id"]
            assert agent("get_node", node_id=node)["content"] == f"fact {won}"

    def test_in_a_bulk_counts_for_each_cell_alone(self, agent: HttpAgent) -> None:
        cells = [
            {**FACT, "idempotency_key": "b1"},
            {**FACT, "idempotency_key": "b1"},
            {**FACT, "content": "another", "idempotency_key": "b1"},
            {"content": "", "cell_type": "Fact"},
            {**FACT, "colour": "red"},
            FACT,
        ]
        for _ in range(2):
            results = agent.by_rest("store_bulk", {"cells": cells}).ok()["results"]
            assert results[0] == results[1]
            codes = [r.get("error", {}).get("code") for r in results]
            assert codes == [None, None, "conflict", "invalid", "invalid", None]

    def _race(self, peer: RunningPeer, agent: HttpAgent, calls: list[dict[str, Any]]) -> list[Answer]:
        def one(call: dict[str, Any]) -> Answer:
            caller = HttpAgent(peer.url, agent.key)
            try:
                return caller.by_wire("store", call)
            finally:
                caller.close()

        with ThreadPoolExecutor(len(calls)) as pool:
            return list(pool.map(one, calls))


class TestStoring:
    def test_two_facts_that_are_nearly_the_same_text_are_two_memories(self, agent: HttpAgent) -> None:
        texts = ["build 41 failed", "build 42 failed", "build 42 failed"]
        ids = [agent("store", content=t, cell_type="Fact")["node_id"] for t in texts]
        found = agent("recall", query="which build failed", from_agents=["me"])["results"]
        assert {r["node_id"] for r in found} == {*ids}
        assert len({*ids}) == 3

    def test_writers_and_readers_side_by_side_never_refuse_each_other(self, peer: RunningPeer) -> None:
        keys = [peer.issue(f"side-{n}")["key"] for n in range(6)]

        def work(n: int) -> list[str]:
            agent = HttpAgent(peer.url, keys[n])
            try:
                calls: list[tuple[str, dict[str, Any]]]
                if n < 2:
                    calls = [("store", {**FACT, "content": f"{n} {i}"}) for i in range(60)]
                else:
                    calls = [("recall", {"query": "cache", "k": 20, "include_content": True})] * 60
                    calls[::3] = [("diffs_since", {"since": "1h"})] * 20
                return [agent.by_wire(method, arguments).code for method, arguments in calls]
            finally:
                agent.close()

        with ThreadPoolExecutor(6) as pool:
            assert {code for codes in pool.map(work, range(6)) for code in codes} == {""}


TYPES = ("Decision", "Constraint", "Risk", "Fact")
PROJECTS = ("billing", "web", "ops")
TAGS = ("retry", "cache", "deploy", "auth")
WORDS = ["payment", "bank", "cache", "deploy", "token", "latency", "index", "backup", "queue", "login"]


@pytest.fixture(scope="module")
def cells(peer: RunningPeer) -> dict[str, dict[str, Any]]:
    """Ninety memories of three agents of one tenant, by node id, with what filters see of them."""
    operator, rng = peer.operator(), random.Random(7)
    made: dict[str, dict[str, Any]] = {}
    for name in ("ann", "ben", "cem"):
        key = operator("issue_key", agent=name, owner="team", tenant="filters")["key"]
        own = [
            {
                "content": f"{' '.join(rng.sample(WORDS, 4))} number {name} {n}",
                "cell_type": rng.choice(TYPES),
                "project": rng.choice(PROJECTS),
                "tags": rng.sample(TAGS, rng.randrange(1, 4)),
                "salience": rng.randrange(11) / 10,
            }
            for n in range(30)
        ]
        answer = peer.agent(key).by_rest("store_bulk", {"cells": own}).ok()
        made |= {r["node_id"]: {**c, "agent": name} for r, c in zip(answer["results"], own, strict=True)}
    assert len(made) == 90
    return made


@pytest.fixture(scope="module")
def ann(peer: RunningPeer, cells: dict[str, dict[str, Any]]) -> HttpAgent:
    assert cells
    return peer.agent(peer.operator()("issue_key", agent="ann", owner="team", tenant="filters")["key"])


def passes(cell: dict[str, Any], filters: dict[str, Any]) -> bool:
    """Decide as the documentation says."""
    authors = [("ann" if a == "me" else a) for a in filters.get("from_agents", ())]
    return (
        cell["project"] == filters.get("project", cell["project"])
        and cell["cell_type"] in filters.get("cell_types", TYPES)
        and set(filters.get("tags", ())) <= set(cell["tags"])
        and (not authors or cell["agent"] in authors)
        and cell["salience"] >= filters.get("min_salience", 0)
    )


def some_filters(count: int) -> list[dict[str, Any]]:
    rng = random.Random(11)
    choices: dict[str, Callable[[], Any]] = {
        "project": lambda: rng.choice(PROJECTS),
        "cell_types": lambda: rng.sample(TYPES, rng.randrange(1, 3)),
        "tags": lambda: rng.sample(TAGS, rng.randrange(1, 3)),
        "from_agents": lambda: rng.sample(("me", "ben", "cem"), rng.randrange(1, 3)),
        "min_salience": lambda: rng.randrange(11) / 10,
    }
    return [{n: choices[n]() for n in rng.sample(sorted(choices), rng.randrange(1, 5))} for _ in range(count)]


class TestFilters:
    @pytest.mark.parametrize("mode", ["vector", "hybrid"])
    def test_k_results_come_whenever_k_memories_pass(
        self, ann: HttpAgent, cells: dict[str, dict[str, Any]], mode: str
    ) -> None:
        for filters, k in zip(some_filters(60), itertools.cycle([1, 3, 10, 100]), strict=False):
            passing = {node for node, cell in cells.items() if passes(cell, filters)}
            search = {"query": "payment cache deploy", "mode": mode, "k": k, **filters}
            found = [r["node_id"] for r in ann("recall", **search)["results"]]
            assert len(found) == len(set(found)) == min(k, len(passing)), filters
            assert set(found) <= passing, filters

    def test_filtering_takes_memories_away_and_moves_none(
        self, ann: HttpAgent, cells: dict[str, dict[str, Any]]
    ) -> None:
        search = {"query": "the bank drops a payment", "mode": "vector", "k": 100}
        everything = [(r["node_id"], r["distance"]) for r in ann("recall", **search)["results"]]
        assert len(everything) == 90
        assert [d for _, d in everything] == sorted(d for _, d in everything)
        assert all(0 <= d <= 1 for _, d in everything)
        for filters in some_filters(30):
            found = [(r["node_id"], r["distance"]) for r in ann("recall", **search, **filters)["results"]]
            assert found == [(n, d) for n, d in everything if passes(cells[n], filters)]

    def test_a_filter_that_nothing_passes_says_so(self, ann: HttpAgent) -> None:
        answer = ann("recall", query="payment", project="nobody works here")
        assert answer["results"] == []
        assert "Nothing passes these filters" in answer["note"]

    @pytest.mark.parametrize("layer", [1, 2])
    def test_a_layer_that_is_empty_says_where_to_look(self, ann: HttpAgent, layer: int) -> None:
        answer = ann("query", query="payment", layer=layer)
        assert answer["results"] == []
        assert "recall searches layer 0" in answer["note"]
        assert len(ann("query", query="payment", layer=0)["results"]) == 10

    def test_enum_values_count_in_any_case_and_arrays_as_text(self, ann: HttpAgent) -> None:
        exact = ann("recall", query="payment", k=100, cell_types=["Decision", "Risk"])
        assert exact == ann("recall", query="payment", k="100", cell_types='["DECISION", "risk"]')
        assert exact["results"]


class TestSince:
    @pytest.fixture
    def lone(self, peer: RunningPeer) -> tuple[HttpAgent, str]:
        agent = peer.new_agent()
        return agent, agent("store", **FACT)["node_id"]

    def test_every_form_that_is_documented_is_read(self, lone: tuple[HttpAgent, str]) -> None:
        agent, node = lone
        now = datetime.now(UTC)
        past, future = now - timedelta(hours=1), now + timedelta(hours=1)
        forms: list[tuple[str, bool]] = [(f"{n}{unit}", True) for n in (1, 90) for unit in "mhdw"]
        forms += [("0s", False), (now.strftime("%Y-01-01"), True)]
        for moment, found in ((past, True), (future, False)):
            east = moment + timedelta(hours=9)
            forms += [
                (moment.strftime("%Y-%m-%dT%H:%M:%SZ"), found),
                (moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ"), found),
                (moment.strftime("%Y-%m-%dt%H:%M:%Sz"), found),
                (moment.strftime("%Y-%m-%d %H:%M:%S+00:00"), found),
                (east.strftime("%Y-%m-%dT%H:%M:%S+09:00"), found),
            ]
        for form, found in forms:
            results = agent("recall", query="cache", from_agents=["me"], since=form)["results"]
            assert [r["node_id"] for r in results] == ([node] if found else []), form
            agent("diffs_since", since=form)

    @pytest.mark.parametrize(
        "since",
        [1758344479, 1758344479000, "1758344479", 1.5, "yesterday", "24", "3M", "2026-13-01", "2026-02-30",
         "2026-01-01T25:00:00Z", "2026-01-01T00:00:00", "-1h", "1h ago", "٢٤h", "", " ", "T", "0x10h"],
    )  # fmt: skip
    def test_anything_else_is_refused_with_the_forms_that_are_read(
        self, agent: HttpAgent, since: Any
    ) -> None:
        for method, more in (("recall", {"query": "x"}), ("diffs_since", {})):
            text = agent.refused(method, "invalid", since=since, **more)
            assert "since" in text
            assert "24h" in text
        assert "skip_before" in agent.refused("drain_inbox", "invalid", skip_before=since)


class TestSupersession:
    def test_what_was_replaced_is_found_only_when_asked_for(self, agent: HttpAgent) -> None:
        old = agent("store", content="retry payments twice", cell_type="Decision")["node_id"]
        new = agent("store", content="retry payments three times", cell_type="Decision", supersedes=old)
        search = {"query": "retry payments", "from_agents": ["me"], "include_content": True}
        assert [r["node_id"] for r in agent("recall", **search)["results"]] == [new["node_id"]]
        both = {r["node_id"]: r for r in agent("recall", **search, include_superseded=True)["results"]}
        assert set(both) == {old, new["node_id"]}
        assert both[old]["superseded_by"] == new["node_id"]
        assert "superseded_by" not in both[new["node_id"]]
        assert agent("recall", query=old)["results"] == [{"node_id": old, "distance": 0.0}]
        assert agent("get_node", node_id=old)["superseded_by"] == new["node_id"]

    def test_of_what_is_not_there_nothing_is_stored(self, peer: RunningPeer, agent: HttpAgent) -> None:
        before = events(peer)
        nobody = "00000000-0000-4000-8000-000000000000"
        assert "Nothing was stored." in agent.refused("store", "not_found", **FACT, supersedes=nobody)
        assert "Nothing was stored." in agent.refused("store", "not_found", **FACT, derived_from=[nobody])
        assert "Nothing was stored." in agent.refused("store", "not_found", **FACT, session_id=nobody)
        assert events(peer) == before


class TestAQueryThatIsAnId:
    def test_gives_that_memory_by_its_whole_id_or_its_beginning(self, agent: HttpAgent) -> None:
        node = agent("store", **FACT)["node_id"]
        for text in (node, node.upper(), node.replace("-", ""), node[:8], node[:13], f" {node[:12]} "):
            assert agent("recall", query=text)["results"] == [{"node_id": node, "distance": 0.0}], text
            assert agent("get_node", node_id=text)["node_id"] == node

    def test_but_too_short_a_beginning_or_an_unknown_one_is_searched_for(self, agent: HttpAgent) -> None:
        node = agent("store", **FACT)["node_id"]
        for text in (node[:7], "deadbeefdeadbeef", "00000000", "12345678"):
            results = agent("recall", query=text, from_agents=["me"])["results"]
            assert [r["node_id"] for r in results] == [node], text
            assert results[0]["distance"] > 0

    def test_no_id_at_all_is_refused_by_its_field(self, agent: HttpAgent) -> None:
        for text in ("x", node_like(7), "g" * 36, node_like(33), "%00", "☃"):
            assert "node_id" in agent.refused("get_node", "invalid", node_id=text)
            agent("recall", query=text)
        agent.refused("get_node", "not_found", node_id=node_like(8))


def node_like(digits: int) -> str:
    return "0" * digits
