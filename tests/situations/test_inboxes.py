"""Inboxes: many entries, long ones, lost replies, noisy and expired beacons."""

from __future__ import annotations

import asyncio
import re
import time
from typing import Any

from tests.situations.stage import Stage, situation, situation_without_model
from tests.support.mcp_agent import McpAgent

BULK = 250
WAITING = 5_000


async def fill(stage: Stage, count: int, content: str = "entry {n}", project: str = "shop") -> None:
    """Let another agent store many memories."""
    key = (await stage.key("writer"))["key"]
    for start in range(0, count, BULK):
        cells = [
            {"content": content.format(n=n), "cell_type": "Fact", "project": project}
            for n in range(start, min(count, start + BULK))
        ]
        stored = await stage.peer.call("store_bulk", {"cells": cells}, key)
        assert all("node_id" in each for each in stored["results"])


async def listening(stage: Stage) -> McpAgent:
    alice = await stage.agent("alice")
    await alice("place_beacon", interest="*")
    return alice


@situation_without_model
async def test_five_thousand_waiting_entries_are_read_page_by_page_or_given_up(stage: Stage) -> None:
    alice = await listening(stage)
    await fill(stage, WAITING)
    session = await alice("open_session")
    assert session["unread"] == WAITING
    first = await alice("drain_inbox", session_id=session["session_id"])
    assert (len(first["diffs"]), first["remaining"]) == (20, WAITING - 20)
    assert f"{WAITING - 20} more wait: call drain_inbox again." in first.note
    assert 'To give up old ones pass skip_before, such as "7d".' in first.note
    entries = await alice.pages(session_id=session["session_id"], limit=500, max_bytes=45_000)
    assert len({d["diff_id"] for d in (*first["diffs"], *entries)}) == WAITING

    advised = re.findall(r'skip_before, such as "(\w+)"', first.note)[0]
    kept = await alice("drain_inbox", skip_before=advised)
    assert ("skipped" in kept, kept["remaining"]) == (False, WAITING - 20), "none of them is so old"
    given_up = await alice("drain_inbox", skip_before="0s")
    assert (given_up["skipped"], given_up["diffs"], given_up["remaining"]) == (WAITING - 20, [], 0)
    assert given_up.note == ""


@situation_without_model
async def test_ids_alone_of_a_backlog_take_fewer_pages(stage: Stage) -> None:
    alice = await listening(stage)
    await fill(stage, 60, "a longer memory {n} " + "with many words " * 50)
    page = await alice("drain_inbox", limit=500, include_content=False)
    assert (len(page["diffs"]), page["remaining"]) == (60, 0)
    assert all("content" not in d for d in page["diffs"])
    whole = await alice("recall", query=page["diffs"][7]["node_id"], include_content=True)
    assert whole["results"][0]["content"].startswith("a longer memory 7 ")


@situation_without_model
async def test_a_page_of_long_entries_ends_early_and_the_rest_waits(stage: Stage) -> None:
    alice = await listening(stage)
    await fill(stage, 30, "{n} " + "x" * 1_900)
    page = await alice("drain_inbox", limit=30)
    assert 0 < len(page["diffs"]) < 30
    assert page["remaining"] == 30 - len(page["diffs"])
    assert "call drain_inbox again" in page.note
    rest = await alice.pages()
    assert len({d["diff_id"] for d in (*page["diffs"], *rest)}) == 30


@situation_without_model
async def test_a_long_entry_is_cut_and_read_whole_by_its_id(stage: Stage) -> None:
    alice, bob = await listening(stage), await stage.agent("bob")
    text = "The runbook. " + "step " * 2_000 + "The last step is to call Dana."
    await bob("store", content=text, cell_type="Context")
    page = await alice("drain_inbox")
    (entry,) = page["diffs"]
    assert (len(entry["content"]), entry["content_chars"]) == (2_000, len(text))
    assert "recall with its node_id as query and include_content true reads one whole" in page.note
    again = await alice("diffs_since", since="1h")
    assert again.note == page.note
    whole = await alice("recall", query=entry["node_id"], include_content=True)
    assert whole["results"][0]["content"] == text
    assert (whole.note, "content_chars" in whole["results"][0]) == ("", False)


@situation_without_model
async def test_a_page_whose_reply_was_lost_is_listed_again(stage: Stage) -> None:
    alice = await listening(stage)
    await fill(stage, 3)
    alice.lose_replies = True
    lost = await alice("drain_inbox")
    alice.lose_replies = False
    again = await alice("drain_inbox")
    assert again["diffs"] == lost["diffs"]
    assert again["may_repeat"] is True
    assert "may_repeat: some of these may have been listed to you before; diff_id tells." in again.note
    assert (await alice("drain_inbox"))["diffs"] == []


