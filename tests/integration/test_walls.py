"""Who may see what, on a real peer: projects, `private`, tenants, on every path there is.

"Not yours" and "not there" must answer alike, and no count or example may tell them apart.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.http_agent import HttpAgent
from tests.support.running_mesh import RunningPeer, running_peer

FACT = {"content": "the vault code is in the blue folder", "cell_type": "Fact"}
NOBODY = "00000000-0000-4000-8000-000000000000"
DOORS = (HttpAgent.by_mcp, HttpAgent.by_rest, HttpAgent.by_wire)


@pytest.fixture(scope="module")
def peer() -> Iterator[RunningPeer]:
    with running_peer() as peer:
        yield peer


def events(peer: RunningPeer) -> int:
    count: int = peer.operator()("status")["events"]
    return count


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
            ({"cell_type": "Preference", "session_id": session["session_id"]}, "private"),
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
    cells = other("status")["cells"]
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
            for door in DOORS:
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
    if "operator" not in other("whoami")["scopes"]:
        assert other("status")["cells"] == cells
    assert other("drain_inbox", advance=False)["remaining"] == 0
    assert other("open_session")["unread"] == 0
