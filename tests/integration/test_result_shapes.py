"""Real replies of every operation against the table of results, and what they say of one another."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from mcp_gateway import rest
from mcp_gateway.result_kinds import ObjectSpec
from mcp_gateway.results import RESULTS
from mcp_gateway.tools import TOOLS
from node.ranking import distance
from node.service.positions import format_position
from proto.errors import Forbidden, Invalid, NotFound
from proto.ids import agent_id, tenant_id
from tests.support.open_service import OpenPeer, open_peer
from tests.support.result_shapes import deviations

SCOPES = ("read", "write", "admin")
INTEREST = "payments are retried by the bank"
TEXTS = (
    "We retry payments 3 times, because the bank drops 1 in 50.",
    "Payments are retried with one idempotency key.",
    "The bank closes its interface at night.",
)
NOBODY = "6f9619ff-8b86-d011-b42d-00cf4fc964ff"


class Story:
    """Two agents of one tenant; every reply is held against its shape."""

    def __init__(self, peer: OpenPeer, writer: str, reader: str) -> None:
        self.peer, self.writer, self.reader = peer, writer, reader
        self.seen: set[str] = set()
        self.fields: set[str] = set()

    async def __call__(self, method: str, key: str | None, **args: Any) -> dict[str, Any]:
        reply = (await self.peer.ask(method, args, key)).unwrap()
        result: dict[str, Any] = json.loads(json.dumps(dict(reply)))
        assert list(deviations(RESULTS[method], result)) == [], method
        self.seen.add(method)
        self.fields |= {f"{method}.{name}" for name in result}
        return result

    async def stored(self, text: str, **more: Any) -> str:
        args = {"content": text, "cell_type": "Fact", **more}
        return str((await self("store", self.writer, **args))["node_id"])


async def a_story(peer: OpenPeer) -> Story:
    return Story(
        peer, await peer.key("writer", scopes=list(SCOPES)), await peer.key("reader", scopes=list(SCOPES))
    )


async def every_operation(data_dir: Path) -> Story:
    async with open_peer(data_dir) as peer:
        ask = await a_story(peer)
        writer, reader = ask.writer, ask.reader
        beacon = await ask("place_beacon", reader, interest=INTEREST, threshold=0.0, cell_types=["fact"])
        await ask("place_beacon", reader, interest="*", project="billing")
        session = await ask("open_session", writer, title="retries", project="billing")
        await ask("open_session", writer, project="billing")
        first = await ask.stored(TEXTS[0], salience=0.9, tags=["retry"], session_id=session["session_id"])
        second = await ask.stored(TEXTS[1], supersedes=first, project="billing")
        third = await ask.stored("x" * 70_00, derived_from=[first, second], project="billing")
        for content in (True, False):
            await ask("recall", reader, query="payments", include_content=content, include_superseded=True)
            await ask("query", reader, query="payments", layer=0, include_content=content)
        await ask("recall", reader, query="payments", k=3, max_bytes=1000, include_content=True)
        for node in (first, second, third):
            await ask("get_node", reader, node_id=node)
        await ask("store_bulk", writer, cells=[{"content": "x", "cell_type": "Fact"}, {"content": ""}])
        await ask("list_sessions", writer)
        await ask("list_sessions", writer, project="billing")
        for method in ("list_beacons", "page_beacons"):
            await ask(method, reader)
        page = await ask("drain_inbox", reader, limit=2)
        for diff in page["diffs"]:
            await ask("explain_entry", reader, diff_id=diff["diff_id"])
        await ask("drain_inbox", reader, advance=False, include_content=False)
        await ask("diffs_since", reader, since="1h")
        for mode in ("hybrid", "vector", "lexical"):
            await ask("explain_recall", reader, query="payments", node_id=second, mode=mode)
        await ask("export", reader, limit=1)
        await ask("close_session", writer, session_id=session["session_id"])
        await ask("withdraw_beacon", reader, beacon_id=beacon["beacon_id"])
        await ask("place_beacon", reader, interest="*", project="billing", ttl_seconds=0)
        made = await ask("consolidate_scenes", writer, project="billing")
        assert made
        for scene in (await ask("list_scenes", reader))["scenes"]:
            await ask("get_scene", reader, scene_id=scene["scene_id"])
        issued = await ask("issue_key", writer, agent="ci", projects={"billing": "r"})
        rotated = await ask("rotate_key", writer, id=issued["id"])
        await ask("revoke_key", writer, id=rotated["id"])
        await ask("list_keys", writer, limit=1)
        await ask("list_keys", writer)
        for method in ("whoami", "status", "peers"):
            await ask(method, writer)
            await ask(method, None)
        return ask


def test_every_reply_has_the_shape_that_the_table_says(tmp_path: Path) -> None:
    story = asyncio.run(every_operation(tmp_path / "peer"))
    needs_another_mesh = {"invite_peer", "retire_peer"}  # their own tests have one
    needs_three_cells_alike = {"get_scene"}
    assert RESULTS.keys() - story.seen <= needs_another_mesh | needs_three_cells_alike
    required = {f"{m}.{f.name}" for m in story.seen for f in RESULTS[m].fields if not f.optional}
    assert required <= story.fields


def test_every_tool_and_every_route_has_a_result() -> None:
    assert TOOLS.keys() | {route.call for route in rest.ROUTES} == RESULTS.keys()


def test_a_checker_of_shapes_sees_what_is_wrong() -> None:
    shape = RESULTS["whoami"]
    good: Mapping[str, Any] = {
        "agent": "a",
        "owner": "a",
        "tenant": "t",
        "scopes": ["read"],
        "peer_id": "p",
    }
    assert list(deviations(shape, good)) == []
    for wrong in ({"agent": 5}, {"scopes": [5]}, {"projects": {"x": 1}}, {"more": 1}):
        assert list(deviations(shape, {**good, **wrong}))
    assert list(deviations(shape, {"agent": "a"}))


class TestExplainRecall:
    def test_its_numbers_are_those_of_recall(self, tmp_path: Path) -> None:
        async def run() -> None:
            async with open_peer(tmp_path / "peer") as peer:
                ask = await a_story(peer)
                nodes = [await ask.stored(text) for text in TEXTS]
                for mode in ("hybrid", "vector", "lexical"):
                    found = (await ask("recall", ask.reader, query="retry payments", mode=mode))["results"]
                    places = {hit["node_id"]: (rank, hit) for rank, hit in enumerate(found, 1)}
                    assert set(nodes[: 2 if mode == "lexical" else 3]) == places.keys()
                    for node in nodes:
                        said = await ask(
                            "explain_recall", ask.reader, query="retry payments", node_id=node, mode=mode
                        )
                        if node not in places:
                            assert (said["came"], said["distance"]) == (False, 1.0)
                            assert "none of the query's words" in said["why"]
                            continue
                        rank, hit = places[node]
                        assert (said["came"], said["rank"], said["distance"]) == (True, rank, hit["distance"])
                        cosine = said["arms"].get("dense", {}).get("cosine", 0.0)
                        share = said["arms"].get("lexical", {}).get("share", 0.0)
                        assert round(distance(mode, cosine, share), 4) == said["distance"]
                        assert said["cutoff"] == found[-1]["distance"]

        asyncio.run(run())

    def test_it_says_which_filter_keeps_a_memory_out_and_what_is_nearer(self, tmp_path: Path) -> None:
        async def run() -> None:
            async with open_peer(tmp_path / "peer") as peer:
                ask = await a_story(peer)
                old, other, far = [await ask.stored(t, tags=["a"], project="billing") for t in TEXTS]
                new = await ask.stored("We retry payments 5 times.", supersedes=old, project="billing")
                filters: dict[str, Any] = {
                    "project": "web",
                    "cell_types": ["Risk"],
                    "tags": ["a", "b"],
                    "from_agents": ["me"],
                    "since": "2999-01-01",
                    "min_salience": 0.9,
                }
                said = await ask("explain_recall", ask.reader, query="x", node_id=old, layer=1, **filters)
                passed = [(f["filter"], f["passed"]) for f in said["filters"]]
                assert passed == [
                    ("layer", False),
                    ("superseded", False),
                    ("project", False),
                    ("cell_types", False),
                    ("tags", True),
                    ("tags", False),
                    ("from_agents", False),
                    ("since", False),
                    ("min_salience", False),
                ]
                assert not said["came"]
                assert "rank" not in said
                fits = {
                    "project": "billing",
                    "cell_types": ["fact"],
                    "tags": ["a"],
                    "from_agents": ["writer"],
                }
                said = await ask("explain_recall", ask.reader, query=TEXTS[1], node_id=far, k=1, **fits)
                assert all(f["passed"] for f in said["filters"])
                assert (said["came"], said["rank"]) == (False, 2)
                assert said["distance"] >= said["cutoff"]
                by_id = await ask("explain_recall", ask.reader, query=other, node_id=new)
                assert not by_id["came"]
                by_id = await ask("explain_recall", ask.reader, query=old[:8], node_id=old)
                assert (by_id["came"], by_id["distance"]) == (True, 0.0)

        asyncio.run(run())

    def test_what_is_not_yours_is_not_there(self, tmp_path: Path) -> None:
        async def run() -> None:
            async with open_peer(tmp_path / "peer") as peer:
                ask = await a_story(peer)
                mine = await ask.stored("a secret of the writer", project="private")
                told = set()
                for node in (mine, NOBODY):
                    with pytest.raises(NotFound) as caught:
                        await ask("explain_recall", ask.reader, query="secret", node_id=node)
                    told.add(caught.value.message.replace(node, ""))
                assert len(told) == 1
                assert (await ask("explain_recall", ask.writer, query="secret", node_id=mine))["came"]

        asyncio.run(run())


class TestExplainEntry:
    def test_its_numbers_are_those_of_the_inbox(self, tmp_path: Path) -> None:
        async def run() -> None:
            async with open_peer(tmp_path / "peer") as peer:
                ask = await a_story(peer)
                near = await ask(
                    "place_beacon", ask.reader, interest=INTEREST, threshold=0.05, project="billing"
                )
                await ask("place_beacon", ask.reader, interest="*", cell_types=["Fact"], strict=True)
                base = await ask.stored(TEXTS[2])
                node = await ask.stored(TEXTS[0], project="billing", derived_from=[base])
                newer = await ask.stored(TEXTS[1], project="billing", supersedes=node)
                diffs = (await ask("drain_inbox", ask.reader))["diffs"]
                created = {d["node_id"]: d for d in diffs if d["kind"] == "created"}
                said = await ask("explain_entry", ask.reader, diff_id=created[node]["diff_id"])
                shown = [(b["interest"], round(b["score"] / 10_000, 4)) for b in said["beacons"]]
                assert shown == [(m["interest"], m["similarity"]) for m in created[node]["matched"]]
                by_interest = {b["interest"]: b for b in said["beacons"]}
                beacon = by_interest[INTEREST]
                assert (beacon["beacon_id"], beacon["threshold"], beacon["strict"]) == (
                    near["beacon_id"],
                    500,
                    False,
                )
                assert beacon["score"] + beacon["bonus"] >= beacon["threshold"]
                assert beacon["bonus"] == said["match_bonus"]["value"]
                assert [f["filter"] for f in beacon["filters"]] == ["readable", "project"]
                assert all(f["passed"] for b in said["beacons"] for f in b["filters"])
                assert by_interest["*"]["score"] == 10_000
                assert said["provenance"] == (await ask("get_node", ask.reader, node_id=node))["provenance"]
                assert said["path"] == [{"node_id": base, "relation": "derived_from", "of": node, "steps": 1}]
                said = await ask("explain_entry", ask.reader, diff_id=created[newer]["diff_id"])
                assert [(a["node_id"], a["relation"], a["steps"]) for a in said["path"]] == [
                    (node, "supersedes", 1),
                    (base, "derived_from", 2),
                ]

        asyncio.run(run())

    def test_it_survives_a_withdrawal_and_knows_what_was_read(self, tmp_path: Path) -> None:
        async def run() -> None:
            async with open_peer(tmp_path / "peer") as peer:
                ask = await a_story(peer)
                beacon = await ask("place_beacon", ask.reader, interest=INTEREST, threshold=0.0)
                await ask.stored(TEXTS[0])
                page = await ask("drain_inbox", ask.reader)
                diff = page["diffs"][0]["diff_id"]
                assert not (await ask("explain_entry", ask.reader, diff_id=diff))["read"]
                await ask("drain_inbox", ask.reader, ack=page["cursor"])
                await ask("withdraw_beacon", ask.reader, beacon_id=beacon["beacon_id"])
                said = await ask("explain_entry", ask.reader, diff_id=diff)
                assert said["read"]
                assert said["beacons"][0]["threshold"] == 0
                with pytest.raises(NotFound):
                    await ask("explain_entry", ask.writer, diff_id=diff)

        asyncio.run(run())


class TestExport:
    def test_it_gives_everything_once_in_the_order_of_the_log(self, tmp_path: Path) -> None:
        async def run() -> None:
            async with open_peer(tmp_path / "peer") as peer:
                ask = await a_story(peer)
                nodes = [await ask.stored(f"fact {i}", project=f"p{i % 2}") for i in range(7)]
                nodes.append(await ask.stored("fact 0 again", project="p0", supersedes=nodes[0]))
                hidden = await ask.stored("mine", project="private")
                exported, args = [], dict[str, Any](limit=3)
                while True:
                    page = await ask("export", ask.reader, **args)
                    assert len(page["cells"]) <= 3
                    exported += page["cells"]
                    if "next_cursor" not in page:
                        break
                    args["cursor"] = page["next_cursor"]
                assert [c["node_id"] for c in exported] == nodes
                assert exported[0]["superseded_by"] == nodes[-1]
                assert exported[-1]["supersedes"] == nodes[0]
                assert exported[3] == await ask("get_node", ask.reader, node_id=nodes[3])
                own = [c["node_id"] for c in (await ask("export", ask.writer))["cells"]]
                assert own == [*nodes, hidden]
                only = [c["project"] for c in (await ask("export", ask.reader, project="p1"))["cells"]]
                assert only == ["p1"] * 3
                narrow = await peer.key("narrow", scopes=["read"], projects={"p1": "r"})
                assert len((await ask("export", narrow))["cells"]) == 3
                with pytest.raises(NotFound):
                    await ask("export", narrow, project="p0")
                with pytest.raises(Forbidden):
                    await ask("export", await peer.key("blind", scopes=["mcp-read"]))
                elsewhere = await peer.key("other", tenant="b", scopes=["read"])
                assert (await ask("export", elsewhere))["cells"] == []

        asyncio.run(run())

    def test_a_page_is_bounded_and_its_cursor_is_its_own(self, tmp_path: Path) -> None:
        async def run() -> None:
            async with open_peer(tmp_path / "peer") as peer:
                ask = await a_story(peer)
                for i in range(6):
                    await ask.stored(f"{i}" + "x" * 60_000)
                page = await ask("export", ask.reader)
                assert len(page["cells"]) == 4
                cursor = page["next_cursor"]
                rest_of_it = await ask("export", ask.reader, cursor=cursor)
                assert len(rest_of_it["cells"]) == 2
                for wrong in (cursor[:-1], cursor[1:], "c", "x" * 40):
                    with pytest.raises(Invalid):
                        await ask("export", ask.reader, cursor=wrong)
                with pytest.raises(Invalid):
                    await ask("export", ask.writer, cursor=cursor)
                with pytest.raises(Invalid):
                    await ask("list_keys", ask.reader, cursor=cursor)
                reader = agent_id(tenant_id(peer.core.context.mesh, "default"), "reader")
                of_another_peer = format_position("export", reader, b"p" * 16, 1)
                with pytest.raises(Invalid, match="another peer"):
                    await ask("export", ask.reader, cursor=of_another_peer)

        asyncio.run(run())


@pytest.mark.parametrize(
    ("method", "items", "name"), [("page_beacons", "beacons", "beacon_id"), ("list_keys", "keys", "id")]
)
def test_a_list_that_grows_is_read_page_by_page(tmp_path: Path, method: str, items: str, name: str) -> None:
    async def run() -> None:
        async with open_peer(tmp_path / "peer") as peer:
            ask = await a_story(peer)
            for i in range(5):
                await ask("place_beacon", ask.reader, interest=f"subject {i}")
                await peer.key(f"agent {i}")
            whole = (await ask(method, ask.reader))[items]
            paged: list[Any] = []
            cursor: dict[str, str] = {}
            while True:
                page = await ask(method, ask.reader, limit=2, **cursor)
                paged += page[items]
                if "next_cursor" not in page:
                    break
                cursor = {"cursor": page["next_cursor"]}
            assert paged == whole
            assert len({one[name] for one in paged}) == len(whole) >= 5

    asyncio.run(run())


def test_shapes_are_named_once() -> None:
    def walk(shape: ObjectSpec) -> set[tuple[str, int]]:
        inner = [f.object for f in shape.fields if f.object is not None]
        return {(shape.name, hash(shape)), *(pair for one in inner for pair in walk(one))}

    pairs = set().union(*(walk(shape) for shape in RESULTS.values()))
    assert len({name for name, _ in pairs}) == len(pairs)
