"""What it costs to wait for a second member: stores on two peers of one mesh, of which only one waits.

Both peers do the same work, and every store goes to the other two whether or not it is waited for.  The calls
alternate, so that both see the same noise.  Peers of a mesh may have different settings; only a benchmark
would give them any.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter

from tests.benchmarks.texts import memories
from tests.support.http_agent import HttpAgent
from tests.support.hyphae_command import eventually
from tests.support.nats_server import NatsServer
from tests.support.places import short_directory
from tests.support.running_mesh import RunningPeer

CALLS = 400
WARM_UP = 30


@dataclass(frozen=True, slots=True)
class ConcernFigures:
    """Milliseconds of a store.

    Args:
        alone, two: median with w = 1 and w = 2.
        two_p99: with w = 2.
        short: stores with w = 2 that were answered before two members held them.
    """

    alone: float
    two: float
    two_p99: float
    short: int

    @property
    def ratio(self) -> float:
        return self.two / self.alone


def measure_concern() -> ConcernFigures:
    """Store on both peers in turns."""
    texts = memories(2 * (CALLS + WARM_UP))
    with _trio() as (one, two):
        took: dict[HttpAgent, list[float]] = {one: [], two: []}
        short = 0
        for n, text in enumerate(texts):
            agent = (one, two)[n % 2]
            began = perf_counter()
            stored = agent("store", content=text, cell_type="Fact")
            took[agent].append((perf_counter() - began) * 1_000)
            short += "durable_on" in stored
        alone, waited = (sorted(took[agent][WARM_UP:]) for agent in (one, two))
    p99 = waited[int(len(waited) * 0.99)]
    return ConcernFigures(statistics.median(alone), statistics.median(waited), p99, short)


@contextmanager
def _trio() -> Iterator[tuple[HttpAgent, HttpAgent]]:
    """Run three members; yield an agent of one with w = 1 and of one with w = 2."""
    with short_directory() as root:
        nats = NatsServer(root)
        nats.start()
        common = {"HYPHAE_EMBED_SPINNING": "false"}  # as `hyphae up` sets it for several peers on one machine
        peers = [
            RunningPeer(root, environment={**common, "HYPHAE_WRITE_CONCERN": str(w)}, name=f"w{w}-{n}")
            for n, w in enumerate((1, 2, 2))
        ]
        first = peers[0]
        first.options = ("--nats-url", nats.url)
        try:
            first.start()
            for peer in peers[1:]:
                peer.options = ("--join", first.operator()("invite_peer")["token"])
                peer.start()
            agents = [peer.caller(first.secret("agent")) for peer in peers]
            eventually(lambda: all(a("status")["peers_up"] == 3 for a in agents), "all hear each other")
            yield agents[0], agents[1]
        finally:
            for peer in peers:
                peer.kill()
            nats.kill()
