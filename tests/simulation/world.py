"""A world in virtual time: an event queue, a network with faults, members, processes, and what is watched.

Everything random comes from one seed, so a seed is a history.  The world knows sites (`site.Site`) and
processes; it knows no log, no event and no message.
"""

from __future__ import annotations

import heapq
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from mesh.effects import Channel, Publish
from mesh.engine_config import EngineConfig
from proto.ids import PeerId
from tests.simulation.partitions import WHOLE
from tests.simulation.trace import WORLD, Trace

if TYPE_CHECKING:
    from tests.simulation.checks import Checks
    from tests.simulation.process import Message, Process

_TALLIED = {
    "busy_said": "pulls answered busy",
    "gaps": "gaps seen",
    "pages": "pages pulled",
    "pull_time_outs": "pulls timed out",
}
HEAL_MS = 90_000  # virtual time in which everything must have converged; it takes about 3 s
NEWS_MS = 1_500  # until everybody has heard who joined or retired, at most
ALL_FAULTS = frozenset(
    (
        "partition",
        "outage",
        "crash",
        "crash of all",
        "rolling restart",
        "catching up",
        "restore",
        "wipe",
        "clone",
        "hang",
        "slow",
        "join",
        "retire",
    )
)


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
        faults: kinds that may happen, see `faults.Nemesis`.
        in_order: messages of one process reach another in the order sent, as on one NATS connection.
        tails: processes crash while they have events that are not durable yet.
        pace: how often faults strike, compared to once in 200 to 1,200 ms.
        drift: how much faster or slower than time the clocks run by which processes wait.
        config: of the engines.
    """

    peers: int = 4
    loss: float = 0.25
    duplication: float = 0.06
    duration_ms: int = 10_000
    appends: int = 40
    payload_bytes: int = 20
    faults: frozenset[str] = ALL_FAULTS
    in_order: bool = False
    tails: bool = True
    pace: float = 1.0
    drift: float = 0.05
    config: EngineConfig = field(default_factory=EngineConfig)


class World:
    """Virtual time, the network, and all processes.

    Args:
        seed: of everything random.
        settings: what happens.
        checks: told of everything that can be wrong.
        trace: takes the steps, if somebody wants to read them.
    """

    def __init__(self, seed: int, settings: Settings, checks: Checks, trace: Trace | None = None) -> None:
        self.rng = random.Random(seed)
        self._rng_of_acks = random.Random(
            f"acks {seed}"
        )  # nothing follows from them, so they change no history
        self.settings = settings
        self.checks = checks
        self.trace = checks.trace = trace
        self.counts: Counter[str] = Counter()  # of situations, by name
        self.now = 0.0  # milliseconds
        self.healed = False
        self.processes: list[Process] = []
        self.members: frozenset[PeerId] = frozenset()  # all that ever joined
        self.retired: frozenset[PeerId] = frozenset()
        self.network_up = True
        self.cut = WHOLE  # ways on which nothing arrives
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

    def note(self, process: Process | None, step: str, *values: object) -> None:
        """Tell the trace, if there is one, of a step: its text, and what stands for each {} in it."""
        if self.trace is not None:
            who = WORLD if process is None else process.name
            self.trace.add(self.now, who, step.format(*values) if values else step)

    def tally(self, process: Process) -> None:
        """Count what the engine of a process life that ends has counted."""
        for name, situation in _TALLIED.items():
            self.counts[situation] += process.engine.counters[name]

    def running(self) -> list[Process]:
        """Return the processes that answer: neither crashed nor hung."""
        return [process for process in self.processes if process.up and not process.hung]

    def of_peer(self, peer: PeerId) -> list[Process]:
        """Return the processes that run, or ran, under one peer id."""
        return [process for process in self.processes if process.site.peer == peer]

    # -- members

    def join(self, process: Process) -> None:
        """Take in a new peer: it knows the others, who hear of it one after the other."""
        self.members |= {process.site.peer}
        self.add(process)
        process.boot()
        self.spread_the_news()

    def retire(self, peer: PeerId) -> None:
        """End a membership: everybody hears of it, one after the other."""
        self.retired |= {peer}
        self.spread_the_news()

    def spread_the_news(self) -> None:
        for process in self.processes:
            self.at(self.rng.uniform(1, NEWS_MS), process.hear_of_members)

    # -- network

    def send(self, source: Process, publish: Publish) -> None:
        """Carry a message to everybody who listens to its subject."""
        self.checks.anytime_sent(source, publish)
        message = source.message(publish)
        rng = self._rng_of_acks if publish.channel is Channel.ACK else self.rng
        for target in self.processes:
            if target is source or (publish.peer is not None and target.site.peer != publish.peer):
                continue
            if self._arrives(source, target, rng):
                self._carry(message, target, rng)
            if not self.healed and rng.random() < self.settings.duplication:
                self.at(rng.uniform(1, 1_500), self._deliver, message, target)

    def _carry(self, message: Message, target: Process, rng: random.Random) -> None:
        arrival = self.now + self._delay(rng)
        if self.settings.in_order:
            way = message.source.number, target.number, message.publish.channel is Channel.ACK
            arrival = max(arrival, self._last_arrival.get(way, 0.0))
            self._last_arrival[way] = arrival
        self.at(arrival - self.now, self._deliver, message, target)

    def set_network(self, up: bool) -> None:
        """Take the message server away, or bring it back: every process notices."""
        if up != self.network_up:
            self.network_up = up
            self.note(None, "the message server {}", "is back" if up else "is away")
            for process in self.processes:
                if process.up:
                    process.connection(up)

    def _arrives(self, source: Process, target: Process, rng: random.Random) -> bool:
        return self.healed or (self._linked(source, target) and rng.random() >= self.settings.loss)

    def _linked(self, a: Process, b: Process) -> bool:
        return self.network_up and (a.number, b.number) not in self.cut

    def _delay(self, rng: random.Random) -> float:
        slow = not self.healed and rng.random() < 0.1
        return rng.uniform(1, 400) if slow else rng.uniform(0.5, 20)

    def _deliver(self, message: Message, target: Process) -> None:
        if target.up and (self.healed or self._linked(message.source, target)):
            self.messages += 1
            target.take_in(message)

    # -- the end

    def end_faults(self) -> None:
        """Let everything work from now on."""
        self.healed, self.cut = True, WHOLE
        self.note(None, "all faults are over")
        self.set_network(True)
        for process in self.processes:
            process.recover()

    def heal(self) -> bool:
        """End all faults and wait until all logs are alike; tell whether that came to be in time."""
        self.end_faults()
        start = self.now
        while self.now < start + HEAL_MS:
            self.run_until(self.now + 250)
            heads = [process.site.heads() for process in self.processes]
            if all(other == heads[0] for other in heads) and not any(p.busy for p in self.processes):
                return True
        return False
