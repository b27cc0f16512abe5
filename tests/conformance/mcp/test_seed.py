"""What the seed says of the product itself: each tool does what its sentence promises, over every transport."""

from __future__ import annotations

import hashlib
import http.client
import itertools
import json
import re
import tomllib
from pathlib import Path
from typing import Any

from tests.conformance.mcp.harness import Client
from tests.conformance.mcp.links import HttpLink, MemoryLink
from tests.conformance.mcp.model import (
    HTTP,
    LATEST_LEGACY,
    LEGACY,
    MEMORY,
    requirement,
)
from tests.conformance.mcp.shared_peer import SharedPeer
from tests.conformance.mcp.test_tools_call import NOWHERE
from tests.conformance.mcp.test_tools_list import ELEVEN, HINTS_OF

ROOT = Path(__file__).parents[3]
PAIR = {"node_id", "distance"}

_LETTERS = str.maketrans("0123456789", "ghijklmnop")
_numbers = itertools.count()


def word() -> str:
    """Return a word that nothing else in the mesh contains, of letters only: digits would be words apart."""
    return hashlib.sha256(b"%d" % next(_numbers)).hexdigest()[:20].translate(_LETTERS)


def store(client: Client, content: str, **more: Any) -> str:
    payload = client.call("store", {"content": content, "cell_type": "Decision", **more}).content()
    return str(payload["node_id"])


def found(client: Client, tool: str = "recall", **arguments: Any) -> list[dict[str, Any]]:
    results: list[dict[str, Any]] = client.call(tool, arguments).content()["results"]
    return results


def rest(peer: SharedPeer, key: str, verb: str, path: str, body: Any = None) -> tuple[int, Any]:
    connection = http.client.HTTPConnection(peer.url.removeprefix("http://"), timeout=30)
    data = None if body is None else json.dumps(body)
    headers = {"x-hyphae-key": key, **({} if data is None else {"content-type": "application/json"})}
    connection.request(verb, path, data, headers)
    answer = connection.getresponse()
    value = json.loads(answer.read())
    connection.close()
    return answer.status, value


@requirement("seed.eleven-tools", "seed.same-core", revisions=LATEST_LEGACY)
def test_every_transport_gives_the_same_answers(client: Client, memory: MemoryLink) -> None:
    memory.agree(client.revision)
    reference = Client(memory, client.revision)
    for method, params in (
        ("initialize", {"protocolVersion": client.revision}),
        ("tools/list", {}),
        ("ping", {}),
        ("no/such", {}),
        ("tools/call", {"name": "no_such"}),
        ("tools/call", {"name": "recall", "arguments": {}}),
        ("tools/call", {"name": "get_scene", "arguments": {"scene_id": NOWHERE}}),
        ("tools/call", {"name": "list_beacons"}),
    ):
        here, there = client.request(method, params).body, reference.request(method, params).body
        for answer in (here, there):
            answer.get("result", {}).get("serverInfo", {}).pop("version", None)
        assert here == there


@requirement("seed.delivered-unasked", "seed.place-beacon", "seed.drain-inbox", revisions=LATEST_LEGACY)
def test_a_memory_reaches_the_inbox_of_an_agent_whose_beacon_it_matches(
    client: Client, peer: SharedPeer
) -> None:
    subject = word()
    listener = Client(MemoryLink(peer, peer.key(f"listener-{client.link.name}")), client.revision)
    placed = listener.call("place_beacon", {"interest": f"{subject} retries"}).content()
    assert placed["created"] is True
    node_ids = [store(client, f"{subject} retries, number {number}") for number in range(3)]
    store(client, f"something else altogether: {word()}")
    pages = []
    for _ in range(2):  # page by page, against a cursor that the server owns: the caller passes nothing
        page = listener.call("drain_inbox", {"limit": 2}).content()
        pages.append([diff["node_id"] for diff in page["diffs"]])
    assert [len(ids) for ids in pages] == [2, 1]
    assert sorted(node_id for ids in pages for node_id in ids) == sorted(node_ids)
    assert page["remaining"] == 0
    assert listener.call("drain_inbox").content()["diffs"] == []


