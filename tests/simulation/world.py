"""A world in virtual time: an event queue, a network with faults, processes, and what is watched.

Everything random comes from one seed, so a seed is a history.  The world knows sites (`site.Site`) and
processes; it knows no log, no event and no message.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from mesh.effects import Channel, Publish
from mesh.engine_config import EngineConfig
from proto.ids import PeerId

if TYPE_CHECKING:
    from tests.simulation.checks import Checks
    from tests.simulation.process import Process

HEAL_MS = 90_000  # virtual time in which everything must have converged; it takes about 3 s


@dataclass(frozen=True, slots=True)
class Settings:
    """What happens in a run.

    Args:
        peers: at the start; copies of directories add processes.
        loss: share of messages lost.
        duplication: share of messages that arrive twice.
        duration_ms: of the time with work and faults; healing follows.
        appends: own events, at random processes and moments; some come in bursts.
        payload_bytes: of each event.
        faults: kinds that may happen: partition, outage, crash, restore, clone.
        in_order: messages of one process reach another in the order sent, as on one NATS connection.
        config: of the engines.
    """

    peers: int = 4
    loss: float = 0.25
    duplication: float = 0.06
    duration_ms: int = 10_000
    appends: int = 40
    payload_bytes: int = 20
    faults: frozenset[str] = frozenset(("partition", "outage", "crash", "restore", "clone"))
    in_order: bool = False
    config: EngineConfig = field(default_factory=EngineConfig)


class World:
    """Virtual time, the network, and all processes.

    Args:
        seed: of everything random.
        settings: what happens.
        checks: told of everything that can be wrong.
    """

    def __init__(self, seed: int, settings: Settings, checks: Checks) -> None:
        self.rng = random.Random(seed)
        self._rng_of_acks = random.Random(
            f"acks {seed}"
        )  # nothing follows from them, so they change no history
        self.settings = settings
        self.checks = checks
        self.now = 0.0  # milliseconds
        self.healed = False
        self.processes: list[Process] = []
        self.members: frozenset[PeerId] = frozenset()
        self.network_up = True
        self.island: frozenset[int] = frozenset()  # numbers of the processes cut off from the rest
        self.messages = 0
        self._queue: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._scheduled = 0
        self._last_arrival: dict[tuple[int, int, bool], float] = {}

    # -- time

    def at(self, delay_ms: float, action: Callable[..., None], *args: Any) -> None:
        """Do something later; actions of one moment keep their order."""
        self._scheduled += 1
        heapq.heappush(self._queue, (self.now + delay_ms, self._scheduled, action, args))

    def run_until(self, moment: float) -> None:
        """Let time pass."""
        while self._queue and self._queue[0][0] <= moment:
            self.now, _, action, args = heapq.heappop(self._queue)
            action(*args)
        self.now = moment

    # -- processes

    def add(self, process: Process) -> None:
        """Take a process into the world, with the next free number."""
        process.number = len(self.processes)
        self.processes.append(process)

    def running(self) -> list[Process]:
        return [process for process in self.processes if process.up]

    def of_peer(self, peer: PeerId) -> list[Process]:
        """Return the processes that run, or ran, under one peer id."""
        return [process for process in self.processes if process.site.peer == peer]

    # -- network

    def send(self, source: Process, publish: Publish) -> None:
        """Carry a message to everybody who listens to its subject."""
        self.checks.anytime_sent(source, publish)
        rng = self._rng_of_acks if publish.channel is Channel.ACK else self.rng
        for target in self.processes:
            if target is source or (publish.peer is not None and target.site.peer != publish.peer):
                continue
            if self._arrives(source, target, rng):
                self._carry(source, target, publish, rng)
            if not self.healed and rng.random() < self.settings.duplication:
                self.at(rng.uniform(1, 1_500), self._deliver, source, target, publish)

    def _carry(self, source: Process, target: Process, publish: Publish, rng: random.Random) -> None:
        arrival = self.now + self._delay(rng)
        if self.settings.in_order:
            way = source.number, target.number, publish.channel is Channel.ACK
            arrival = max(arrival, self._last_arrival.get(way, 0.0))
            self._last_arrival[way] = arrival
        self.at(arrival - self.now, self._deliver, source, target, publish)

    def set_network(self, up: bool) -> None:
        """Take the message server away, or bring it back: every process notices."""
        if up != self.network_up:
            self.network_up = up
            for process in self.running():
                process.connection(up)

    def _arrives(self, source: Process, target: Process, rng: random.Random) -> bool:
        return self.healed or (self._linked(source, target) and rng.random() >= self.settings.loss)

    def _linked(self, a: Process, b: Process) -> bool:
        return self.network_up and (a.number in self.island) == (b.number in self.island)

    def _delay(self, rng: random.Random) -> float:
        slow = not self.healed and rng.random() < 0.1
        return rng.uniform(1, 400) if slow else rng.uniform(0.5, 20)

    def _deliver(self, source: Process, target: Process, publish: Publish) -> None:
        if target.up and (self.healed or self._linked(source, target)):
            self.messages += 1
            target.receive(publish)

    # -- the end

    def heal(self) -> bool:
        """End all faults and wait until all logs are alike; tell whether that came to be in time."""
        self.healed, self.island = True, frozenset()
        self.set_network(True)
        for process in self.processes:
            if not process.up:
                process.boot()
        start = self.now
        while self.now < start + HEAL_MS:
            self.run_until(self.now + 250)
            heads = [process.site.heads() for process in self.processes]
            if all(other == heads[0] for other in heads) and not any(p.busy for p in self.processes):
                return True
        return False
