"""A page that another peer listed is acknowledged here: it is waited for, so that nothing of it comes again."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from node.replica import Draft
from node.service import inbox
from node.service.pages import format_cursor
from proto.ids import DiffId, PageId, agent_id, parse_uuid, tenant_id
from proto.payloads import PageListed
from tests.support.open_service import open_peer
from tests.support.scripted_cluster import ScriptedCluster

ELSEWHERE = PageId(b"listed elsewhere")


def test_a_page_that_is_under_way_is_waited_for_and_nothing_of_it_is_listed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inbox, "PAGE_WAIT_S", 60.0)

    async def case() -> None:
        async with open_peer(tmp_path) as peer:
            reader, writer = await peer.key("reader"), await peer.key("writer")
            await peer.call("place_beacon", {"interest": "*"}, reader)
            await peer.call("store", {"content": "read on the other peer", "cell_type": "Fact"}, writer)
            peeked = await peer.call("drain_inbox", {"advance": False}, reader)
            diff = DiffId(parse_uuid(peeked["diffs"][0]["diff_id"], "diff_id"))
            context = peer.core.context
            context.cluster = ScriptedCluster()
            tenant = tenant_id(context.mesh, "default")
            agent = agent_id(tenant, "reader")
            ack = format_cursor(agent, ELSEWHERE)
            drain = asyncio.create_task(peer.call("drain_inbox", {"ack": ack}, reader))
            answered, _ = await asyncio.wait({drain}, timeout=0.3)
            assert not answered, "it waits"
            page = PageListed(page=ELSEWHERE, session=None, mark=b"", refs=(diff,))
            await context.writer.append([Draft.of(tenant, agent, page)])
            assert (await drain)["diffs"] == []

    asyncio.run(case())


def test_a_page_that_does_not_come_leaves_its_entries_to_be_listed_again(tmp_path: Path) -> None:
    async def case() -> None:
        async with open_peer(tmp_path) as peer:
            reader, writer = await peer.key("reader"), await peer.key("writer")
            await peer.call("place_beacon", {"interest": "*"}, reader)
            await peer.call("store", {"content": "read on a dead peer", "cell_type": "Fact"}, writer)
            context = peer.core.context
            context.cluster = ScriptedCluster()
            agent = agent_id(tenant_id(context.mesh, "default"), "reader")
            again = await peer.call("drain_inbox", {"ack": format_cursor(agent, ELSEWHERE)}, reader)
            assert [d["content"] for d in again["diffs"]] == ["read on a dead peer"]

    asyncio.run(case())