@requirement("seed.store-embeds", revisions=LATEST_LEGACY)
def test_store_embeds_what_it_keeps(client: Client) -> None:
    subject = word()
    node_id = store(client, f"the {subject} is painted green")
    assert found(client, query=f"{subject} green", mode="vector", k=1)[0]["node_id"] == node_id


@requirement("seed.recall", "seed.ids-only", revisions=LATEST_LEGACY)
def test_recall_finds_the_k_nearest_of_layer_0_as_pairs(client: Client) -> None:
    subject = word()
    exact = store(client, f"{subject} alpha")
    for number in range(4):
        store(client, f"{subject} beta gamma delta {number}")
    for k in (1, 3, 5):
        hits = found(client, query=f"{subject} alpha", k=k)
        assert len(hits) == k
        assert [set(hit) for hit in hits] == [PAIR] * k
        distances = [hit["distance"] for hit in hits]
        assert distances == sorted(distances)
        assert hits[0]["node_id"] == exact


@requirement("seed.query", "seed.ids-only", revisions=LATEST_LEGACY)
def test_query_searches_the_layer_that_is_named(client: Client) -> None:
    subject = word()
    node_id = store(client, f"{subject} one layer")
    hits = found(client, "query", query=subject, layer=0, mode="lexical")
    assert [hit["node_id"] for hit in hits] == [node_id]
    assert set(hits[0]) == PAIR
    for layer in (1, 2):
        assert node_id not in [hit["node_id"] for hit in found(client, "query", query=subject, layer=layer)]


@requirement("seed.ids-only", revisions=LATEST_LEGACY)
def test_content_comes_only_when_it_is_asked_for(client: Client) -> None:
    subject = word()
    store(client, f"{subject} in full")
    assert [set(hit) for hit in found(client, query=subject, mode="lexical")] == [PAIR]
    (hit,) = found(client, query=subject, mode="lexical", include_content=True)
    assert hit["content"] == f"{subject} in full"


@requirement("seed.rest-hydrates", "seed.four-surfaces", over=HTTP)
def test_rest_is_another_surface_of_the_same_core_and_gives_full_nodes(peer: SharedPeer, key: str) -> None:
    client = Client(HttpLink(peer.url, key), "2025-11-25")
    content = f"{word()} seen from both sides"
    node_id = store(client, content)
    status, node = rest(peer, key, "GET", f"/v1/nodes/{node_id}")
    assert (status, node["node_id"], node["content"]) == (200, node_id, content)
    assert node["source_agent"] == "asking-agent"


def consolidate(peer: SharedPeer, key: str, project: str) -> dict[str, Any]:
    """Consolidate a project over REST, in as many calls as it takes."""
    for _ in range(100):
        status, done = rest(peer, key, "POST", "/v1/scenes/consolidate", {"project": project})
        assert status in {200, 202}, done
        if done["state"] == "done":
            return dict(done)
    raise AssertionError(f"it never ended: {done}")


@requirement("seed.consolidate-elsewhere", over=HTTP)
def test_consolidating_scenes_is_for_rest(peer: SharedPeer, key: str) -> None:
    assert consolidate(peer, key, f"project-{word()}")["scenes"] == 0


@requirement("seed.open-session", "seed.close-session", revisions=LATEST_LEGACY)
def test_a_session_is_opened_in_a_project_and_closed_by_its_id(client: Client) -> None:
    project = f"project-{client.link.name}"
    session = client.call("open_session", {"project": project, "title": "t"}).content()
    assert session["project"] == project
    closed = client.call("close_session", {"session_id": session["session_id"]}).content()
    assert closed["session_id"] == session["session_id"]
    error = client.call("close_session", {"session_id": NOWHERE}).error(4040)
    assert error["message"].startswith("not_found: ")


