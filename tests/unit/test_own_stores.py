"""A search that names what its caller stored last: found at once, waited for, or stale."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from node.service import own_stores
from proto.ids import agent_id, cell_id, format_uuid, tenant_id
from proto.messages import OWN_STORES
from tests.support.open_service import OpenPeer, open_peer
from tests.support.scripted_cluster import ScriptedCluster

FACT = {"cell_type": "Fact"}


async def store(peer: OpenPeer, key: str, content: str) -> str:
    return str((await peer.call("store", {"content": content, **FACT}, key))["node_id"])


async def recall(peer: OpenPeer, key: str, wrote: str | None) -> Mapping[str, Any]:
    return await peer.call("recall", {"query": "a memory"}, key, wrote=wrote)


def test_what_is_here_is_not_stale(tmp_path: Path) -> None:
    async def case() -> None:
        async with open_peer(tmp_path) as peer:
            key = await peer.key("writer")
            nodes = [await store(peer, key, f"a memory {n}") for n in range(OWN_STORES)]
            assert "stale" not in await recall(peer, key, ",".join(nodes))

    asyncio.run(case())


def test_what_does_not_come_makes_the_result_stale_and_the_note_says_what_to_do(tmp_path: Path) -> None:
    async def case() -> None:
        async with open_peer(tmp_path) as peer:
            key = await peer.key("writer")
            here = await store(peer, key, "a memory")
            found = await recall(peer, key, f"{here},{uuid.uuid4()}")
            assert found["stale"] is True
            assert found["results"][0]["node_id"] == here
            assert "search again" in found["note"]

    asyncio.run(case())


def test_what_comes_while_it_is_waited_for_is_found(tmp_path: Path) -> None:
    async def case() -> None:
        async with open_peer(tmp_path) as peer:
            key, mesh = await peer.key("writer"), peer.core.context.mesh
            tenant = tenant_id(mesh, "default")
            node = format_uuid(cell_id(mesh, tenant, agent_id(tenant, "writer"), "coming"))
            peer.core.context.cluster = ScriptedCluster()
            search = asyncio.create_task(recall(peer, key, node))
            await asyncio.sleep(0)  # it begins before the memory is there
            coming = {"content": "a memory", **FACT, "idempotency_key": "coming"}
            assert (await peer.call("store", coming, key))["node_id"] == node
            assert "stale" not in await search

    asyncio.run(case())


def test_a_memory_of_somebody_else_is_as_one_that_is_nowhere(tmp_path: Path) -> None:
    async def case() -> None:
        async with open_peer(tmp_path) as peer:
            key, other = await peer.key("writer"), await peer.key("other", tenant="elsewhere")
            node = await store(peer, key, "a memory")
            assert (await recall(peer, other, node))["stale"] is True
            assert (await recall(peer, other, str(uuid.uuid4())))["stale"] is True

    asyncio.run(case())


def test_without_a_way_to_other_peers_nothing_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_stores, "WAIT_S", 3_600.0)

    async def case() -> None:
        async with open_peer(tmp_path) as peer:
            key = await peer.key("writer")
            for cluster in (None, ScriptedCluster(connected=False)):
                peer.core.context.cluster = cluster
                assert (await recall(peer, key, str(uuid.uuid4())))["stale"] is True

    asyncio.run(case())


@pytest.mark.parametrize("wrote", [None, "", ",", "no id", "page", "x" * 100_000])
def test_what_names_nothing_is_ignored(tmp_path: Path, wrote: str | None) -> None:
    async def case() -> None:
        async with open_peer(tmp_path) as peer:
            assert "stale" not in await recall(peer, await peer.key("reader"), wrote)

    asyncio.run(case())
