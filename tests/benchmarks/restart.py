"""How long a peer with a long log is away: from exec to the answer of the first recall.

NATS runs, the model is the real one, the file cache is warm, as after the restart of a process.
"""

from __future__ import annotations

import shutil
import statistics
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from tests.benchmarks.long_log import LongLog, Say
from tests.benchmarks.texts import QUESTIONS, memories
from tests.support.nats_server import NatsServer
from tests.support.places import short_directory
from tests.support.running_mesh import RunningPeer

STARTS = 3
BEHIND = 10  # one part in so many of the log is newer than the snapshot at the start after kill -9
LAST_STORES = 32  # right before it


@dataclass(frozen=True, slots=True)
class RestartFigures:
    """Seconds from exec to the first recall answered.

    Args:
        events: in the log.
        clean: after a clean end, median.
        killed: after kill -9 during stores, with a snapshot that lacks a tenth of the log, median.
        bare: without any snapshot.
    """

    events: int
    clean: float
    killed: float
    bare: float


def measure_restart(events: int, say: Say) -> RestartFigures:
    """Write the log, then start on it in each of the ways."""
    with _peer() as peer:
        snapshot, older = peer.directory / "index" / "vectors.snapshot", peer.root / "older.snapshot"
        newer = events // BEHIND
        LongLog(peer.directory, seed=1).write(events - newer, say=say)
        _first_recall_s(peer)
        peer.stop()
        snapshot.rename(older)
        LongLog(peer.directory, seed=2).write(newer, beacons=0, say=say)
        bare = _first_recall_s(peer)
        say(f"  without a snapshot: {bare:.2f} s")
        clean = []
        for _ in range(STARTS):
            peer.stop()
            clean.append(_first_recall_s(peer))
        say(f"  after a clean end: {statistics.median(clean):.2f} s")
        killed = []
        for n in range(STARTS):
            _store_and_kill(peer, seed=10 + n)
            shutil.copy(older, snapshot)
            killed.append(_first_recall_s(peer))
        say(f"  after kill -9: {statistics.median(killed):.2f} s")
    return RestartFigures(events, statistics.median(clean), statistics.median(killed), bare)


def _first_recall_s(peer: RunningPeer) -> float:
    began = perf_counter()
    peer.start()
    found = peer.agent()("recall", query=QUESTIONS[0])["results"]
    spent = perf_counter() - began
    if not found:
        raise RuntimeError("the first recall found nothing")
    return spent


def _store_and_kill(peer: RunningPeer, seed: int) -> None:
    """Have the log end as a crash leaves it: its newest commits in the write-ahead log only."""
    cells = [{"content": text, "cell_type": "Fact"} for text in memories(LAST_STORES, seed)]
    peer.agent().rest("POST", "/v1/nodes:bulk", {"cells": cells}).ok()
    peer.kill()


@contextmanager
def _peer() -> Iterator[RunningPeer]:
    """Yield a peer of a new mesh that has run once."""
    with short_directory() as root:
        nats = NatsServer(Path(root))
        nats.start()
        peer = RunningPeer(root, "--nats-url", nats.url)
        try:
            peer.start().stop()
            yield peer
        finally:
            peer.kill()
            nats.kill()