@requirement("seed.list-beacons", revisions=LATEST_LEGACY)
def test_an_agent_is_listed_its_own_beacons_and_nobody_elses(client: Client, peer: SharedPeer) -> None:
    interest = word()
    key = peer.key(f"owner-{client.link.name}")
    beacon_id = peer.ask("place_beacon", key, interest=interest)["beacon_id"]
    owner = Client(MemoryLink(peer, key), client.revision)
    listed = owner.call("list_beacons").content()["beacons"]
    assert [(beacon["beacon_id"], beacon["interest"]) for beacon in listed] == [(beacon_id, interest)]
    assert beacon_id not in [
        beacon["beacon_id"] for beacon in client.call("list_beacons").content()["beacons"]
    ]


@requirement("seed.diffs-since", revisions=LATEST_LEGACY)
def test_what_was_delivered_since_a_time_can_be_read_again(client: Client, peer: SharedPeer) -> None:
    interest = word()
    key = peer.key(f"again-{client.link.name}")
    peer.ask("place_beacon", key, interest=interest)
    reader = Client(MemoryLink(peer, key), client.revision)
    node_id = store(client, f"{interest} once")
    assert len(reader.call("drain_inbox").content()["diffs"]) == 1
    for _ in range(2):  # reading again moves nothing
        page = reader.call("diffs_since", {"since": "1h"}).content()
        assert [diff["node_id"] for diff in page["diffs"]] == [node_id]
    later = reader.call("diffs_since", {"since": page["next_since"]}).content()
    assert later["diffs"] == []
    assert client.call("diffs_since", {"since": "1h"}).content()["diffs"] == []  # somebody else's


@requirement("seed.get-scene", "seed.list-scenes", revisions=LATEST_LEGACY)
def test_a_scene_is_listed_to_who_may_read_it_and_fetched_by_its_id(
    client: Client, peer: SharedPeer, key: str
) -> None:
    project, subject = f"scenes-{word()}", word()
    stored = {store(client, f"{subject} retries payments, as {n}", project=project) for n in range(4)}
    assert consolidate(peer, key, project)["scenes"] == 1
    (listed,) = client.call("list_scenes", {"project": project}).content()["scenes"]
    scene = client.call("get_scene", {"scene_id": listed["scene_id"]}).content()["scene"]
    assert {member["node_id"] for member in scene["members"]} == stored
    assert (scene["scene_id"], scene["project"]) == (listed["scene_id"], project)
    elsewhere = peer.key("elsewhere", projects={"another": "rw"})
    stranger = Client(MemoryLink(peer, elsewhere), client.revision)
    assert stranger.call("list_scenes").content()["scenes"] == []
    stranger.call("get_scene", {"scene_id": listed["scene_id"]}).error(4040)


@requirement("seed.older-hosts", revisions=LEGACY)
def test_a_host_of_any_revision_gets_the_same_descriptors_and_envelope(client: Client) -> None:
    tool = client.request("tools/list").result()["tools"][0]
    assert set(tool) == {"name", "title", "description", "inputSchema", "annotations"}
    assert set(client.call("list_beacons").result()) == {"content", "structuredContent", "isError"}


@requirement("seed.hand-rolled", over=MEMORY)
def test_the_server_uses_no_sdk_and_no_protobuf() -> None:
    imported = re.compile(r"^\s*(?:from|import)\s+(\w+)", re.MULTILINE)
    for folder in ("proto", "mesh", "mcp_gateway", "node"):
        for path in (ROOT / folder).rglob("*.py"):
            names = set(imported.findall(path.read_text(encoding="utf-8")))
            assert not names & {"mcp", "mcp_types", "fastmcp", "google", "grpc"}, path
    needed = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    assert not [line for line in needed if line.startswith(("mcp", "fastmcp", "protobuf", "grpc"))]


@requirement("seed.per-tool-pages", over=MEMORY)
def test_the_page_of_each_tool_lists_its_four_hints() -> None:
    for name in ELEVEN:
        page = (ROOT / "docs" / "tools" / f"{name}.md").read_text()
        for hint, value in zip(
            ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"),
            HINTS_OF[name],
            strict=True,
        ):
            line = next(line for line in page.splitlines() if hint in line)
            assert str(value).lower() in line.lower(), (name, hint)
