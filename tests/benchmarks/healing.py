"""How long after the end of a partition everybody has been listed all that was stored on the other side.

Two peers on hashed words, so that a backlog grows that is worth the name; one of them reaches NATS through a
proxy that goes silent.  A reader on each side asks for one memory in ten of all agents.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from time import perf_counter, sleep
from typing import Any

from tests.benchmarks.joining import held_events
from tests.benchmarks.long_log import Say
from tests.benchmarks.rebuilding import rebuild_rate
from tests.benchmarks.texts import memories
from tests.chaos.processes import ROOT, HashPeer
from tests.support.http_agent import HttpAgent
from tests.support.hyphae_command import eventually
from tests.support.nats_server import NatsServer
from tests.support.places import short_directory
from tests.support.running_mesh import RunningPeer
from tests.support.tcp_proxy import TcpProxy

CELLS = 40  # in one call
WANTED = 10  # one memory in so many is asked for
LONGEST_S = 600.0
DRAIN = {"limit": 500, "include_content": False, "max_bytes": 45_000}


@dataclass(frozen=True, slots=True)
class HealingFigures:
    """What was seen.

    Args:
        backlog: events that the one of the two peers lacked which lacked more, when the partition ended.
        deliveries: listed to the two readers.
        healed_s: from the end of the partition until the last of them.
        rebuild_per_s: events a second of `hyphae node rebuild` on the same log.
    """

    backlog: int
    deliveries: int
    healed_s: float
    rebuild_per_s: float

    @property
    def allowed_s(self) -> float:
        return 10 + self.backlog / (self.rebuild_per_s / 2)


def measure_healing(calls_per_s: float, apart_s: float, say: Say) -> HealingFigures:
    """Store on both sides of a partition, end it, and drain until all is there."""
    with _parted() as (one, two, link):
        readers = [_reader(peer, one) for peer in (one, two)]
        numbers = count()
        link.stall()
        with ThreadPoolExecutor(2) as pool:
            sides = [pool.submit(_store, peer, one, calls_per_s, apart_s, numbers) for peer in (one, two)]
            wanted = set().union(*(side.result() for side in sides))
        before = [held_events(peer.directory / "log.db") for peer in (one, two)]
        link.heal()
        began = perf_counter()
        with ThreadPoolExecutor(2) as pool:
            done = [pool.submit(_drain, reader, wanted) for reader in readers]
            last = max(at.result() for at in done)
        total = held_events(one.directory / "log.db")
        backlog = total - min(before)
        say(f"  {backlog:,} events behind, {len(wanted):,} to each reader, {last - began:.1f} s")
        two.stop()
        one.stop()
        return HealingFigures(backlog, 2 * len(wanted), last - began, rebuild_rate(one.directory).per_s)


def _store(peer: RunningPeer, first: RunningPeer, calls_per_s: float, for_s: float, numbers: Any) -> set[str]:
    """Store at an even pace; return the memories that the readers ask for."""
    author = peer.caller(first.secret("agent"))
    until, wanted = perf_counter() + for_s, set[str]()
    while (began := perf_counter()) < until:
        texts = memories(CELLS, seed=next(numbers))
        kinds = ["Lesson" if n % WANTED == 0 else "Fact" for n in range(CELLS)]
        cells = [{"content": t, "cell_type": k} for t, k in zip(texts, kinds, strict=True)]
        results = author.rest("POST", "/v1/nodes:bulk", {"cells": cells}).ok()["results"]
        wanted.update(r["node_id"] for r, k in zip(results, kinds, strict=True) if k == "Lesson")
        sleep(max(0.0, began + 1 / calls_per_s - perf_counter()))
    return wanted


def _reader(peer: RunningPeer, first: RunningPeer) -> HttpAgent:
    """Return an agent of this side with an interest that both sides know."""
    reader = peer.caller(first.issue(f"reader-{peer.name}")["key"])
    eventually(lambda: not reader.ask("list_beacons", {}).code, "the key is known")
    reader("place_beacon", interest="*", cell_types=["Lesson"])
    return reader


def _drain(reader: HttpAgent, wanted: set[str]) -> float:
    """Read until all has been listed; return when."""
    missing, until = set(wanted), perf_counter() + LONGEST_S
    while missing:
        page = reader("drain_inbox", **DRAIN)
        missing -= {diff["node_id"] for diff in page["diffs"]}
        if perf_counter() > until:
            raise RuntimeError(f"after {LONGEST_S:.0f} s {len(missing)} memories were not listed")
        if not page["diffs"]:
            sleep(0.05)
    return perf_counter()


class _Link:
    """A way to NATS that can go silent."""

    def __init__(self, port: int) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._proxy = TcpProxy(port)
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._proxy.start(), self._loop).result(10)
        self.url = f"nats://127.0.0.1:{self._proxy.port}"

    def stall(self) -> None:
        self._loop.call_soon_threadsafe(self._proxy.stall)

    def heal(self) -> None:
        self._loop.call_soon_threadsafe(self._proxy.cut)
        self._loop.call_soon_threadsafe(self._proxy.resume)

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self._proxy.close(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)


@contextlib.contextmanager
def _parted() -> Iterator[tuple[RunningPeer, RunningPeer, _Link]]:
    """Yield two members that hear each other, and the second one's way to NATS."""
    with short_directory() as root:
        nats = NatsServer(root)
        nats.start()
        link = _Link(nats.port)
        one, two = _peer(root, "one", nats.url), _peer(root, "two", link.url)
        try:
            one.start()
            two.options += ("--join", one.operator()("invite_peer")["token"])
            two.start()
            agent = one.agent()
            eventually(lambda: agent("status")["peers_up"] == 2, "they hear each other")
            yield one, two, link
        finally:
            two.kill()
            one.kill()
            link.close()
            nats.kill()


def _peer(root: Path, name: str, url: str) -> RunningPeer:
    return HashPeer(root, "--nats-url", url, environment={"PYTHONPATH": str(ROOT)}, name=name)
