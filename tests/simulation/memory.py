"""Run simulations of the whole memory: `python -m tests.simulation.memory --seed 17 [--runs 100] [--bug "no epoch"]`.

One seed is one history of peers, agents and faults; what it finds is printed with the command that replays it.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import cast

from mesh.engine_config import EngineConfig
from tests.simulation.faults import Nemesis
from tests.simulation.memory_bugs import BUGS, NO_BUG, Bug
from tests.simulation.memory_checks import MemoryChecks
from tests.simulation.memory_process import MemoryProcess
from tests.simulation.memory_workload import Workload
from tests.simulation.memory_world import MemorySettings, MemoryWorld
from tests.simulation.readers import Readership
from tests.simulation.replica_site import SPACE, ReplicaSite
from tests.simulation.retirement import Operators, count_late
from tests.simulation.site import Site
from tests.support.sealed import peer

LOSSES = (0.05, 0.25, 0.25, 0.6)
SMALL_PAGES = EngineConfig(page_bytes=4_000)
HOUR_MS = 3_600_000.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run came to."""

    seed: int
    bug: str
    findings: list[str]
    counts: Counter[str] = field(default_factory=Counter)

    def replay(self) -> str:
        """Return the command that runs this history again."""
        planted = "" if self.bug == NO_BUG else f' --bug "{self.bug}"'
        return f"python -m tests.simulation.memory --seed {self.seed}{planted}"


class _CountingNemesis(Nemesis):
    """Counts what it does; in a storm it crashes, restores and copies much more often, and when it hurts."""

    _world: MemoryWorld

    def __init__(self, world: MemoryWorld, new_process: Callable[..., MemoryProcess]) -> None:
        super().__init__(world, new_process)
        if world.settings.storm:
            world.at(500, self._storm)
        if world.settings.tails:
            world.at(250, self._crash_before_commit)

    def _partition(self) -> None:
        self._world.history.counts["partitions"] += 1
        super()._partition()

    def _outage(self) -> None:
        self._world.history.counts["outages"] += 1
        super()._outage()

    def _storm(self) -> None:
        rng = self._world.rng
        rng.choice((self._crash, self._restore, self._restore, self._clone))()
        if self._world.now < self._world.settings.duration_ms:
            self._world.at(rng.uniform(300, 700), self._storm)

    def _crash_before_commit(self) -> None:
        """Crash a process that has staged events and not yet made them durable."""
        rng = self._world.rng
        staging = [process for process in self._world.peers() if process.site.has_drafts]
        if staging and rng.random() < 0.04:
            process = rng.choice(staging)
            process.crash()
            self._world.at(rng.uniform(100, 1_500), self._boot, process)
        if self._world.now < self._world.settings.duration_ms:
            self._world.at(rng.uniform(100, 300), self._crash_before_commit)


def settings_of(seed: int) -> MemorySettings:
    """Return what happens in a run: size, loss, page size and clocks follow from the seed."""
    return MemorySettings(
        peers=2 + seed % 5,
        loss=LOSSES[seed % len(LOSSES)],
        reply_loss=0.4 if seed % 8 == 3 else 0.15,
        fast_clock=seed % 6 == 1,
        two_spaces=seed % 7 == 2,
        storm=seed % 9 == 4,
        retirements=2 if seed % 10 in (3, 6, 9) else 0,
        gateway_restarts=0.3 if seed % 4 == 2 else 0.06,
        config=SMALL_PAGES if seed % 3 == 0 else EngineConfig(),
    )


def simulate(seed: int, settings: MemorySettings | None = None, bug: str = NO_BUG) -> Outcome:
    """Run one history to its end and check it."""
    with BUGS[bug].planted() as parts:
        return _simulate(seed, settings or replace(settings_of(seed), **parts.mix), bug, parts)


