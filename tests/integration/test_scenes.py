"""Scenes on a real peer: what is made of memories, who sees it, and what happens beside and in the middle of it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from mesh.ports import Segment
from node.data_directory import PeerDirectory
from node.identity import load_identity, save_identity
from node.replica import Draft, Replica
from node.scene_summary import ExtractiveSummariser, Member, Summary
from node.service import consolidation, scene_runs, scenes
from node.sqlite_log import read_segment
from proto.errors import Forbidden, HyphaeError, Invalid, NotFound, Overloaded, Unavailable
from proto.payloads import Vector
from tests.support.open_service import OpenPeer, open_peer
from tests.support.replicas import memory
from tests.support.waiting import until

RETRIES = [
    f"the payment retry job runs {when}" for when in ("every hour", "every night", "at noon", "on Monday")
]
BOATS = [f"boats longer than {n} metres need the north pier" for n in (10, 12, 14)]


def on_a_peer(tmp_path: Path, story: Callable[[OpenPeer], Awaitable[None]]) -> None:
    async def run() -> None:
        async with open_peer(tmp_path / "peer") as peer:
            await story(peer)

    asyncio.run(run())


async def store(
    peer: OpenPeer, texts: Sequence[str], key: str | None = None, project: str = "web", **more: Any
) -> list[str]:
    out = []
    for text in texts:
        cell = {"content": text, "cell_type": "Fact", "project": project, **more}
        out.append(str((await peer.call("store", cell, key))["node_id"]))
    return out


async def consolidate(
    peer: OpenPeer, key: str | None = None, project: str = "web", **more: Any
) -> Mapping[str, Any]:
    return await peer.call("consolidate_scenes", {"project": project, **more}, key)


async def listed(peer: OpenPeer, key: str | None = None, **more: Any) -> list[Mapping[str, Any]]:
    return list((await peer.call("list_scenes", more, key))["scenes"])


async def members(peer: OpenPeer, scene: Mapping[str, Any], key: str | None = None) -> set[str]:
    whole = (await peer.call("get_scene", {"scene_id": scene["scene_id"]}, key))["scene"]
    return {m["node_id"] for m in whole["members"]}


async def events(peer: OpenPeer) -> int:
    return int((await peer.call("status", {}))["events"])


class TestMaking:
    def test_a_scene_has_its_members_its_span_its_authors_and_a_summary(self, tmp_path: Path) -> None:
        async def story(peer: OpenPeer) -> None:
            ann, ben = await peer.key("ann"), await peer.key("ben")
            nodes = await store(peer, RETRIES[:2], ann) + await store(peer, RETRIES[2:3], ben)
            await store(peer, ["something else entirely"], ben)
            done = await consolidate(peer, ann)
            assert done == {
                "project": "web",
                "state": "done",
                "progress": {"done": 9, "total": 9},
                "cells": 4,
                "scenes": 1,
                "created": 1,
                "changed": 0,
                "unchanged": 0,
            }
            (scene,) = await listed(peer, ann)
            assert (scene["cells"], scene["agents"], scene["project"]) == (3, ["ann", "ben"], "web")
            whole = (await peer.call("get_scene", {"scene_id": scene["scene_id"]}, ben))["scene"]
            assert {k: v for k, v in whole.items() if k != "members"} == scene
            assert [m["node_id"] for m in whole["members"]] == nodes
            assert (whole["from"], whole["to"]) == (
                whole["members"][0]["created_at"],
                whole["members"][-1]["created_at"],
            )
            assert set(scene["summary"].splitlines()) <= set(RETRIES)
            assert scene["title"] in RETRIES

        on_a_peer(tmp_path, story)

    def test_a_summary_is_found_on_layer_1_only(self, tmp_path: Path) -> None:
        async def story(peer: OpenPeer) -> None:
            await store(peer, RETRIES)
            await consolidate(peer)
            (scene,) = await listed(peer)
            found = await peer.call("query", {"layer": 1, "query": "payment retry", "include_content": True})
            (hit,) = found["results"]
            assert (hit["node_id"], hit["content"]) == (scene["node_id"], scene["summary"])
            assert (hit["source_agent"], hit["layer"], hit["cell_type"]) == ("hyphae:scenes", 1, "Context")
            results = (await peer.call("recall", {"query": "payment retry"}))["results"]
            assert scene["node_id"] not in {r["node_id"] for r in results}
            assert len(results) == len(RETRIES)
            whole = await peer.call("get_node", {"node_id": scene["node_id"]})
            assert set(whole["derived_from"]) <= await members(peer, scene)

        on_a_peer(tmp_path, story)

    def test_consolidating_twice_appends_nothing(self, tmp_path: Path) -> None:
        async def story(peer: OpenPeer) -> None:
            await store(peer, RETRIES + BOATS)
            await consolidate(peer)
            before = await events(peer), await listed(peer)
            again = await consolidate(peer)
            assert (again["created"], again["changed"], again["unchanged"]) == (0, 0, 2)
            assert (await events(peer), await listed(peer)) == before

        on_a_peer(tmp_path, story)

    def test_a_scene_keeps_its_id_while_it_grows_and_its_new_summary_replaces_the_old(
        self, tmp_path: Path
    ) -> None:
        async def story(peer: OpenPeer) -> None:
            await store(peer, RETRIES[:3])
            await consolidate(peer)
            (before,) = await listed(peer)
            await store(peer, RETRIES[3:])
            assert (await consolidate(peer))["changed"] == 1
            (after,) = await listed(peer)
            assert after["scene_id"] == before["scene_id"]
            assert after["cells"] == 4
            old = await peer.call("get_node", {"node_id": before["node_id"]})
            assert old["superseded_by"] == after["node_id"]
            found = await peer.call("query", {"layer": 1, "query": "payment"})
            assert [r["node_id"] for r in found["results"]] == [after["node_id"]]

        on_a_peer(tmp_path, story)

    def test_what_was_replaced_leaves_and_a_scene_that_is_too_small_ends_with_its_summary(
        self, tmp_path: Path
    ) -> None:
        async def story(peer: OpenPeer) -> None:
            nodes = await store(peer, RETRIES)
            await consolidate(peer)
            for node in nodes[:2]:
                await store(peer, [f"nothing of the kind, says {node}"], supersedes=node)
            ended = await consolidate(peer)
            assert (ended["scenes"], ended["ended"]) == (0, 1)
            assert await listed(peer) == []
            assert (await peer.call("query", {"layer": 1, "query": "payment"}))["results"] == []
            before = await events(peer)
            await consolidate(peer)
            assert await events(peer) == before

        on_a_peer(tmp_path, story)

    def test_exact_duplicates_are_all_members(self, tmp_path: Path) -> None:
        async def story(peer: OpenPeer) -> None:
            nodes = await store(peer, [RETRIES[0]] * 3)
            await consolidate(peer)
            (scene,) = await listed(peer)
            assert await members(peer, scene) == set(nodes)
            assert scene["summary"] == RETRIES[0]

        on_a_peer(tmp_path, story)

    def test_a_session_alone_can_be_consolidated_and_others_scenes_stay(self, tmp_path: Path) -> None:
        async def story(peer: OpenPeer) -> None:
            session = (await peer.call("open_session", {"project": "web"}))["session_id"]
            await store(peer, BOATS, session_id=session)
            await store(peer, RETRIES)
            done = await peer.call("consolidate_scenes", {"session_id": session})
            assert (done["project"], done["cells"], done["scenes"]) == ("web", 3, 1)
            assert (await consolidate(peer))["scenes"] == 2
            await store(peer, ["boats longer than 16 metres need the north pier"], session_id=session)
            again = await peer.call("consolidate_scenes", {"session_id": session})
            assert (again["scenes"], again["changed"], again["unchanged"]) == (2, 1, 1)

        on_a_peer(tmp_path, story)

    def test_a_summariser_can_be_plugged_in(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        class Counting:
            def summarise(self, given: Sequence[Member]) -> Summary:
                return Summary("Counted", f"{len(given)} memories", (given[0].cell,))

        monkeypatch.setattr(scenes, "ExtractiveSummariser", Counting)

        async def story(peer: OpenPeer) -> None:
            await store(peer, RETRIES)
            await consolidate(peer)
            (scene,) = await listed(peer)
            assert (scene["title"], scene["summary"]) == ("Counted", "4 memories")

        on_a_peer(tmp_path, story)


class TestReading:
    def test_an_empty_list_says_how_scenes_are_made(self, tmp_path: Path) -> None:
        async def story(peer: OpenPeer) -> None:
            empty = await peer.call("list_scenes", {"project": "web"})
            assert empty["scenes"] == []
            assert "hyphae scene consolidate" in empty["note"]
            assert "POST /v1/scenes/consolidate" in empty["note"]

        on_a_peer(tmp_path, story)

    def test_members_beyond_the_budget_are_counted(self, tmp_path: Path) -> None:
        async def story(peer: OpenPeer) -> None:
            await store(peer, [f"{text} {'and pays ' * 150}{n}" for n in range(5) for text in RETRIES])
            await consolidate(peer)
            (scene,) = await listed(peer)
            found = await peer.call("get_scene", {"scene_id": scene["scene_id"]})
            shown = len(found["scene"]["members"])
            assert 3 < shown < 20 == found["scene"]["cells"]
            assert found["cut"] == 20 - shown
            assert str(found["cut"]) in found["note"]

        on_a_peer(tmp_path, story)

    def test_pages_follow_one_another_and_survive_a_consolidation(self, tmp_path: Path) -> None:
        async def story(peer: OpenPeer) -> None:
            for project in ("web", "ops", "app"):
                await store(peer, RETRIES[:3], project=project)
                await consolidate(peer, project=project)
            first = await peer.call("list_scenes", {"limit": 1})
            assert [s["project"] for s in first["scenes"]] == ["app"]
            await store(peer, RETRIES[3:], project="web")
            await consolidate(peer, project="web")
            second = await peer.call("list_scenes", {"limit": 1, "cursor": first["next_cursor"]})
            assert [s["project"] for s in second["scenes"]] == ["ops"]
            assert "next_cursor" not in second
            assert [s["project"] for s in await listed(peer)] == ["web", "app", "ops"]

        on_a_peer(tmp_path, story)

    def test_a_cursor_of_somebody_else_or_of_nothing_is_refused(self, tmp_path: Path) -> None:
        async def story(peer: OpenPeer) -> None:
            ann, ben = await peer.key("ann"), await peer.key("ben")
            await store(peer, RETRIES + BOATS)
            await consolidate(peer)
            cursor = (await peer.call("list_scenes", {"limit": 1}, ann))["next_cursor"]
            assert len(await listed(peer, ann, cursor=cursor)) == 1
            for key, text in ((ben, cursor), (ann, cursor[:-2] + "aa"), (ann, "page 2")):
                with pytest.raises(Invalid, match="cursor"):
                    await peer.call("list_scenes", {"cursor": text}, key)

        on_a_peer(tmp_path, story)


class TestWalls:
    def test_scenes_are_seen_by_those_who_may_read_their_project(self, tmp_path: Path) -> None:
        async def story(peer: OpenPeer) -> None:
            reader = await peer.key("reader", projects={"web": "r"})
            outsider = await peer.key("outsider", projects={"ops": "rw"})
            stranger = await peer.key("stranger", tenant="elsewhere")
            await store(peer, RETRIES)
            await consolidate(peer)
            (scene,) = await listed(peer)
            assert await listed(peer, reader) == [scene]
            for key in (outsider, stranger):
                assert await listed(peer, key) == []
                texts = []
                for scene_id in (scene["scene_id"], "00000000-0000-4000-8000-000000000000"):
                    with pytest.raises(NotFound) as refused:
                        await peer.call("get_scene", {"scene_id": scene_id}, key)
                    texts.append(refused.value.message.replace(scene_id, ""))
                assert texts[0] == texts[1]
                found = await peer.call("query", {"layer": 1, "query": "payment retry"}, key)
                assert found["results"] == []
                with pytest.raises(NotFound):
                    await peer.call("get_node", {"node_id": scene["node_id"]}, key)
            with pytest.raises(NotFound):
                await listed(peer, outsider, project="web")

        on_a_peer(tmp_path, story)

    def test_scenes_of_private_are_each_owners_own(self, tmp_path: Path) -> None:
        async def story(peer: OpenPeer) -> None:
            ann, ben = await peer.key("ann"), await peer.key("ben")
            of_ann = await peer.key("ann-phone", owner="ann")
            await store(peer, RETRIES[:3], ann, "private")
            await store(peer, RETRIES[1:], ben, "private")
            done = await consolidate(peer, ann, "private")
            assert (done["cells"], done["scenes"]) == (3, 1)
            assert await listed(peer, ben) == []
            assert await listed(peer) == []
            (scene,) = await listed(peer, of_ann)
            assert scene["agents"] == ["ann"]
            with pytest.raises(NotFound):
                await peer.call("get_scene", {"scene_id": scene["scene_id"]}, ben)
            for key, hits in ((ben, 0), (of_ann, 1)):
                found = await peer.call("query", {"layer": 1, "query": "payment"}, key)
                assert len(found["results"]) == hits
            assert (await consolidate(peer, ben, "private"))["created"] == 1
            assert (await consolidate(peer, ann, "private"))["unchanged"] == 1
            assert len(await listed(peer, ben)) == len(await listed(peer, ann)) == 1

        on_a_peer(tmp_path, story)

    def test_who_may_not_write_may_not_consolidate(self, tmp_path: Path) -> None:
        async def story(peer: OpenPeer) -> None:
            await store(peer, RETRIES)
            readonly = await peer.key("readonly", scopes=["read"])
            reader = await peer.key("reader", projects={"web": "r"})
            outsider = await peer.key("outsider", projects={"ops": "rw"})
            ann = await peer.key("ann")
            session = (await peer.call("open_session", {"project": "web"}, ann))["session_id"]
            refusals: list[tuple[str, dict[str, Any], type[HyphaeError]]] = [
                (readonly, {"project": "web"}, Forbidden),
                (reader, {"project": "web"}, Forbidden),
                (outsider, {"project": "web"}, NotFound),
                (outsider, {"session_id": session}, NotFound),
                (ann, {"project": "Private"}, Invalid),
                (ann, {"wait_ms": 25_001}, Invalid),
            ]
            before = await events(peer)
            for key, args, error in refusals:
                with pytest.raises(error, match=r"Nothing was"):
                    await peer.call("consolidate_scenes", args, key)
            assert await events(peer) == before
            assert await listed(peer) == []

        on_a_peer(tmp_path, story)

    def test_no_key_has_the_name_that_summaries_are_signed_with(self, tmp_path: Path) -> None:
        async def story(peer: OpenPeer) -> None:
            for name in ("hyphae:scenes", "Hyphae:other", " hyphae:x"):
                with pytest.raises(Invalid, match="No key was issued"):
                    await peer.key(name)
                with pytest.raises(Invalid, match="No key was issued"):
                    await peer.key("ann", owner=name)

        on_a_peer(tmp_path, story)

    def test_beacons_hear_of_summaries_only_where_they_ask_for_the_layer(self, tmp_path: Path) -> None:
        async def story(peer: OpenPeer) -> None:
            plain, layered = await peer.key("plain"), await peer.key("layered")
            await peer.call("place_beacon", {"interest": "*"}, plain)
            await peer.call("place_beacon", {"interest": "*", "layers": [1]}, layered)
            nodes = await store(peer, RETRIES)
            await consolidate(peer)
            (scene,) = await listed(peer)
            heard = (await peer.call("drain_inbox", {}, layered))["diffs"]
            assert [d["node_id"] for d in heard] == [scene["node_id"]]
            heard = (await peer.call("drain_inbox", {}, plain))["diffs"]
            assert [d["node_id"] for d in heard] == nodes

        on_a_peer(tmp_path, story)


class Held:
    """A summariser that waits until it is let go."""

    begun, go_on = threading.Event(), threading.Event()

    def summarise(self, given: Sequence[Member]) -> Summary:
        self.begun.set()
        assert self.go_on.wait(20), "nobody let it go"
        return ExtractiveSummariser().summarise(given)


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> type[Held]:
    Held.begun, Held.go_on = threading.Event(), threading.Event()
    monkeypatch.setattr(scenes, "ExtractiveSummariser", Held)
    return Held


class TestBesideEachOther:
    def test_two_calls_share_one_run_and_stores_go_on_beside_it(
        self, tmp_path: Path, held: type[Held]
    ) -> None:
        async def story(peer: OpenPeer) -> None:
            await store(peer, RETRIES[:3])
            running = await consolidate(peer, wait_ms=0)
            assert (running["state"], running["scenes"]) == ("running", 0)
            await asyncio.to_thread(held.begun.wait, 20)
            calls = [asyncio.create_task(consolidate(peer)) for _ in range(2)]
            late = await store(peer, RETRIES[3:])
            assert await listed(peer) == [], "nothing is seen before it is whole"
            held.go_on.set()
            first, second = await asyncio.gather(*calls)
            assert first == second
            assert (first["state"], first["created"], first["cells"]) == ("done", 1, 3)
            assert (await consolidate(peer))["changed"] == 1
            (scene,) = await listed(peer)
            assert set(late) <= await members(peer, scene)

        on_a_peer(tmp_path, story)

    def test_a_caller_that_leaves_does_not_end_the_run(self, tmp_path: Path, held: type[Held]) -> None:
        async def story(peer: OpenPeer) -> None:
            await store(peer, RETRIES)
            call = asyncio.create_task(consolidate(peer))
            await asyncio.to_thread(held.begun.wait, 20)
            call.cancel()
            held.go_on.set()
            assert (await consolidate(peer))["scenes"] == 1

        on_a_peer(tmp_path, story)

    def test_who_asks_again_after_the_run_ended_is_told_what_it_came_to(
        self, tmp_path: Path, held: type[Held]
    ) -> None:
        async def story(peer: OpenPeer) -> None:
            other = await peer.key("other")
            await store(peer, RETRIES)
            await consolidate(peer, wait_ms=0)
            held.go_on.set()
            await until(lambda: not peer.core.service._scenes._runs._running, "the run ended")
            assert (await consolidate(peer, other))["created"] == 0
            mine = await consolidate(peer)
            assert (mine["created"], mine["unchanged"]) == (1, 0)
            assert (await consolidate(peer))["created"] == 0

        on_a_peer(tmp_path, story)

    def test_one_tenant_does_not_take_the_places_of_another(self, tmp_path: Path, held: type[Held]) -> None:
        async def story(peer: OpenPeer) -> None:
            greedy = await peer.key("greedy", tenant="acme")
            bob = await peer.key("bob", tenant="other")
            for number in range(scene_runs.RUNS_OF_A_TENANT):
                await store(peer, RETRIES, greedy, project=f"p{number}")
                await consolidate(peer, greedy, project=f"p{number}", wait_ms=0)
            with pytest.raises(Overloaded, match="of this tenant"):
                await consolidate(peer, greedy, project="one-more", wait_ms=0)
            assert (await consolidate(peer, bob, wait_ms=0))["state"] == "running"
            held.go_on.set()

        on_a_peer(tmp_path, story)

    def test_runs_of_one_project_follow_one_another(self, tmp_path: Path, held: type[Held]) -> None:
        async def story(peer: OpenPeer) -> None:
            session = (await peer.call("open_session", {"project": "web"}))["session_id"]
            await store(peer, RETRIES, session_id=session)
            await store(peer, BOATS)
            await peer.call("consolidate_scenes", {"session_id": session, "wait_ms": 0})
            await asyncio.to_thread(held.begun.wait, 20)
            whole = asyncio.create_task(consolidate(peer))
            held.go_on.set()
            done = await whole
            assert (done["created"], done["unchanged"]) == (1, 1)

        on_a_peer(tmp_path, story)

    def test_a_peer_that_stops_in_the_middle_leaves_the_scenes_as_they_were(
        self, tmp_path: Path, held: type[Held]
    ) -> None:
        async def first() -> None:
            async with open_peer(tmp_path / "peer") as peer:
                await store(peer, RETRIES)
                await consolidate(peer, wait_ms=0)
                await asyncio.to_thread(held.begun.wait, 20)
                asyncio.get_running_loop().call_later(0.05, held.go_on.set)

        async def second() -> None:
            async with open_peer(tmp_path / "peer") as peer:
                assert await listed(peer) == []
                assert (await consolidate(peer))["created"] == 1

        asyncio.run(first())
        asyncio.run(second())

    def test_summaries_of_a_run_that_died_are_found_again(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async def story(peer: OpenPeer) -> None:
            await store(peer, RETRIES)
            with monkeypatch.context() as patch:
                patch.setattr(consolidation, "as_events", _refuse)
                with pytest.raises(Unavailable):
                    await consolidate(peer)
            before = await events(peer)
            with monkeypatch.context() as patch:
                patch.setattr(consolidation.Consolidation, "_durably", _dying(1))
                with pytest.raises(Unavailable):
                    await consolidate(peer)
            assert await events(peer) == before + 1, "the summary, and no scene"
            assert await listed(peer) == []
            await consolidate(peer)
            assert await events(peer) == before + 2
            assert len((await peer.call("query", {"layer": 1, "query": "payment"}))["results"]) == 1

        on_a_peer(tmp_path, story)


def _refuse(*_args: object) -> list[Any]:
    raise Unavailable("the disk is full. Nothing was changed.")


def _dying(after: int) -> Callable[..., Awaitable[None]]:
    """Return an append that works so many times and then refuses."""
    durably, calls = consolidation.Consolidation._durably, [0]

    async def instead(self: Any, payloads: Any) -> None:
        calls[0] += 1
        if calls[0] > after:
            _refuse()
        await durably(self, payloads)

    return instead


class TestPeers:
    def test_two_peers_make_the_same_scenes_and_agree_when_they_meet(self, tmp_path: Path) -> None:
        async def run() -> None:
            async with open_peer(tmp_path / "one") as one, _twin(tmp_path / "two", one) as two:
                await store(one, RETRIES + BOATS)
                await _exchange(one, two)
                await asyncio.gather(consolidate(one), consolidate(two))
                mine, theirs = await listed(one), await listed(two)
                assert mine == theirs
                await _exchange(one, two)
                await _exchange(two, one)
                assert await listed(one) == await listed(two) == mine
                assert await _state(one) == await _state(two)
                assert (await consolidate(two))["unchanged"] == 2

        asyncio.run(run())

    def test_a_rebuild_gives_the_same_scenes(self, tmp_path: Path) -> None:
        async def story(peer: OpenPeer) -> None:
            nodes = await store(peer, RETRIES + BOATS)
            await consolidate(peer)
            await store(peer, ["another matter"], supersedes=nodes[-1])
            await consolidate(peer)
            before, state = await listed(peer), await _state(peer)
            await peer.core.writer.ask(lambda replica: replica.rebuild())
            assert await _state(peer) == state
            assert await listed(peer) == before

        on_a_peer(tmp_path, story)

    def test_cells_without_a_vector_of_this_space_are_left_out_and_counted(self, tmp_path: Path) -> None:
        async def story(peer: OpenPeer) -> None:
            nodes = await store(peer, RETRIES[:3])
            vector = Vector(space="another", values=b"\1\2\3", norm=14)
            user = peer.core.keys.local_user
            for number, given in enumerate((vector, None)):
                cell = memory(f"strange {number}", vector=given)
                await peer.core.writer.append([Draft.of(user.tenant, user.agent_id, cell)])
            done = await consolidate(peer)
            assert (done["cells"], done["left_out"], done["scenes"]) == (3, 2, 1)
            (scene,) = await listed(peer)
            assert await members(peer, scene) == set(nodes)

        on_a_peer(tmp_path, story)


@asynccontextmanager
async def _twin(data_dir: Path, of: OpenPeer) -> AsyncIterator[OpenPeer]:
    """Open another member of a peer's mesh."""
    directory = PeerDirectory(data_dir)
    directory.prepare()
    mesh, inviter = of.core.identity.mesh, of.core.identity.peer
    assert mesh is not None
    save_identity(directory, load_identity(directory, "twin").in_mesh(mesh, inviter))
    async with open_peer(data_dir) as peer:
        yield peer


async def _exchange(giver: OpenPeer, taker: OpenPeer) -> None:
    """Give everything that one peer holds to another."""
    await taker.core.writer.apply(await giver.core.writer.ask(_segments))


def _segments(replica: Replica) -> list[Segment]:
    found = []
    for stream in sorted(replica.log.heads()):
        number = replica.log.number_of(stream)
        assert number is not None
        segment = read_segment(replica.db, number, stream, 1, 2**30)
        assert segment is not None
        found.append(segment)
    return found


async def _state(peer: OpenPeer) -> bytes:
    return await peer.core.writer.ask(lambda replica: replica.state_hash())
