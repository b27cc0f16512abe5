"""How many members a store waits for, how long, and what it says when they do not hold it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from node.service import write_concern
from node.service.write_concern import WriteConcern, concern_of
from proto.streams import Position
from tests.support.open_service import OpenPeer, open_peer
from tests.support.scripted_cluster import ScriptedCluster
from tests.support.sealed import stream

FACT = {"cell_type": "Fact"}
FAR_MS = 2**52


def around(peer: OpenPeer, cluster: ScriptedCluster | None, members: int = 3, setting: int = 0) -> list[bool]:
    """Put a mesh around a peer; return where it is noted for each store whether it fell short."""
    short: list[bool] = []
    context = peer.core.context
    context.cluster, context.member_count, context.write_concern = cluster, lambda: members, setting
    context.count_wait = lambda _seconds, was_short: short.append(was_short)
    return short


@pytest.mark.parametrize(
    ("setting", "members", "wanted"), [(0, 1, 1), (0, 2, 1), (0, 3, 2), (0, 30, 2), (1, 30, 1), (3, 2, 3)]
)
def test_two_are_wanted_from_three_members_on_unless_it_is_set(
    setting: int, members: int, wanted: int
) -> None:
    assert concern_of(setting, members) == wanted


def test_the_wait_ends_before_callers_over_nats_ask_another_peer() -> None:
    from mesh.engine_config import EngineConfig
    from mesh.requester_nats import PATIENCE_S

    config = EngineConfig()
    repaired_s = (config.digest_interval_ms * (1 + config.digest_jitter) + config.settle_ms) / 1000
    assert repaired_s < write_concern.WAIT_S < PATIENCE_S


def ask(tmp_path: Path, cluster: ScriptedCluster | None, stored: list[Position], **given: Any) -> Any:
    """Return the shortfall of events, and what was counted."""

    async def case() -> Any:
        deadline_ms = given.pop("deadline_ms", FAR_MS)
        async with open_peer(tmp_path) as peer:
            counted = around(peer, cluster, **given)
            concern = WriteConcern(peer.core.context, peer.core.context.count_wait)
            return await concern.shortfall(stored, deadline_ms), counted

    return asyncio.run(case())


ONE = [Position(stream(1), 7)]


def test_what_enough_members_hold_needs_no_words(tmp_path: Path) -> None:
    assert ask(tmp_path, ScriptedCluster(on=2), ONE) == ({}, [False])


def test_what_falls_short_is_said_with_the_next_step(tmp_path: Path) -> None:
    said, counted = ask(tmp_path, ScriptedCluster(on=1), ONE)
    assert (said["durable_on"], said["wanted"], counted) == (1, 2, [True])
    assert (
        said["note"] == "Stored, on one peer so far; it spreads to the others by itself. Nothing to repeat."
    )
    said, _ = ask(tmp_path, ScriptedCluster(on=2, up=5), ONE, setting=3)
    assert said["note"].startswith("Stored, on 2 peers so far")


def test_a_peer_alone_asks_nobody_and_says_nothing(tmp_path: Path) -> None:
    cluster = ScriptedCluster()
    assert ask(tmp_path, cluster, ONE, members=1) == ({}, [])
    assert cluster.asked == []


def test_without_a_mesh_around_it_a_peer_says_that_it_is_alone(tmp_path: Path) -> None:
    said, _ = ask(tmp_path, None, ONE)
    assert (said["durable_on"], said["wanted"]) == (1, 2)


@pytest.mark.parametrize("cluster", [ScriptedCluster(up=1), ScriptedCluster(connected=False)])
def test_nothing_is_waited_for_that_cannot_come(tmp_path: Path, cluster: ScriptedCluster) -> None:
    said, _ = ask(tmp_path, cluster, ONE)
    assert said["durable_on"] == 1
    [(_, _, _, timeout_s)] = cluster.asked
    assert timeout_s <= 0


def test_the_wait_is_bounded_by_its_limit_and_by_the_deadline_of_the_call(tmp_path: Path) -> None:
    cluster = ScriptedCluster()
    ask(tmp_path, cluster, ONE)
    ask(tmp_path, cluster, ONE, deadline_ms=1)
    patient, late = (timeout_s for *_, timeout_s in cluster.asked)
    assert 0 < patient <= write_concern.WAIT_S
    assert late <= 0


def test_of_many_events_in_a_stream_the_last_is_waited_for_and_each_stream_counts(tmp_path: Path) -> None:
    cluster = ScriptedCluster(on=2)
    ask(tmp_path, cluster, [Position(stream(1), n) for n in (3, 9, 4)] + [Position(stream(2), 1)])
    assert [(at, sequence) for at, sequence, *_ in cluster.asked] == [(stream(1), 9), (stream(2), 1)]


def test_a_store_and_its_retry_ask_for_the_same_event(tmp_path: Path) -> None:
    async def case() -> None:
        async with open_peer(tmp_path) as peer:
            key = await peer.key("writer")
            cluster = ScriptedCluster(on=1)
            around(peer, cluster)
            args = {"content": "once", **FACT, "idempotency_key": "k"}
            first, again = [await peer.call("store", args, key) for _ in range(2)]
            assert first == again
            assert first["durable_on"] == 1
            one, two = cluster.asked
            assert one[:3] == two[:3]
            assert one[0].peer == peer.core.identity.peer
            bulk = await peer.call("store_bulk", {"cells": [{"content": "new", **FACT}, args]}, key)
            assert bulk["durable_on"] == 1
            assert cluster.asked[-1][1] > one[1]

    asyncio.run(case())


def test_a_bulk_of_which_nothing_was_stored_waits_for_nothing(tmp_path: Path) -> None:
    async def case() -> None:
        async with open_peer(tmp_path) as peer:
            key = await peer.key("writer")
            cluster = ScriptedCluster()
            around(peer, cluster)
            refused = await peer.call("store_bulk", {"cells": [{"content": "x", "cell_type": "No"}]}, key)
            assert refused.keys() == {"results"}
            assert cluster.asked == []

    asyncio.run(case())


def test_the_status_shows_how_many_are_wanted(tmp_path: Path) -> None:
    async def case() -> None:
        async with open_peer(tmp_path) as peer:
            assert (await peer.call("status", {}))["write_concern"] == 1
            around(peer, None)
            assert (await peer.call("status", {}))["write_concern"] == 2

    asyncio.run(case())
