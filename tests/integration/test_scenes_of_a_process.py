"""Scenes through every door of a peer's process, and a process that is killed while it makes them."""

from __future__ import annotations

import json

from tests.support.http_agent import HttpAgent
from tests.support.running_mesh import running_peer

TEXTS = [
    f"the payment retry job runs {when}" for when in ("every hour", "every night", "at noon", "on Monday")
]


def store(agent: HttpAgent, *texts: str) -> None:
    for text in texts:
        agent("store", content=text, cell_type="Fact", project="web")


def test_every_door_answers_alike_and_a_peer_killed_in_the_middle_shows_no_half() -> None:
    with running_peer() as peer:
        agent = peer.agent()
        store(agent, *TEXTS)
        begun = agent.by_rest("consolidate_scenes", {"project": "web", "wait_ms": 0}).ok()
        assert begun["project"] == "web"
        peer.kill()
        peer.start()
        agent = peer.agent()
        assert [s["cells"] for s in agent("list_scenes")["scenes"]] in ([], [4])
        done = agent.by_rest("consolidate_scenes", {"project": "web"}).ok()
        assert (done["state"], done["scenes"]) == ("done", 1)
        listed = agent.by_mcp("list_scenes", {}).ok()
        assert agent.by_rest("list_scenes", {}).ok() == agent.by_wire("list_scenes", {}).ok() == listed
        (scene,) = listed["scenes"]
        named = {"scene_id": scene["scene_id"]}
        whole = agent.by_mcp("get_scene", named).ok()
        assert agent.by_rest("get_scene", named).ok() == agent.by_wire("get_scene", named).ok() == whole
        assert [m["content"] for m in whole["scene"]["members"]] == TEXTS
        found = agent("query", layer=1, query="payment retry", include_content=True)["results"]
        assert [r["node_id"] for r in found] == [scene["node_id"]], "one summary, whoever died"
        log = peer.log()
        assert not any(text in log for text in (*TEXTS, json.dumps(scene["title"])))