@situation_without_model
async def test_an_agent_that_acknowledges_skips_nothing(stage: Stage) -> None:
    alice = await listening(stage)
    await fill(stage, 5)
    first = await alice("drain_inbox", limit=2)
    second = await alice("drain_inbox", limit=2, ack=first["cursor"])
    assert [d["content"] for d in second["diffs"]] == ["entry 2", "entry 3"]
    repeated = await alice("drain_inbox", limit=2, ack=first["cursor"])
    assert repeated["diffs"] == second["diffs"], "the second page was never acknowledged"
    last = await alice("drain_inbox", ack=repeated["cursor"])
    assert ([d["content"] for d in last["diffs"]], last["remaining"]) == (["entry 4"], 0)


@situation_without_model
async def test_one_project_is_read_and_the_rest_stays_unread(stage: Stage) -> None:
    alice = await listening(stage)
    await fill(stage, 2, "shop {n}", "shop")
    await fill(stage, 2, "web {n}", "web")
    assert [d["content"] for d in (await alice("drain_inbox", project="web"))["diffs"]] == ["web 0", "web 1"]
    assert [d["content"] for d in await alice.pages()] == ["shop 0", "shop 1"]


@situation_without_model
async def test_what_was_delivered_is_read_again_in_pages(stage: Stage) -> None:
    alice = await listening(stage)
    await fill(stage, 25)
    await alice.pages()
    since, read = "24h", []
    while True:
        page = await alice("diffs_since", since=since, limit=10)
        read += [d["content"] for d in page["diffs"]]
        since = page["next_since"]
        if not page["has_more"]:
            break
    assert sorted(set(read)) == sorted(f"entry {n}" for n in range(25))


@situation_without_model
async def test_an_expired_beacon_delivers_nothing_and_the_inbox_says_so(stage: Stage) -> None:
    alice = await stage.agent("alice")
    placed = await alice("place_beacon", interest="*", ttl_seconds=1)
    await until(lambda: no_beacon(alice))
    await fill(stage, 1)
    empty = await alice("drain_inbox")
    assert empty["diffs"] == []
    assert "you have no beacon: place_beacon once per subject" in empty.note
    again = await alice("place_beacon", interest="*")
    assert (again["beacon_id"], again["created"]) == (placed["beacon_id"], True)


async def no_beacon(agent: McpAgent) -> bool:
    return bool((await agent("list_beacons"))["beacons"] == [])


async def until(condition: Any) -> None:
    deadline = time.monotonic() + 20
    while not await condition():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.05)


@situation
async def test_a_noisy_beacon_is_placed_again_with_a_higher_threshold(stage: Stage) -> None:
    alice, bob = await stage.agent("alice"), await stage.agent("bob")
    first = await alice("place_beacon", interest="payments", threshold=0.05)
    await bob("store", content="Payments go through the bank's gateway.", cell_type="Fact")
    (waiting,) = (await alice("list_beacons"))["beacons"]
    assert (waiting["interest"], waiting["waiting"]) == ("payments", 1)
    changed = await alice("place_beacon", interest="payments", threshold=0.9)
    assert (changed["beacon_id"], changed["created"]) == (first["beacon_id"], False)
    (beacon,) = (await alice("list_beacons"))["beacons"]
    assert beacon["threshold"] == 0.9
    await alice.pages()
    await bob("store", content="Payments are logged.", cell_type="Fact")
    assert await alice.pages() == []


@situation
async def test_a_beacon_for_everything_of_one_kind_lets_nothing_else_through(stage: Stage) -> None:
    alice, bob = await stage.agent("alice"), await stage.agent("bob")
    await alice("place_beacon", interest="*", cell_types=["constraint", "Risk"])
    await bob("store", content="The cache holds 10 GB.", cell_type="Fact")
    risk = await bob("store", content="The cache may evict sessions.", cell_type="Risk")
    assert [d["node_id"] for d in await alice.pages()] == [risk["node_id"]]


@situation_without_model
async def test_a_beacon_too_many_is_refused_and_an_old_one_makes_room(stage: Stage) -> None:
    alice = await stage.agent("alice")
    for subject in ("one", "two", "three"):
        await alice("place_beacon", interest=subject)
    refused = await alice("place_beacon", interest="four")
    assert refused.error == (
        "overloaded: 3 beacons of yours are placed, limit 3. Nothing was placed. list_beacons shows them; remove"
        ' one by its interest, project and filters: {"interest": "...", "ttl_seconds": 0}'
    )
    held = (await alice("list_beacons"))["beacons"][0]["interest"]
    assert (await alice("place_beacon", **{**refused.example, "interest": held}))["withdrawn"] is True
    assert (await alice("place_beacon", interest="four"))["created"] is True
