"""A machine is copied while its peer runs, so that one stream is written twice: what must hold all the same.

Both copies go on in the epoch that they were in.  Nobody's history may be replaced or mixed, whoever sees the fork
takes nothing further of it, in this life and the next, and everything else converges.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast
from unittest import mock

import pytest

from mesh.effects import Fork
from mesh.ports import Head
from node.sqlite_log import SqliteLog
from proto.streams import StreamId
from tests.simulation.checks import Checks
from tests.simulation.faults import Nemesis
from tests.simulation.process import Process
from tests.simulation.replica_site import ReplicaSite
from tests.simulation.world import Settings, World
from tests.support.sealed import peer

SEEDS = 40
SEEDS_TO_CATCH = 20
SETTINGS = Settings(
    peers=4, loss=0.3, appends=80, duration_ms=12_000, faults=frozenset(("partition", "outage", "crash"))
)


class ForkedProcess(Process):
    """A process that has its log remember forks, as a peer does."""

    site: ReplicaSite

    def boot(self) -> None:
        super().boot()
        self.site.wall_us = lambda: int(self.world.now * 1000)
        self._do(self.engine.quarantined(self.site.replica.log.quarantined))


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
                self.find(f"G10: process {process.number} extended a stream in quarantine")

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
    if not process.up or process.site.replica.log.current is None:
        world.at(300, copy_machine, world, process)
        return
    twin = ForkedProcess(world, process.site.clone(process.site.backup()))
    world.add(twin)
    twin.boot()
    twin.site.replica.log.current = process.site.replica.log.current
    for one in (process, twin):
        one.append()


def simulate(seed: int) -> ForkChecks:
    """Run one history to its end and check it."""
    checks = ForkChecks()
    world = World(seed, SETTINGS, checks)
    world.members = frozenset(peer(n + 1) for n in range(SETTINGS.peers))
    for member in sorted(world.members):
        world.add(ForkedProcess(world, ReplicaSite(member)))
    for process in world.processes:
        process.boot()
    Nemesis(world, lambda site: ForkedProcess(world, site))
    world.at(world.rng.uniform(1_000, 6_000), copy_machine, world, world.processes[0])
    world.run_until(SETTINGS.duration_ms)
    world.healed, world.island = True, frozenset()
    world.set_network(True)
    for process in world.processes:
        if not process.up:
            process.boot()
    for process in world.processes:
        process.append()
    world.run_until(world.now + 20_000)
    checks.finally_all(world)
    return checks


def test_a_fork_replaces_nobodys_history_and_everything_else_converges() -> None:
    runs = [simulate(seed) for seed in range(SEEDS)]
    assert [(seed, run.findings) for seed, run in enumerate(runs) if run.findings] == []
    assert sum(run.forks for run in runs) > SEEDS


def _forgets(self: SqliteLog, *_place: object) -> None:
    """A quarantine that lasts only as long as the process."""


def _takes_more(original: Callable[..., object]) -> Callable[..., object]:
    def extend(self: SqliteLog, *args: object) -> object:
        self.quarantined = {}
        return original(self, *args)

    return extend


@pytest.mark.parametrize(
    ("name", "instead"),
    [("quarantine", _forgets), ("extend", _takes_more(SqliteLog.extend))],
    ids=["a quarantine is forgotten", "a stream in quarantine is extended"],
)
def test_a_planted_bug_is_found(name: str, instead: Callable[..., object]) -> None:
    with mock.patch.object(SqliteLog, name, instead):
        assert any(simulate(seed).findings for seed in range(SEEDS_TO_CATCH))
