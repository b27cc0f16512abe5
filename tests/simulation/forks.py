"""The third simulation: a machine is copied while its peer runs, so that one stream is written twice.

Both copies go on in the epoch that they were in.  Nobody's history may be replaced or mixed, whoever sees the fork
takes nothing further of it, in this life and the next, and everything else converges.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import cast
from unittest import mock

from mesh.effects import Fork
from mesh.engine import Engine
from mesh.ports import Head, Segment
from node.sqlite_log import SqliteLog
from proto.streams import StreamId
from tests.simulation.checks import Checks
from tests.simulation.faults import Nemesis
from tests.simulation.outcome import NO_BUG, Outcome, failures_found
from tests.simulation.process import Process
from tests.simulation.replica_site import ReplicaSite
from tests.simulation.trace import Trace
from tests.simulation.world import ALL_FAULTS, Settings, World
from tests.support.sealed import peer

NAME = "forks"
FAULTS = ALL_FAULTS - {"restore", "wipe", "clone", "join", "retire"}
SOON_MS, SETTLED_MS = 5_000, 20_000  # after the faults, virtual time
SOMETIMES = {
    "crashes": 1.0,
    "commits of a clone": 1.0,
    "forks seen": 1.0,
    "hangs": 0.1,
    "hints dropped by a full queue": 0.02,
    "outages": 0.1,
    "partitions": 1.0,
    "streams in quarantine at a start": 0.3,
}
"""What must really happen, per seed on average; about a third of what does."""


class ForkedProcess(Process):
    """A process that has its log remember forks, as a peer does."""

    site: ReplicaSite

    def boot(self) -> None:
        super().boot()
        self.site.wall_us = lambda: int(self.world.now * 1000)
        apart = self.site.replica.log.quarantined
        self.world.counts["streams in quarantine at a start"] += len(apart)
        self._do(self.engine.quarantined(apart))


class ForkChecks(Checks):
    """What must hold where streams fork."""

    def __init__(self) -> None:
        super().__init__()
        self.forks = 0
        self._frozen: dict[tuple[int, StreamId], Head] = {}

    def anytime_fork(self, process: Process, fork: Fork) -> None:
        """Whoever sees a fork has it remembered; from then on the stream stands still there."""
        self.forks += 1
        site = cast("ReplicaSite", process.site)
        site.replica.quarantine(fork.stream, fork.sequence, fork.other, site.wall_us())
        process._do(process.engine.quarantined(site.replica.log.quarantined))
        self._frozen.setdefault((process.number, fork.stream), site.replica.log.heads()[fork.stream])

    def anytime_durable(self, process: Process) -> None:
        for stream, head in process.site.heads().items():
            if self._frozen.get((process.number, stream), head) != head:
                self.find(f"G10: {process.name} extended a stream in quarantine")

    def finally_all(self, world: World) -> None:
        """Holders of different histories know it, and hold one each; every other stream is the same everywhere."""
        sites = [cast("ReplicaSite", process.site) for process in world.processes]
        forked = {stream for site in sites for stream in site.replica.log.quarantined}
        for site in sites:
            rest = {s: h for s, h in site.heads().items() if s not in forked}
            if rest != {s: h for s, h in sites[0].heads().items() if s not in forked}:
                self.find("G3: what is not forked has not converged")
            for stream in forked & site.heads().keys():
                whole = site.read(stream, 1, 2**30)
                if whole is None or len(whole.events) != site.heads()[stream].sequence:
                    self.find("G10: a stream is made of two histories")
                elif stream not in site.replica.log.quarantined and _differs(site, sites, stream):
                    self.find("G10: who holds another history than others does not know it")


def _differs(one: ReplicaSite, others: list[ReplicaSite], stream: StreamId) -> bool:
    mine = one.read(stream, 1, 2**30)
    for other in others:
        theirs = other.read(stream, 1, 2**30)
        if mine is not None and theirs is not None:
            shared = min(len(mine.events), len(theirs.events))
            if mine.events[:shared] != theirs.events[:shared]:
                return True
    return False


def copy_machine(world: World, process: ForkedProcess) -> None:
    """Run a second process on a copy of the directory and of the memory of a running one."""
    if not process.up or process.hung or process.site.replica.log.current is None:
        world.at(300, copy_machine, world, process)
        return
    twin = ForkedProcess(world, process.site.clone(process.site.backup()))
    twin.is_twin = True
    world.note(process, "is copied while it runs: both write the same stream")
    world.add(twin)
    twin.boot()
    twin.site.replica.log.current = process.site.replica.log.current
    for one in (process, twin):
        one.append()


def settings_of(seed: int) -> Settings:
    """Return what happens in a run: seven worlds of eight are small and short."""
    rng = random.Random(f"settings {seed}")
    is_small = seed % 8 != 0
    return Settings(
        peers=rng.choice((2, 3)) if is_small else 4,
        loss=rng.choice((0.05, 0.3, 0.3, 0.6)),
        appends=30 if is_small else 80,
        duration_ms=6_000 if is_small else 12_000,
        faults=FAULTS,
        pace=1.5 if is_small else 1.0,
    )


def simulate(
    seed: int, settings: Settings | None = None, bug: str = NO_BUG, trace: Trace | None = None
) -> Outcome:
    """Run one history to its end and check it."""
    settings, checks = settings or settings_of(seed), ForkChecks()
    world = World(seed, settings, checks, trace)
    with BUGS[bug].planted(), failures_found(checks):
        world.members = frozenset(peer(n + 1) for n in range(settings.peers))
        for member in sorted(world.members):
            world.add(ForkedProcess(world, ReplicaSite(member)))
        for process in world.processes:
            process.boot()
        Nemesis(world, lambda site: ForkedProcess(world, site))
        copied = world.processes[0]
        world.at(world.rng.uniform(0.1, 0.5) * settings.duration_ms, copy_machine, world, copied)
        world.run_until(settings.duration_ms)
        world.end_faults()
        for process in world.processes:
            process.append()
        _settle(world)
        checks.finally_all(world)
    world.counts["forks seen"] += checks.forks
    return Outcome(NAME, seed, bug, checks.findings, world.counts)


def _settle(world: World) -> None:
    """Let time pass until nothing is wrong any more, or so long that it never will be."""
    end = world.now + SETTLED_MS
    world.run_until(world.now + SOON_MS)
    while world.now < end:
        glance = ForkChecks()
        glance.finally_all(world)
        if not glance.findings:
            return
        world.run_until(world.now + 1_000)


# -- planted bugs


@dataclass(frozen=True, slots=True)
class Bug:
    """Methods of the product that are replaced: (class, name, what stands there instead)."""

    breaks: str = ""
    seeds: int = 20
    patches: Sequence[tuple[type, str, Callable[..., object]]] = ()

    @contextmanager
    def planted(self) -> Iterator[None]:
        """Let the bug be there while the block runs."""
        with ExitStack() as stack:
            for place, name, instead in self.patches:
                stack.enter_context(mock.patch.object(place, name, instead))
            yield


def _forgets(self: SqliteLog, *_place: object) -> None:
    """A quarantine that lasts only as long as the process."""


_extend = SqliteLog.extend


def _takes_more(self: SqliteLog, segment: Segment, now_us: int) -> object:
    """A stream in quarantine is extended like any other."""
    self.quarantined = {}
    return _extend(self, segment, now_us)


def _looks_away(_self: object, *_seen: object) -> list[Fork]:
    """Two histories are taken for one: nobody is told."""
    return []


BUGS: dict[str, Bug] = {
    NO_BUG: Bug(),
    "a quarantine is forgotten": Bug("G10", patches=[(SqliteLog, "quarantine", _forgets)]),
    "a stream in quarantine is extended": Bug("G10", patches=[(SqliteLog, "extend", _takes_more)]),
    "a twin's events are taken silently": Bug("G10", patches=[(Engine, "_forks", _looks_away)]),
}
"""Each planted bug by its name."""