def _simulate(seed: int, settings: MemorySettings, name: str, parts: Bug) -> Outcome:
    checks = MemoryChecks()
    world = MemoryWorld(seed, settings, checks)

    def new_process(site: Site) -> MemoryProcess:
        assert isinstance(site, ReplicaSite)
        skew = world.rng.uniform(-settings.skew_ms, settings.skew_ms)
        if settings.fast_clock and not world.processes:
            skew += HOUR_MS
        if len(world.processes) >= settings.peers:
            world.history.counts["clones"] += 1
        return parts.process_class(world, site, skew_ms=skew)

    world.members = frozenset(peer(n + 1) for n in range(settings.peers))
    for member in sorted(world.members):
        space = f"{SPACE}-2" if settings.two_spaces and not world.processes else SPACE
        world.add(new_process(parts.site_class(member, replica_class=parts.replica_class, space=space)))
    for process in world.processes:
        process.boot()
    _CountingNemesis(world, new_process)
    Workload(world)
    Operators(world)
    readership = Readership(world)
    world.run_until(settings.duration_ms)
    if not world.heal():
        checks.find("G3: the logs are not alike long after all faults ended")
    readership.drain_to_the_end()
    if not world.heal():
        checks.find("G3: the logs are not alike after the last reader was drained")
    checks.finally_all(world)
    counts = world.history.counts
    counts["retried memories"] += sum(len(s.events) > 1 for s in world.history.stored.values())
    count_late(world)
    for process in cast("list[MemoryProcess]", world.processes):
        counts.update(process.site.counts)
        counts["range pulls"] += process.engine.counters["pages"]
    return Outcome(seed, name, checks.findings, counts)


def run(first: int, count: int, bug: str = NO_BUG, until: str | None = None) -> list[Outcome]:
    """Run seeds one after the other.

    Args:
        until: stop once a finding begins with this guarantee, such as "G5".
    """
    outcomes: list[Outcome] = []
    for seed in range(first, first + count):
        outcomes.append(simulate(seed, bug=bug))
        if until is not None and any(f.startswith(f"{until}:") for f in outcomes[-1].findings):
            break
    return outcomes


SOMETIMES = {
    "cells judged again": 200.0,
    "changes of peer": 15.0,
    "clones": 0.3,
    "conflicting keys": 0.1,
    "consolidations": 1.0,
    "consolidations in parts": 0.3,
    "crashes": 2.0,
    "gateway restarts": 1.0,
    "late events": 0.3,
    "late links": 1.0,
    "listed": 30.0,
    "listed superseded": 5.0,
    "lost tails": 0.5,
    "marked pages": 10.0,
    "outages": 0.4,
    "owed": 7.0,
    "pages": 10.0,
    "partitions": 1.5,
    "range pulls": 5.0,
    "renewals": 1.0,
    "repeats after a roll-back": 0.01,
    "repeats beside a clone": 0.01,
    "repeats marked": 5.0,
    "replies lost": 3.0,
    "replies lost unnoticed": 0.4,
    "restores": 0.3,
    "retried memories": 1.0,
    "scenes": 0.7,
    "retirements": 0.15,
    "sessions": 2.0,
    "taken back": 0.03,
    "sessions closed": 0.2,
    "sessions closed as idle": 0.1,
    "withdrawals": 1.0,
}
"""What must really happen, per seed on average; about a third of what does."""


def missing(counts: Counter[str], seeds: int) -> list[str]:
    """Return what happened too rarely over so many seeds for a run without findings to mean anything."""
    return [name for name, least in SOMETIMES.items() if counts[name] < least * seeds]


def main(arguments: list[str]) -> int:
    """Run seeds, print what they find, return 1 if anything."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.memory", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--runs", type=int, default=1, help="how many seeds")
    parser.add_argument("--bug", choices=list(BUGS), default=NO_BUG, help="a bug to plant")
    options = parser.parse_args(arguments)
    started, failed, counts = time.perf_counter(), 0, Counter[str]()
    for seed in range(options.seed, options.seed + options.runs):
        (outcome,) = run(seed, 1, options.bug)
        counts.update(outcome.counts)
        if outcome.findings:
            failed += 1
            print(outcome.replay())
            for finding in outcome.findings:
                print(f"    {finding}")
    print(", ".join(f"{name} {count}" for name, count in sorted(counts.items())))
    print(f"{failed} of {options.runs} failed, {time.perf_counter() - started:.1f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
