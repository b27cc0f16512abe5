"""Reading an inbox on a real peer: pages, cursors, sessions, budgets, and cursors that are none."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from proto import limits
from tests.support.http_agent import Answer, HttpAgent
from tests.support.running_mesh import RunningPeer, running_peer

DOORS = {"mcp": HttpAgent.by_mcp, "rest": HttpAgent.by_rest, "wire": HttpAgent.by_wire}
Door = Callable[[HttpAgent, str, dict[str, Any]], Answer]
doors = pytest.mark.parametrize("door", DOORS.values(), ids=DOORS.keys())
Diffs = list[dict[str, Any]]


@pytest.fixture(scope="module")
def peer() -> Iterator[RunningPeer]:
    with running_peer() as peer:
        yield peer


@pytest.fixture(scope="module")
def writer(peer: RunningPeer) -> HttpAgent:
    return peer.new_agent()


_projects = (f"project-{n}" for n in itertools.count())


class Reader:
    """An agent with one beacon on a project of its own, into which others write."""

    def __init__(self, peer: RunningPeer, writer: HttpAgent) -> None:
        self.peer, self.writer = peer, writer
        self.project = next(_projects)
        self.agent = peer.new_agent()
        self.agent("place_beacon", interest="*", project=self.project)

    def receive(self, *contents: str) -> list[str]:
        """Have memories stored for this reader; return their ids in order."""
        cells = [{"content": c, "cell_type": "Fact", "project": self.project} for c in contents]
        parts = [cells[n : n + 256] for n in range(0, len(cells), 256)]
        stored = [self.writer.by_rest("store_bulk", {"cells": part}).ok()["results"] for part in parts]
        return [r["node_id"] for part in stored for r in part]

    def drain(self, **arguments: Any) -> dict[str, Any]:
        return self.agent("drain_inbox", **arguments)

    def drain_all(self, **arguments: Any) -> list[dict[str, Any]]:
        """Return pages until nothing remains."""
        pages = [self.drain(**arguments)]
        while pages[-1]["remaining"]:
            pages.append(self.drain(**arguments))
        return pages


@pytest.fixture
def reader(peer: RunningPeer, writer: HttpAgent) -> Reader:
    return Reader(peer, writer)


def nodes(*pages: dict[str, Any]) -> list[str]:
    return [d["node_id"] for page in pages for d in page["diffs"]]


class TestPages:
    def test_come_in_the_order_of_storing_and_count_what_remains(self, reader: Reader) -> None:
        ids = reader.receive(*(f"n {n}" for n in range(25)))
        pages = reader.drain_all(limit=10)
        assert nodes(*pages) == ids
        assert [p["remaining"] for p in pages] == [15, 5, 0]
        assert reader.drain()["diffs"] == []

    def test_end_early_rather_than_cut_an_entry(self, reader: Reader) -> None:
        ids = reader.receive(*(f"{n} " + "語" * 1_990 for n in range(12)))
        pages = reader.drain_all(limit=500, max_bytes=20_000)
        assert nodes(*pages) == ids
        assert [len(p["diffs"]) for p in pages] == [3, 3, 3, 3]
        assert [p["remaining"] for p in pages] == [9, 6, 3, 0]

    def test_hold_one_entry_at_least_however_small_the_budget(self, reader: Reader) -> None:
        ids = reader.receive(*("\x01" * 5_000 for _ in range(3)))
        pages = reader.drain_all(max_bytes=1_000)
        assert nodes(*pages) == ids
        for page in pages:
            (diff,) = page["diffs"]
            assert (len(diff["content"]), diff["content_chars"]) == (2_000, 5_000)

    @pytest.mark.parametrize("unit", ["x", "🙂", "\x01"])
    def test_and_results_of_any_text_stay_below_what_clients_put_aside(
        self, reader: Reader, unit: str
    ) -> None:
        reader.receive(*(f"{n} " + unit * 3_000 for n in range(26)))
        most = {"max_bytes": limits.RESULT_BYTES_MAX, "include_content": True}
        search = {"query": "x", "project": reader.project, "k": 100}
        for arguments in (most, {"include_content": True}):
            budget = arguments.get("max_bytes", limits.RESULT_BYTES)
            results = [
                reader.agent("recall", **search, **arguments),
                reader.agent("diffs_since", since="1h", limit=500, **arguments),
                reader.drain(advance=False, limit=500, **arguments),
            ]
            for result in results:
                text = json.dumps(result, ensure_ascii=False, separators=(",", ":"))
                assert len(text) < 45_000
                assert len(text.encode()) < budget + 500
        assert results[0]["cut"] + len(results[0]["results"]) == 26
        assert results[1]["has_more"]
        assert results[2]["remaining"] == 26

    def test_name_the_strongest_of_many_beacons_only(self, reader: Reader) -> None:
        for n in range(40):
            reader.agent("place_beacon", interest="*", project=reader.project, min_salience=n / 1_000)
        reader.receive("one memory that all of them match")
        (diff,) = reader.drain()["diffs"]
        assert len(diff["matched"]) == 5
        assert diff["matched_count"] == 40
        assert len(reader.agent("list_beacons")["beacons"]) == 40

    def test_of_many_long_beacons_the_list_is_cut_and_says_so(self, peer: RunningPeer) -> None:
        agent = peer.new_agent()
        for n in range(24):
            agent("place_beacon", interest=f"{n} {'x' * 2_500}")
        listed = agent("list_beacons")
        assert len(json.dumps(listed)) < 50_000
        assert listed["cut"] + len(listed["beacons"]) == 24
        assert all(len(b["interest"]) == 2_000 < b["interest_chars"] for b in listed["beacons"])

    def test_are_complete_while_more_arrives(self, reader: Reader) -> None:
        first = reader.receive(*(f"q {n}" for n in range(400)))
        more: list[str] = []

        def write() -> None:
            for n in range(20):
                more.extend(reader.receive(*(f"later {n} {i}" for i in range(5))))

        thread = threading.Thread(target=write)
        thread.start()
        pages: list[dict[str, Any]] = []
        while thread.is_alive() or not pages or pages[-1]["remaining"]:
            pages.append(reader.drain(limit=500, include_content=False))
            assert pages[-1]["remaining"] >= 0
        thread.join()
        pages += reader.drain_all(limit=500, include_content=False)
        assert nodes(*pages) == first + more


class TestTheCursor:
    @doors
    def test_without_ack_a_page_counts_as_read_at_the_next_call(self, reader: Reader, door: Door) -> None:
        ids = reader.receive("a", "b", "c")
        first = door(reader.agent, "drain_inbox", {"limit": 2}).ok()
        second = door(reader.agent, "drain_inbox", {}).ok()
        if door is HttpAgent.by_wire:  # a gateway says itself what it wrote out
            assert nodes(second) == ids
            assert second["may_repeat"]
        else:
            assert nodes(first, second) == ids
            assert door(reader.agent, "drain_inbox", {}).ok()["diffs"] == []

    @doors
    def test_with_ack_a_page_comes_again_until_it_is_named(self, reader: Reader, door: Door) -> None:
        ids = reader.receive("a", "b", "c")
        start = door(reader.agent, "drain_inbox", {"advance": False}).ok()["cursor"]
        page = door(reader.agent, "drain_inbox", {"limit": 2, "ack": start}).ok()
        for _ in range(3):  # the reply was lost, and asked for again
            again = door(reader.agent, "drain_inbox", {"limit": 2, "ack": start}).ok()
            assert nodes(again) == nodes(page) == ids[:2]
            assert again["may_repeat"]
        rest = door(reader.agent, "drain_inbox", {"ack": again["cursor"]}).ok()
        assert nodes(rest) == ids[2:]
        last = door(reader.agent, "drain_inbox", {"ack": rest["cursor"]}).ok()
        assert (last["diffs"], last["remaining"], last["cursor"]) == ([], 0, rest["cursor"])

    def test_of_an_older_page_commits_that_page_only(self, reader: Reader) -> None:
        ids = reader.receive(*"abcd")
        start = reader.drain(advance=False)["cursor"]
        first = reader.drain(limit=2, ack=start)
        second = reader.drain(limit=2, ack=first["cursor"])
        assert nodes(first, second) == ids
        again = reader.drain(ack=first["cursor"])
        assert nodes(again) == ids[2:]
        assert again["may_repeat"]

    def test_is_never_empty_so_that_it_can_always_be_sent_back(self, peer: RunningPeer) -> None:
        agent = peer.new_agent()
        cursor = agent("drain_inbox")["cursor"]
        assert cursor
        assert agent("drain_inbox", ack=cursor)["cursor"] == cursor

    def test_of_somebody_else_or_damaged_is_refused_and_nothing_moves(
        self, peer: RunningPeer, writer: HttpAgent, reader: Reader
    ) -> None:
        other = Reader(peer, writer)
        reader.receive("a", "b")
        other.receive("c")
        foreign, mine = other.drain()["cursor"], reader.drain(limit=1)["cursor"]
        wrong = [foreign, mine[:-1], mine + "a", mine[1:], "q" + mine[1:], "x", "p", "0", "-1", "p" * 500]
        wrong += [
            mine[:at] + ("a" if mine[at] != "a" else "b") + mine[at + 1 :] for at in range(1, len(mine))
        ]
        before = peer.operator()("status")["events"]
        for text in wrong:
            for door in DOORS.values():
                said = door(reader.agent, "drain_inbox", {"ack": text}).refused("invalid")
                assert "no cursor of yours" in said
                assert "your place is unchanged" in said
        assert peer.operator()("status")["events"] == before
        assert len(reader.drain(ack=mine)["diffs"]) == 1

    def test_of_a_session_belongs_to_its_agent_too(self, reader: Reader) -> None:
        session = reader.agent("open_session")["session_id"]
        ids = reader.receive("a")
        page = reader.drain(session_id=session)
        assert nodes(page) == ids
        assert reader.drain(session_id=session, ack=page["cursor"])["diffs"] == []


class TestABeacon:
    def test_that_was_withdrawn_and_is_placed_again_works_like_a_new_one(self, reader: Reader) -> None:
        same = {"interest": "*", "project": reader.project}
        ids = reader.receive("while it stood")
        assert nodes(*reader.drain_all()) == ids
        reader.agent("place_beacon", **same, ttl_seconds=0)
        missed = reader.receive("while it was gone")
        assert reader.drain()["diffs"] == []
        assert reader.agent("place_beacon", **same)["created"]
        ids = reader.receive("since it is back")
        assert nodes(*reader.drain_all()) == ids
        assert missed[0] not in nodes(reader.agent("diffs_since", since="1h"))

    def test_says_how_many_memories_it_would_have_matched(self, reader: Reader) -> None:
        ids = reader.receive("the cache was cleared", "payments fail at night", "the cache is cold again")
        placed = reader.agent("place_beacon", interest="cache", project=reader.project, threshold=0.4)
        assert placed["would_match"]["count"] == 2
        assert {e["node_id"] for e in placed["would_match"]["examples"]} == {ids[0], ids[2]}


class TestOnlyLooking:
    def test_changes_nothing_however_often(self, peer: RunningPeer, reader: Reader) -> None:
        ids = reader.receive(*"abc")
        before = peer.operator()("status")["events"]
        for limit in (1, 2, 500):
            for _ in range(2):
                page = reader.drain(advance=False, limit=limit)
                assert nodes(page) == ids[:limit]
                assert page["remaining"] == 3
        assert peer.operator()("status")["events"] == before
        assert nodes(*reader.drain_all()) == ids

    def test_a_drain_that_lists_and_commits_nothing_appends_nothing(
        self, peer: RunningPeer, reader: Reader
    ) -> None:
        reader.receive("a")
        reader.drain_all()
        reader.drain()
        before = peer.operator()("status")["events"]
        for _ in range(3):
            reader.drain()
        assert peer.operator()("status")["events"] == before


class TestSkipping:
    def test_gives_up_what_is_older_and_says_how_many(self, reader: Reader) -> None:
        reader.receive(*(f"old {n}" for n in range(5)))
        moment = reader.agent("diffs_since", since="1h", limit=500)["next_since"]
        reader.receive("the last of the old")
        assert reader.drain(advance=False)["remaining"] == 6
        page = reader.drain(skip_before=moment)
        assert [d["content"] for d in page["diffs"]] == ["old 4", "the last of the old"]
        assert (page["skipped"], page["remaining"]) == (4, 0)
        assert reader.drain()["diffs"] == []
        assert len(reader.agent("diffs_since", since="1h")["diffs"]) == 6, "they can still be read again"


class TestSessions:
    def test_side_by_side_each_see_every_entry(self, reader: Reader) -> None:
        one, two = (reader.agent("open_session")["session_id"] for _ in range(2))
        ids = reader.receive(*"abcde")
        pages: dict[str, Diffs] = {one: [], two: []}
        for _ in range(3):
            for session in (one, two):
                pages[session] += reader.drain(session_id=session, limit=2)["diffs"]
        assert [d["node_id"] for d in pages[one]] == [d["node_id"] for d in pages[two]] == ids

    def test_one_after_the_other_see_each_once(self, reader: Reader) -> None:
        seen: list[str] = []
        ids: list[str] = []
        for turn in range(3):
            session = reader.agent("open_session")["session_id"]
            ids += reader.receive(f"{turn} a", f"{turn} b")
            seen += nodes(reader.drain(session_id=session, limit=1))
            seen += nodes(reader.drain(session_id=session))
            reader.agent("close_session", session_id=session)
        assert seen == ids
        assert reader.drain()["diffs"] == []

    def test_tell_each_other_but_not_themselves(self, reader: Reader) -> None:
        one, two = (reader.agent("open_session")["session_id"] for _ in range(2))
        base = {"cell_type": "Fact", "project": reader.project}
        said = reader.agent("store", content="said in one", session_id=one, **base)["node_id"]
        assert nodes(reader.drain(session_id=two)) == [said]
        assert reader.drain(session_id=one)["diffs"] == []

    def test_that_are_closed_read_and_store_nothing_more(self, peer: RunningPeer, reader: Reader) -> None:
        session = reader.agent("open_session", title="gone")["session_id"]
        closed = reader.agent("close_session", session_id=session)
        before = peer.operator()("status")["events"]
        assert reader.agent("close_session", session_id=session) == closed
        assert "is closed" in reader.agent.refused("drain_inbox", "not_found", session_id=session)
        text = reader.agent.refused("store", "not_found", content="x", cell_type="Fact", session_id=session)
        assert "is closed" in text
        assert peer.operator()("status")["events"] == before
        again = reader.agent("open_session", title="gone")
        assert again["session_id"] != session
        assert again["open_sessions"] == []


class TestReadingAgain:
    def test_lists_all_by_arrival_and_moves_no_place(self, peer: RunningPeer, reader: Reader) -> None:
        ids = reader.receive(*(f"n {n}" for n in range(23)))
        reader.drain(limit=7)
        before = peer.operator()("status")["events"]
        since, seen, marks = "1h", [], []
        while True:
            page = reader.agent("diffs_since", since=since, limit=5)
            seen += nodes(page)
            since = page["next_since"]
            marks.append(since)
            if not page["has_more"]:
                break
        assert seen == ids
        assert marks == sorted(set(marks))
        assert reader.agent("diffs_since", since=since)["diffs"] == []
        assert peer.operator()("status")["events"] == before
        assert reader.drain(advance=False)["remaining"] == 16

    def test_gives_what_arrives_later_to_who_goes_on_from_next_since(self, reader: Reader) -> None:
        since = reader.agent("diffs_since", since="0s")["next_since"]
        for turn in range(5):
            ids = reader.receive(f"{turn}")
            page = reader.agent("diffs_since", since=since)
            assert nodes(page) == ids
            since = page["next_since"]
