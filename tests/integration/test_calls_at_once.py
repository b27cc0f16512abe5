"""Calls under way are bounded for a key and in all, refused in every form of answer, and given back."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from node.data_directory import PeerDirectory
from node.identity import load_identity
from node.joining import create_or_join
from node.onnx_model import OnnxModel
from node.peer_config import PeerConfig
from node.peer_core import PeerCore
from tests.support.http_agent import HttpAgent
from tests.support.hyphae_command import eventually
from tests.support.open_service import OpenPeer
from tests.support.running_mesh import RunningPeer, running_peer

OF_A_KEY, IN_ALL = 2, 3
NEVER = 1_000_000_000  # a position of the log that no test reaches


@pytest.fixture(scope="module")
def peer() -> Iterator[RunningPeer]:
    bounds = {"HYPHAE_CALLS_AT_ONCE": str(IN_ALL), "HYPHAE_CALLS_AT_ONCE_PER_KEY": str(OF_A_KEY)}
    with running_peer("--no-nats", environment=bounds) as running:
        yield running


def under_way(peer: RunningPeer) -> int:
    operator = peer.operator()
    text = operator.send("GET", "/metrics", None)[1].decode()
    operator.close()
    (line,) = (line for line in text.splitlines() if line.startswith("hyphae_calls_under_way "))
    return int(float(line.split()[1]))


@contextlib.contextmanager
def waiting_calls(peer: RunningPeer, key: str, count: int) -> Iterator[None]:
    """Have calls of a key under way for the block; their client leaves at its end."""
    agents = [HttpAgent(peer.url, key) for _ in range(count)]

    def wait(agent: HttpAgent) -> None:
        with contextlib.suppress(Exception):  # hung up on
            agent("tail", after=NEVER, wait_ms=25_000)

    before = under_way(peer)
    threads = [threading.Thread(target=wait, args=(agent,), daemon=True) for agent in agents]
    for thread in threads:
        thread.start()
    eventually(lambda: under_way(peer) == before + count, "the calls are under way")
    try:
        yield
    finally:
        for agent in agents:
            agent.hang_up()
        eventually(lambda: under_way(peer) == before, "clients that left have given their places back")
        for thread in threads:
            thread.join(20)


def test_one_key_has_its_places_and_every_door_says_overloaded_beyond(peer: RunningPeer) -> None:
    agent, other = peer.new_agent(), peer.new_agent()
    with waiting_calls(peer, str(agent.key), OF_A_KEY - 1):
        assert agent("list_beacons")
    with waiting_calls(peer, str(agent.key), OF_A_KEY):
        mcp, rest, wire = (
            agent.by_mcp("list_beacons", {}),
            agent.by_rest("list_beacons", {}),
            agent.by_wire("list_beacons", {}),
        )
        assert [a.code for a in (mcp, rest, wire)] == ["overloaded"] * 3
        assert [a.status for a in (mcp, rest, wire)] == [200, 429, 200]
        assert f"{OF_A_KEY} calls of this key are under way, limit {OF_A_KEY}" in mcp.text
        assert other("list_beacons")
    assert agent("list_beacons")


def test_all_keys_together_have_their_places_and_the_owner_of_the_machine_always_gets_in(
    peer: RunningPeer,
) -> None:
    first, second, third = (peer.new_agent() for _ in range(3))
    with (
        waiting_calls(peer, str(first.key), OF_A_KEY),
        waiting_calls(peer, str(second.key), IN_ALL - OF_A_KEY),
    ):
        assert "calls of this peer are under way" in third.refused("list_beacons", "overloaded")
        assert third.send("POST", "/mcp", '{"jsonrpc":"2.0","id":1,"method":"ping"}')[0] == 200
        assert under_way(peer) == IN_ALL  # read with a key, and yet seen: what only looks needs no place
    assert third("list_beacons")


def test_a_recall_whose_client_left_is_never_embedded_and_frees_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, texts, run = threading.Event(), [], OnnxModel.run

    def gated(model: OnnxModel, ids: list[Any]) -> Any:
        texts.extend(ids)
        gate.wait(60)
        return run(model, ids)

    async def check() -> None:
        config = PeerConfig(tmp_path, use_nats=False)
        directory = PeerDirectory(tmp_path)
        directory.prepare()
        identity = await create_or_join(config, directory, load_identity(directory, config.name))
        core = await PeerCore.open(config, directory, identity, lambda: None)
        peer = OpenPeer(core)
        try:
            key = await peer.key("a")
            await core.embedder.load()  # type: ignore[attr-defined]
            monkeypatch.setattr(OnnxModel, "run", gated)
            cell = {"content": "one text", "cell_type": "Fact"}
            storing = asyncio.ensure_future(peer.call("store", cell, key))
            while not texts:
                await asyncio.sleep(0.01)
            recalls = [asyncio.ensure_future(peer.ask("recall", {"query": f"q {n}"}, key)) for n in range(9)]
            while core.service.calls_under_way < 10:
                await asyncio.sleep(0)
            for recall in recalls:
                recall.cancel()
            await asyncio.gather(*recalls, return_exceptions=True)
            assert core.service.calls_under_way == 1
            gate.set()
            await storing
            found = await peer.call("recall", {"query": "one text"}, key)
            assert len(found["results"]) == 1
            assert len(texts) == 2
        finally:
            gate.set()
            await core.close()

    asyncio.run(check())
