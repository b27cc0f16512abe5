"""Who may see what, on a real peer: keys, scopes, projects, `private`, tenants, on every path there is.

"Not yours" and "not there" must answer alike, and no count or example may tell them apart.
"""

from __future__ import annotations

import json
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
    "store_bulk": {"cells": [FACT]},
    "withdraw_beacon": {"beacon_id": NOBODY},
    "issue_key": {"agent": "x"},
    "revoke_key": {"id": "aaaaaaaaaaaaaaaa"},
    "rotate_key": {"id": "aaaaaaaaaaaaaaaa"},
}
NEEDS = {
    **dict.fromkeys(TOOLS, "read"),
    **dict.fromkeys(("store", "store_bulk"), "write"),
    **dict.fromkeys(("get_node", "status", "tail", "withdraw_beacon"), "read"),
    **dict.fromkeys(("issue_key", "list_keys", "revoke_key", "rotate_key", "peers"), "admin"),
    **dict.fromkeys(("invite_peer", "verify_log", "shutdown"), "operator"),
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


class TestProjects:
    @pytest.fixture
    def keys(self, peer: RunningPeer) -> dict[str, HttpAgent]:
        return {
            "all": peer.new_agent(),
            "writer": peer.new_agent(projects={"billing": "rw"}),
            "reader": peer.new_agent(projects={"billing": "r", "web": "rw"}),
            "outsider": peer.new_agent(projects={"web": "rw"}),
        }

    def test_read_write_read_and_none(self, peer: RunningPeer, keys: dict[str, HttpAgent]) -> None:
        node = keys["writer"]("store", **FACT)["node_id"]
        assert keys["all"]("get_node", node_id=node)["project"] == "billing", "the key's only one"
        assert keys["reader"]("get_node", node_id=node)["content"] == FACT["content"]
        before = events(peer)
        text = keys["reader"].refused("store", "forbidden", **FACT, project="billing")
        assert "may only read project billing" in text
        text = keys["outsider"].refused("store", "not_found", **FACT, project="billing")
        assert text == keys["outsider"].refused("store", "not_found", **FACT, project="nowhere").replace(
            "nowhere", "billing"
        )
        assert "Nothing was stored." in text
        for method, more in (
            ("recall", {"query": "x"}),
            ("query", {"query": "x", "layer": 0}),
            ("drain_inbox", {}),
            ("diffs_since", {"since": "1h"}),
            ("place_beacon", {"interest": "x"}),
            ("open_session", {}),
            ("list_scenes", {}),
        ):
            refused = keys["outsider"].refused(method, "not_found", project="billing", **more)
            unknown = keys["outsider"].refused(method, "not_found", project="nowhere", **more)
            assert refused == unknown.replace("nowhere", "billing")
        assert events(peer) == before

    def test_what_lies_in_a_project_that_a_key_cannot_read_is_not_there_for_it(
        self, keys: dict[str, HttpAgent]
    ) -> None:
        _nothing_is_seen(keys["writer"], keys["outsider"], "billing")

    def test_the_project_header_and_the_session_give_the_project(self, peer: RunningPeer) -> None:
        key = peer.issue("headed")["key"]
        headed = peer.agent(key, {"x-hyphae-project": "web"})
        session = headed("open_session", project="ops")
        for arguments, project in (
            ({}, "web"),
            ({"session_id": session["session_id"]}, "ops"),
            ({"session_id": session["session_id"], "project": "billing"}, "billing"),
            ({"cell_type": "Preference"}, "private"),
            ({"cell_type": "Preference", "project": "web"}, "web"),
        ):
            node = headed("store", **{**FACT, **arguments})["node_id"]
            assert headed("get_node", node_id=node)["project"] == project
        plain = peer.agent(key)
        assert plain("get_node", node_id=plain("store", **FACT)["node_id"])["project"] == "default"

    @pytest.mark.parametrize("name", ["Private", "PRIVATE", " private", "private "])
    def test_private_in_another_spelling_is_refused_rather_than_shared_with_everybody(
        self, peer: RunningPeer, name: str
    ) -> None:
        before = events(peer)
        assert "lower case" in peer.agent().refused("store", "invalid", **FACT, project=name)
        assert "lower case" in peer.agent().refused("recall", "invalid", query="x", project=name)
        assert events(peer) == before


class TestPrivate:
    def test_is_its_owners_whatever_the_agent(self, peer: RunningPeer) -> None:
        one = peer.new_agent(owner="dana")
        two = peer.new_agent(owner="dana", projects={"web": "rw"})
        node = one("store", **FACT, project="private")["node_id"]
        assert two("get_node", node_id=node)["project"] == "private"
        assert two("recall", query=node)["results"][0]["node_id"] == node

    def test_keys_that_name_no_owner_share_nothing_private(self, peer: RunningPeer) -> None:
        _nothing_is_seen(peer.new_agent(), peer.new_agent(), "private")

    def test_is_not_there_for_anybody_else_the_operator_included(self, peer: RunningPeer) -> None:
        owner = peer.new_agent(owner="erin")
        for other in (peer.new_agent(owner="frank"), peer.operator()):
            _nothing_is_seen(owner, other, "private")

    def test_is_not_betrayed_by_what_rests_on_it(self, peer: RunningPeer) -> None:
        owner, other = peer.new_agent(owner="iris"), peer.new_agent(owner="jack")
        secret = owner("store", **FACT, project="private")["node_id"]
        known = owner("store", **FACT)["node_id"]
        node = owner("store", content="so we do it", cell_type="Decision", derived_from=[secret, known])
        assert owner("get_node", **node)["derived_from"] == [secret, known]
        assert other("get_node", **node)["derived_from"] == [known]
        shown = [other("get_node", **node), other("recall", query=node["node_id"], include_content=True)]
        assert secret not in json.dumps(shown)

    def test_is_not_seen_by_a_key_of_the_same_agent_for_another_owner(self, peer: RunningPeer) -> None:
        mine = peer.agent(peer.issue("double", owner="gina")["key"])
        theirs = peer.agent(peer.issue("double", owner="hugo")["key"])
        mine("place_beacon", interest="*")
        author = peer.new_agent(owner="gina")
        node = author("store", **FACT, project="private")["node_id"]
        theirs.refused("get_node", "not_found", node_id=node)
        assert theirs("list_beacons")["beacons"][0]["waiting"] == 0
        assert theirs("open_session")["unread"] == 0
        assert theirs("drain_inbox", advance=False)["diffs"] == []
        assert mine("list_beacons")["beacons"][0]["waiting"] == 1
        assert [d["node_id"] for d in mine("drain_inbox")["diffs"]] == [node]


class TestTenants:
    def test_never_see_each_other(self, peer: RunningPeer) -> None:
        a, b = peer.new_agent(tenant="red"), peer.new_agent(tenant="blue")
        _nothing_is_seen(a, b, "shared")

    def test_of_equal_names_are_different_agents(self, peer: RunningPeer) -> None:
        a = peer.agent(peer.issue("twin", tenant="red2", owner="o")["key"])
        b = peer.agent(peer.issue("twin", tenant="blue2", owner="o")["key"])
        _nothing_is_seen(a, b, "private")
        placed = a("place_beacon", interest="only the red one")["beacon_id"]
        assert placed != b("place_beacon", interest="only the red one")["beacon_id"]
        key = {"idempotency_key": "same"}
        assert a("store", **FACT, **key) != b("store", content="other", cell_type="Fact", **key)

    def test_status_counts_only_the_callers_tenant(self, peer: RunningPeer) -> None:
        fresh = peer.new_agent(tenant="fresh")
        counts = fresh("status")
        assert {n: counts[n] for n in ("cells", "beacons", "agents", "unsearchable_cells")} == {
            "cells": 0, "beacons": 0, "agents": 1, "unsearchable_cells": 0
        }  # fmt: skip
        before = fresh("status")
        other = peer.new_agent()
        other("store", **FACT)
        other("place_beacon", interest="*")
        after = fresh("status")
        for changing in ("uptime_s", "disk_free_bytes", "waiting_writes"):
            before.pop(changing)
            after.pop(changing)
        assert before == after


def _nothing_is_seen(owner: HttpAgent, other: HttpAgent, project: str) -> None:
    """Have `owner` make one of everything in a project, and look for it as `other` on every path."""
    other("place_beacon", interest="*")
    secret = f"the vault code of {project} is in the blue folder"
    session = owner("open_session", project=project)["session_id"]
    owner("place_beacon", interest="*", include_own=True)
    beacon = owner("list_beacons")["beacons"][0]["beacon_id"]
    base = {"content": secret, "cell_type": "Fact", "project": project}
    node = owner("store", **base, session_id=session)["node_id"]
    owner("store", **base, derived_from=[node])
    newer = owner("store", **base, supersedes=node)["node_id"]
    cursor = owner("drain_inbox")["cursor"]
    assert cursor

    for id_ in (node, newer):
        for text in (id_, id_[:8], id_[:18], id_.upper()):
            unknown = other.refused("get_node", "not_found", node_id=NOBODY)
            assert other.refused("get_node", "not_found", node_id=text) == unknown.replace(NOBODY, text)
        for argument in ("supersedes", "derived_from"):
            for door in DOORS.values():
                answers = [
                    door(other, "store", {**FACT, argument: [x] if argument == "derived_from" else x})
                    for x in (id_, NOBODY)
                ]
                assert answers[0].refused("not_found") == answers[1].text.replace(NOBODY, id_)
    for method in ("store", "drain_inbox", "close_session"):
        more = FACT if method == "store" else {}
        unknown = other.refused(method, "not_found", session_id=NOBODY, **more)
        assert other.refused(method, "not_found", session_id=session, **more) == unknown.replace(
            NOBODY, session
        )
    unknown = other.refused("withdraw_beacon", "not_found", beacon_id=NOBODY)
    assert other.refused("withdraw_beacon", "not_found", beacon_id=beacon) == unknown.replace(NOBODY, beacon)
    other.refused("get_scene", "not_found", scene_id=node)
    assert "no cursor of yours" in other.refused("drain_inbox", "invalid", ack=cursor)

    seen: list[Any] = [
        other("recall", query=secret, k=100, include_content=True, include_superseded=True, mode=mode)
        for mode in ("hybrid", "vector", "lexical")
    ]
    seen += [other("query", query=secret, layer=layer, k=100, include_content=True) for layer in (0, 1, 2)]
    seen += [other("recall", query=node, k=100), other("recall", query=newer[:8], k=100)]
    seen.append(other("drain_inbox", advance=False, limit=500))
    seen.append(other("diffs_since", since="1h", limit=500))
    seen.append(other("tail", limit=1000))
    for text in (secret, "*", "vault code"):
        seen.append(other("place_beacon", interest=text, threshold=0, ttl_seconds=600)["would_match"])
    told = json.dumps(seen)
    for mark in (secret, node, newer, session, beacon):
        assert mark not in told
    assert {b["waiting"] for b in other("list_beacons")["beacons"]} == {0}
    assert other("drain_inbox", advance=False)["remaining"] == 0
    assert other("open_session")["unread"] == 0
