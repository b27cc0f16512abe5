"""Who somebody is and what their key allows, on a real peer: keys at every door, claims, scopes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from mcp_gateway.operations import OPERATIONS
from mcp_gateway.tools import TOOLS
from node.principals import SCOPES
from tests.support.http_agent import Answer, HttpAgent
from tests.support.running_mesh import RunningPeer, running_peer

FACT = {"content": "the vault code is in the blue folder", "cell_type": "Fact"}
NOBODY = "00000000-0000-4000-8000-000000000000"
DOORS = {"mcp": HttpAgent.by_mcp, "rest": HttpAgent.by_rest, "wire": HttpAgent.by_wire}
Door = Callable[[HttpAgent, str, dict[str, Any]], Answer]
doors = pytest.mark.parametrize("door", DOORS.values(), ids=DOORS.keys())


@pytest.fixture(scope="module")
def peer() -> Iterator[RunningPeer]:
    with running_peer() as peer:
        yield peer


def events(peer: RunningPeer) -> int:
    count: int = peer.operator()("status")["events"]
    return count


class TestKeys:
    @doors
    @pytest.mark.parametrize("key", [None, "", "hyp_", "hyp_aaaaaaaa_short", "nonsense", "x" * 4000])
    def test_a_key_that_is_missing_or_none_is_refused(
        self, peer: RunningPeer, door: Door, key: str | None
    ) -> None:
        before = events(peer)
        answer = door(peer.caller(key), "store", FACT)
        answer.refused("unauthenticated")
        assert answer.status == 401
        assert len(key or "") < 8 or str(key) not in answer.text
        assert events(peer) == before

    @doors
    def test_a_key_with_a_wrong_secret_or_an_unknown_id_is_refused(
        self, peer: RunningPeer, door: Door
    ) -> None:
        prefix, id_, secret = peer.secret("agent").split("_")
        other = peer.secret("operator").split("_")[2]
        unknown_id = "a" * len(id_)
        refusals = {
            door(peer.caller("_".join(parts)), "list_beacons", {}).refused("unauthenticated")
            for parts in ((prefix, id_, other), (prefix, unknown_id, secret), (prefix, unknown_id, other))
        }
        assert len(refusals) == 1, "which part is wrong is nobody's business"

    @doors
    def test_a_revoked_key_is_refused_at_its_next_call(self, peer: RunningPeer, door: Door) -> None:
        issued = peer.issue("revoked")
        agent = peer.agent(issued["key"])
        door(agent, "recall", {"query": "x"}).ok()
        peer.operator()("revoke_key", id=issued["id"])
        before = events(peer)
        door(agent, "recall", {"query": "x"}).refused("unauthenticated")
        door(agent, "store", FACT).refused("unauthenticated")
        assert events(peer) == before

    def test_a_rotated_key_hands_everything_to_the_new_one(self, peer: RunningPeer) -> None:
        issued = peer.issue("rotated", projects={"web": "rw"}, scopes=["read", "write"])
        old = peer.agent(issued["key"])
        node = old("store", **FACT)["node_id"]
        made = peer.operator()("rotate_key", id=issued["id"])
        assert {n: made[n] for n in ("agent", "owner", "scopes", "projects")} == {
            n: issued[n] for n in ("agent", "owner", "scopes", "projects")
        }
        old.refused("recall", "unauthenticated", query="x")
        assert peer.agent(made["key"])("recall", query=node)["results"][0]["node_id"] == node

    @pytest.mark.parametrize(
        "path", ["/mcp", "/v1/recall", "/v1/request", "/v1/status", "/metrics", "/readyz"]
    )
    def test_every_path_but_healthz_asks_for_a_key(self, peer: RunningPeer, path: str) -> None:
        verb = "POST" if path in {"/mcp", "/v1/recall", "/v1/request"} else "GET"
        nobody = peer.caller(None)
        assert nobody.send(verb, path, "{}" if verb == "POST" else None)[0] == 401
        assert nobody.send("GET", "/healthz", None)[0] == 200

    def test_metrics_count_all_tenants_and_so_are_for_operators(self, peer: RunningPeer) -> None:
        assert peer.agent().send("GET", "/metrics", None)[0] == 403
        assert peer.new_agent(scopes=["admin"]).send("GET", "/metrics", None)[0] == 403
        assert b"hyphae_" in peer.operator().send("GET", "/metrics", None)[1]

    def test_two_different_keys_in_one_request_are_refused_and_one_twice_is_not(
        self, peer: RunningPeer
    ) -> None:
        one, two = peer.secret("agent"), peer.secret("operator")
        for door in DOORS.values():
            both = peer.agent(one, {"Authorization": f"Bearer {two}"})
            assert "two different keys" in door(both, "list_beacons", {}).refused("unauthenticated")
            same = peer.agent(one, {"Authorization": f"Bearer {one}"})
            door(same, "list_beacons", {}).ok()
        door(peer.caller(None, {"Authorization": f"bearer {one}"}), "list_beacons", {}).ok()


class TestWhoSomebodyIs:
    @pytest.mark.parametrize(
        "name", ["source_agent", "agent", "agent_id", "tenant", "tenant_id", "owner", "user_id"]
    )
    def test_cannot_be_said_in_an_argument_of_any_tool(self, peer: RunningPeer, name: str) -> None:
        agent = peer.agent()
        before = events(peer)
        for method in TOOLS:
            for door in (HttpAgent.by_mcp, HttpAgent.by_wire):
                assert name in door(agent, method, {**GIVEN.get(method, {}), name: "operator"}).refused(
                    "invalid"
                )
        cell = agent.by_rest("store_bulk", {"cells": [{**FACT, name: "operator"}]}).ok()["results"][0]
        assert cell["error"]["code"] == "invalid"
        assert events(peer) == before

    def test_cannot_be_said_in_a_header(self, peer: RunningPeer) -> None:
        claims = dict.fromkeys(
            ("x-hyphae-agent", "x-agent", "x-tenant", "x-tenant-id", "x-user", "x-forwarded-user", "from"),
            "operator",
        )
        claims |= {"x-hyphae-tenant": "other", "cookie": "agent=operator"}
        for n, (name, door) in enumerate(DOORS.items()):
            agent = peer.agent(peer.issue(f"plain-{name}", owner="dana")["key"], claims)
            node = door(agent, "store", {**FACT, "content": f"said by {n}"}).ok()["node_id"]
            kept = peer.operator()("get_node", node_id=node)
            assert (kept["source_agent"], kept["owner"]) == (f"plain-{name}", "dana")
            assert agent("whoami")["tenant"] == "default"

    def test_cannot_be_said_in_the_content(self, peer: RunningPeer) -> None:
        agent = peer.new_agent("honest")
        text = 'source_agent: operator\n{"agent": "operator", "owner": "operator"}'
        node = agent("store", content=text, cell_type="Fact")["node_id"]
        assert agent("get_node", node_id=node)["source_agent"] == "honest"


GIVEN: dict[str, dict[str, Any]] = {
    "store": FACT,
    "recall": {"query": "x"},
    "query": {"query": "x", "layer": 0},
    "close_session": {"session_id": NOBODY},
    "place_beacon": {"interest": "x"},
    "diffs_since": {"since": "1h"},
    "get_scene": {"scene_id": NOBODY},
    "get_node": {"node_id": NOBODY},
    "explain_recall": {"query": "x", "node_id": NOBODY},
    "explain_entry": {"diff_id": NOBODY},
    "store_bulk": {"cells": [FACT]},
    "withdraw_beacon": {"beacon_id": NOBODY},
    "issue_key": {"agent": "x"},
    "retire_peer": {"peer": "x"},
    "revoke_key": {"id": "aaaaaaaaaaaaaaaa"},
    "rotate_key": {"id": "aaaaaaaaaaaaaaaa"},
}
NEEDS = {
    **dict.fromkeys(TOOLS, "read"),
    **dict.fromkeys(("store", "store_bulk", "consolidate_scenes"), "write"),
    **dict.fromkeys(("get_node", "status", "tail", "withdraw_beacon"), "read"),
    **dict.fromkeys(("list_sessions", "page_beacons", "explain_recall", "explain_entry", "export"), "read"),
    **dict.fromkeys(("issue_key", "list_keys", "revoke_key", "rotate_key", "peers"), "admin"),
    **dict.fromkeys(("invite_peer", "retire_peer", "verify_log", "shutdown"), "operator"),
    "whoami": "",
}


class TestScopes:
    def test_every_operation_has_its_scope(self) -> None:
        assert set(NEEDS) == {*TOOLS, *OPERATIONS}

    @pytest.mark.parametrize("scope", SCOPES)
    def test_a_key_with_one_scope_does_what_that_scope_allows_and_nothing_else(
        self, peer: RunningPeer, scope: str
    ) -> None:
        agent = peer.new_agent(scopes=[scope])
        for method, needed in NEEDS.items():
            if method == "shutdown" and scope == "operator":
                continue
            before = events(peer)
            answer = agent.ask(method, GIVEN.get(method, {}))
            if needed in {scope, ""}:
                assert answer.code not in {"forbidden", "unauthenticated"}, (method, answer)
            else:
                text = answer.refused("forbidden")
                assert f"no scope {needed}" in text, method
                assert events(peer) == before

    def test_an_admin_makes_neither_operators_nor_keys_of_another_tenant(self, peer: RunningPeer) -> None:
        admin = peer.new_agent(scopes=["admin"])
        admin.refused("issue_key", "forbidden", agent="x", scopes=["operator"])
        admin.refused("issue_key", "forbidden", agent="x", tenant="other")
        operator_id = peer.secret("operator").split("_")[1]
        for method in ("revoke_key", "rotate_key"):
            admin.refused(method, "forbidden", id=operator_id)
        peer.operator()("list_keys")

    def test_an_admin_of_one_tenant_does_not_see_the_keys_of_another(self, peer: RunningPeer) -> None:
        theirs = peer.issue("admin-b", tenant="b", scopes=["admin"])
        admin_b = peer.agent(theirs["key"])
        ours = peer.issue("somebody")
        assert {k["agent"] for k in admin_b("list_keys")["keys"]} == {"admin-b"}
        unknown = admin_b.refused("revoke_key", "not_found", id="a" * 16)
        assert admin_b.refused("revoke_key", "not_found", id=ours["id"]) == unknown.replace(
            "a" * 16, ours["id"]
        )
        peer.agent(ours["key"])("list_beacons")
