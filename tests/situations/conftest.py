"""One peer with the real model for all situations, one with a cheap embedder for those that need thousands."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator

import pytest

from node.service.bounds import Bounds
from tests.situations.stage import Stage
from tests.support.open_service import OpenPeer, open_peer

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture(scope="session")
def peer(runner: asyncio.Runner, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenPeer]:
    opening = open_peer(tmp_path_factory.mktemp("peer"), embedder="onnx")
    peer = runner.run(opening.__aenter__())
    yield peer
    runner.run(opening.__aexit__(None, None, None))


@pytest.fixture(scope="session")
def small_peer(runner: asyncio.Runner, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenPeer]:
    bounds = Bounds(beacons_per_agent=3, sessions_per_agent=3)
    opening = open_peer(tmp_path_factory.mktemp("small"), bounds=bounds)
    peer = runner.run(opening.__aenter__())
    yield peer
    runner.run(opening.__aexit__(None, None, None))


@pytest.fixture
def stage(runner: asyncio.Runner, peer: OpenPeer) -> Stage:
    return Stage(runner, peer, f"team-{next(_numbers)}")


@pytest.fixture
def small_stage(runner: asyncio.Runner, small_peer: OpenPeer) -> Stage:
    """Without a model, and with room for three beacons and three sessions an agent."""
    return Stage(runner, small_peer, f"team-{next(_numbers)}")
