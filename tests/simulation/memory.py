"""The second simulation: the whole memory.  Peers with real replicas, agents that store and read, and all faults."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import cast

from mesh.engine_config import EngineConfig
from proto.ids import PeerId
from tests.simulation import memory_bugs
from tests.simulation.clocks import KINDS, WallClock
from tests.simulation.faults import Nemesis
from tests.simulation.memory_bugs import Bug
from tests.simulation.memory_checks import MemoryChecks
from tests.simulation.memory_process import EPOCH_MS, MemoryProcess
from tests.simulation.memory_workload import Workload
from tests.simulation.memory_world import MemorySettings, MemoryWorld
from tests.simulation.outcome import NO_BUG, Outcome, failures_found
from tests.simulation.poison import Poisoner
from tests.simulation.readers import Readership
from tests.simulation.replica_site import SPACE, ReplicaSite
from tests.simulation.retirement import Operators, count_members
from tests.simulation.site import Site
from tests.simulation.trace import Trace
from tests.support.sealed import peer

NAME = "memory"
LOSSES = (0.05, 0.25, 0.25, 0.6)
CONFIGS = (
    EngineConfig(),
    EngineConfig(),
    EngineConfig(page_bytes=4_000),
    EngineConfig(page_bytes=4_000, inbound_pulls=1, serve_bytes_per_s=40_000),
)

SOMETIMES = {
    "answers of 1": 3.0,
    "answers of 2": 2.0,
    "answers of 3": 0.3,
    "beacons that came after their cells": 3.0,
    "beacons that expired": 0.1,
    "cells judged again": 60.0,
    "changes of peer": 6.0,
    "clocks: an hour ahead": 0.02,
    "clocks: an hour behind": 0.02,
    "clocks: drifting": 0.02,
    "clocks: frozen": 0.02,
    "clocks: jumping": 0.02,
    "clones": 0.2,
    "commits of a clone": 1.0,
    "confirmations that come too late": 1.0,
    "conflicting keys": 0.05,
    "consolidations": 0.3,
    "consolidations in parts": 0.05,
    "crashes": 2.0,
    "crashes of all": 0.05,
    "drains through two gateways at once": 0.2,
    "gateway restarts": 0.5,
    "hangs": 0.2,
    "hints dropped by a full queue": 0.3,
    "joins": 0.1,
    "joinings believed": 0.3,
    "joinings not believed": 0.2,
    "late events": 0.3,
    "late links": 0.8,
    "listed": 10.0,
    "listed superseded": 1.5,
    "lost tails": 0.5,
    "marked pages": 4.0,
    "messages dropped by a full queue": 0.5,
    "outages": 0.2,
    "owed": 2.0,
    "pages": 4.0,
    "pages pulled": 4.0,
    "partitions: a bridge": 0.1,
    "partitions: a peer alone": 0.1,
    "partitions: flapping": 0.05,
    "partitions: halves": 0.1,
    "partitions: one way only": 0.1,
    "poison events": 0.5,
    "pulls answered busy": 0.05,
    "pulls timed out": 0.5,
    "renewals": 0.4,
    "repeats after a roll-back": 0.002,
    "repeats beside a clone": 0.001,
    "repeats marked": 1.5,
    "replies lost": 1.0,
    "replies lost unnoticed": 0.15,
    "restores": 0.1,
    "restores that lose a tail": 0.1,
    "retirements": 0.15,
    "retried memories": 0.4,
    "rolling restarts": 0.05,
    "scenes": 0.1,
    "sessions": 0.8,
    "sessions closed": 0.05,
    "sessions closed as idle": 0.02,
    "slow consumers": 0.05,
    "storms of catching up": 0.03,
    "taken back": 0.05,
    "wiped peers": 0.05,
    "withdrawals": 0.4,
}
"""What must really happen, per seed on average; about a third of what does."""


class _StormyNemesis(Nemesis):
    """In a storm it crashes, restores and copies much more often."""

    _world: MemoryWorld

    def __init__(
        self,
        world: MemoryWorld,
        new_process: Callable[[Site], MemoryProcess],
        new_site: Callable[[PeerId], Site],
    ) -> None:
        super().__init__(world, new_process, new_site)
        if world.settings.storm:
            world.at(500, self._storm)

    def _storm(self) -> None:
        if not self._world.healed:
            self._world.rng.choice((self._crash, self._restore, self._restore, self._clone))()
            self._world.at(self._world.rng.uniform(300, 700), self._storm)


def settings_of(seed: int) -> MemorySettings:
    """Return what happens in a run.  Seven worlds of eight are small and short, see `replication.settings_of`."""
    rng = random.Random(f"settings {seed}")
    is_small = seed % 8 != 0
    return MemorySettings(
        peers=rng.choice((2, 3, 3)) if is_small else rng.choice((3, 4, 5, 6)),
        loss=rng.choice(LOSSES),
        duration_ms=6_000 if is_small else 10_000,
        pace=1.5 if is_small else 1.0,
        stores=20 if is_small else 40,
        beacons=7 if is_small else 10,
        sessions=3 if is_small else 5,
        consolidations=6 if is_small else 12,
        poison=2 if is_small else 4,
        reply_loss=0.4 if rng.random() < 0.12 else 0.15,
        clocks=KINDS if rng.random() < 0.5 else ("right",),
        two_spaces=rng.random() < 0.15,
        storm=rng.random() < 0.11,
        retirements=2 if rng.random() < 0.3 else 0,
        gateway_restarts=0.3 if rng.random() < 0.25 else 0.06,
        second_gateway=rng.random() < 0.2,
        config=rng.choice(CONFIGS),
    )


def simulate(
    seed: int, settings: MemorySettings | None = None, bug: str = NO_BUG, trace: Trace | None = None
) -> Outcome:
    """Run one history to its end and check it."""
    with memory_bugs.BUGS[bug].planted() as parts:
        settings = settings or replace(settings_of(seed), **parts.mix)
        checks = MemoryChecks()
        world = MemoryWorld(seed, settings, checks, trace)
        with failures_found(checks):
            readership = _populate(world, parts)
            world.run_until(settings.duration_ms)
            _judge_the_end(world, checks, readership)
    return Outcome(NAME, seed, bug, checks.findings, world.counts)


def _populate(world: MemoryWorld, parts: Bug) -> Readership:
    """Let peers start, and schedule everything that is going to happen to them."""
    settings = world.settings

    def new_process(site: Site) -> MemoryProcess:
        assert isinstance(site, ReplicaSite)
        skew = world.rng.uniform(-settings.skew_ms, settings.skew_ms)
        kind = world.rng.choice(settings.clocks) if world.rng.random() < 0.5 else "right"
        world.counts[f"clocks: {kind}"] += 1
        return parts.process_class(world, site, wall=WallClock.random(world.rng, kind, skew))

    def new_site(member: PeerId) -> Site:
        space = f"{SPACE}-2" if settings.two_spaces and not world.processes else SPACE
        return parts.site_class(member, replica_class=parts.replica_class, space=space)

    world.members = frozenset(peer(n + 1) for n in range(settings.peers))
    for member in sorted(world.members):
        world.add(new_process(new_site(member)))
    for process in world.processes:
        process.boot()
    _StormyNemesis(world, new_process, new_site)
    Workload(world)
    Operators(world)
    Poisoner(world)
    return Readership(world)


def _judge_the_end(world: MemoryWorld, checks: MemoryChecks, readership: Readership) -> None:
    processes = cast("list[MemoryProcess]", world.processes)
    if not world.heal():
        checks.find("G3: the logs are not alike long after all faults ended")
    readership.drain_to_the_end()
    if not world.heal():
        checks.find("G3: the logs are not alike after the last reader was drained")
    checks.finally_all(world)
    count_members(world)
    counts = world.counts
    counts["retried memories"] += sum(len(s.events) > 1 for s in world.history.stored.values())
    counts["messages"] += world.messages
    now_ms = processes[0].wall.at(world.now) + EPOCH_MS
    counts["beacons that expired"] += sum(
        all(beacon.expires_ms(placement) < now_ms for placement in beacon.placements)
        for beacon in processes[0].site.replica.beacons.all()
    )
    for process in processes:
        counts.update(process.site.counts)
        world.tally(process)
