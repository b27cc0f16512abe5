"""The limits of design section 13 on a real peer: each is kept at the limit, and refused by name one beyond."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from mcp_gateway.tools import TOOLS
from proto import limits
from tests.support.http_agent import Answer, HttpAgent
from tests.support.running_mesh import RunningPeer, running_peer

FACT = {"content": "a fact", "cell_type": "Fact"}
GIVEN: dict[str, Any] = {
    **FACT,
    "query": "a fact",
    "layer": 0,
    "interest": "facts",
    "since": "24h",
}
DOORS = (HttpAgent.by_mcp, HttpAgent.by_rest, HttpAgent.by_wire)


@pytest.fixture(scope="module")
def peer() -> Iterator[RunningPeer]:
    with running_peer() as peer:
        yield peer


@pytest.fixture(scope="module")
def agent(peer: RunningPeer) -> HttpAgent:
    return peer.new_agent()


def _required(method: str) -> dict[str, Any]:
    return {a.name: GIVEN[a.name] for a in TOOLS[method].required}


LIMITS: list[tuple[str, str, Any, Any]] = [
    ("store", "tags", ["t" * 64] + [f"tag-{n}" for n in range(31)], [f"tag-{n}" for n in range(33)]),
    ("store", "tags", ["語" * 64], ["t" * 65]),
    ("store", "project", "語" * 128, "p" * 129),
    ("store", "salience", 1, 1.01),
    ("store", "salience", 0, -0.01),
    ("open_session", "title", "語" * 128, "t" * 129),
    ("open_session", "project", "p" * 128, "p" * 129),
    ("recall", "k", 100, 101),
    ("recall", "k", 1, 0),
    ("recall", "query", "q" * 8192, "q" * 8193),
    ("recall", "query", "語" * 2730, "語" * 2731),
    ("recall", "max_bytes", 45_000, 45_001),
    ("recall", "max_bytes", 1_000, 999),
    ("recall", "tags", [f"tag-{n}" for n in range(32)], [f"tag-{n}" for n in range(33)]),
    ("recall", "from_agents", ["a" * 128], ["a" * 129]),
    ("query", "layer", 2, 3),
    ("query", "layer", 0, -1),
    ("place_beacon", "interest", "i" * 8192, "i" * 8193),
    ("place_beacon", "layers", [0, 1, 2], [0, 1, 2, 0]),
    ("place_beacon", "threshold", 1, 1.01),
    ("place_beacon", "ttl_seconds", limits.BEACON_TTL_MAX_S, limits.BEACON_TTL_MAX_S + 1),
    ("place_beacon", "ttl_seconds", 0, -1),
    ("diffs_since", "limit", 500, 501),
    ("drain_inbox", "limit", 500, 501),
    ("drain_inbox", "limit", 1, 0),
    ("list_scenes", "limit", 500, 501),
]


def _side_by_side(
    peer: RunningPeer, agent: HttpAgent, method: str, calls: list[dict[str, Any]], threads: int = 6
) -> list[Answer]:
    """Return the answers to calls of one agent, some of which run at once."""

    def some(start: int) -> list[Answer]:
        one = HttpAgent(peer.url, agent.key)
        try:
            return [one.by_mcp(method, arguments) for arguments in calls[start::threads]]
        finally:
            one.close()

    with ThreadPoolExecutor(threads) as pool:
        parts = list(pool.map(some, range(threads)))
    return [parts[n % threads][n // threads] for n in range(len(calls))]


class TestLimits:
    @pytest.mark.parametrize(
        ("method", "name", "most", "beyond"),
        [pytest.param(*row, id=f"{row[0]}-{row[1]}-{n}") for n, row in enumerate(LIMITS)],
    )
    def test_the_limit_is_accepted_and_one_beyond_is_refused(
        self, peer: RunningPeer, agent: HttpAgent, method: str, name: str, most: Any, beyond: Any
    ) -> None:
        agent.ask(method, {**_required(method), name: most}).ok()
        events = peer.operator()("status")["events"]
        for door in (HttpAgent.by_mcp, HttpAgent.by_wire):
            assert name in door(agent, method, {**_required(method), name: beyond}).refused("invalid")
        assert peer.operator()("status")["events"] == events

    @pytest.mark.parametrize("k", [0, -1, 1_000_000_000, 1e9, "1000000000", "-1"])
    def test_a_k_that_makes_no_sense_is_refused_with_what_is_allowed(self, agent: HttpAgent, k: Any) -> None:
        for door in DOORS:
            text = door(agent, "recall", {"query": "anything", "k": k}).refused("invalid")
            assert "allowed 1 to 100" in text

    def test_an_idempotency_key_has_128_characters_at_most(self, agent: HttpAgent) -> None:
        agent("store", **FACT, idempotency_key="語" * 128)
        assert "limit is 128" in agent.refused("store", "invalid", **FACT, idempotency_key="k" * 129)

    def test_a_memory_rests_on_64_others_at_most(self, agent: HttpAgent) -> None:
        node = agent("store", **FACT)["node_id"]
        derived = agent("store", **FACT, derived_from=[node] * 64)["node_id"]
        assert set(agent("get_node", node_id=derived)["derived_from"]) == {node}
        assert "limit is 64" in agent.refused("store", "invalid", **FACT, derived_from=[node] * 65)

    def test_a_bulk_has_256_cells_at_most(self, agent: HttpAgent) -> None:
        cells = [{"content": f"bulk {n}", "cell_type": "Fact"} for n in range(257)]
        answer = agent.by_rest("store_bulk", {"cells": cells[:256]}).ok()
        assert len({r["node_id"] for r in answer["results"]}) == 256
        assert "limit is 256" in agent.by_rest("store_bulk", {"cells": cells}).refused("invalid")

    def test_a_bulk_body_has_4_mib_at_most(self, peer: RunningPeer, agent: HttpAgent) -> None:
        cells = json.dumps({"cells": [FACT] * 2})
        status, data = agent.send("POST", "/v1/nodes:bulk", cells.ljust(limits.BULK_BODY_BYTES))
        assert (status, len(json.loads(data)["results"])) == (200, 2)
        one = peer.agent(agent.key)
        status, data = one.send("POST", "/v1/nodes:bulk", cells.ljust(limits.BULK_BODY_BYTES + 1))
        assert (status, json.loads(data)["error"]["code"]) == (413, "invalid")

    @pytest.mark.parametrize("path", ["/mcp", "/v1/recall"])
    def test_any_other_body_has_1_mib_at_most(self, peer: RunningPeer, agent: HttpAgent, path: str) -> None:
        recall = {"query": "anything", "k": 1}
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
        message = {**call, "params": {"name": "recall", "arguments": recall}} if path == "/mcp" else recall
        body = json.dumps(message)
        assert agent.send("POST", path, body.ljust(limits.HTTP_BODY_BYTES))[0] == 200
        assert peer.agent(agent.key).send("POST", path, body.ljust(limits.HTTP_BODY_BYTES + 1))[0] == 413

    def test_an_agent_has_100_open_sessions_at_most_also_when_it_opens_them_side_by_side(
        self, peer: RunningPeer
    ) -> None:
        agent = peer.new_agent()
        answers = _side_by_side(peer, agent, "open_session", [{"title": f"t{n}"} for n in range(110)])
        opened = [a.result["session_id"] for a in answers if a.result is not None]
        refused = {a.refused("overloaded") for a in answers if a.result is None}
        assert len(opened) == 100
        assert all("100 sessions of yours are open, limit 100. Nothing was opened." in t for t in refused)
        agent("close_session", session_id=opened[0])
        agent("open_session")
        agent.refused("open_session", "overloaded")
        peer.new_agent()("open_session")

    def test_an_agent_has_1000_beacons_at_most_also_when_it_places_them_side_by_side(
        self, peer: RunningPeer
    ) -> None:
        agent = peer.new_agent()
        wanted = [{"interest": "*", "project": f"p{n}"} for n in range(1_010)]
        answers = _side_by_side(peer, agent, "place_beacon", wanted)
        placed = [w["project"] for w, a in zip(wanted, answers, strict=True) if a.result is not None]
        refused = {a.refused("overloaded") for a in answers if a.result is None}
        assert len(placed) == 1_000
        assert all("1000 beacons of yours are placed, limit 1000. Nothing was placed." in t for t in refused)
        assert not agent("place_beacon", interest="*", project=placed[0])["created"]
        agent("place_beacon", interest="*", project=placed[0], ttl_seconds=0)
        assert agent("place_beacon", interest="*", project="one more")["created"]
        peer.new_agent()("place_beacon", interest="*")

    def test_a_key_that_calls_without_pause_is_told_when_to_come_back(self, peer: RunningPeer) -> None:
        agent, other = peer.new_agent(), peer.new_agent()
        call = {"jsonrpc": "2.0", "method": "tools/call", "params": {"name": "list_scenes"}}
        refused: list[dict[str, Any]] = []
        headers = {"mcp-protocol-version": "2025-03-26"}
        busy = peer.agent(agent.key, headers)
        for _ in range(100):
            batch = json.dumps([{**call, "id": n} for n in range(100)])
            answers = json.loads(busy.send("POST", "/mcp", batch)[1])
            refused += [a["error"] for a in answers if "error" in a]
            if refused:
                break
        assert {e["data"]["code"] for e in refused} == {"overloaded"}
        assert all(0 < e["data"]["retry_after_ms"] <= 1_000 for e in refused)
        assert other("list_scenes")["scenes"] == []
