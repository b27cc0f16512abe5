"""Run simulations by hand: `python -m tests.simulation.run --seed 17 [--runs 100] [--bug "no epoch"]`.

One seed is one history; what it finds is printed with the command that replays it.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from dataclasses import dataclass

from mesh.engine_config import EngineConfig
from tests.simulation.bugs import BUGS, Bug
from tests.simulation.checks import Checks
from tests.simulation.faults import Nemesis
from tests.simulation.process import Process
from tests.simulation.site import MemorySite, Site
from tests.simulation.world import Settings, World
from tests.support.sealed import peer

NO_BUG = "none"
LOSSES = (0.05, 0.25, 0.25, 0.6)
SMALL_PAGES = EngineConfig(page_bytes=1_500)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run came to."""

    seed: int
    findings: list[str]
    events: int
    messages: int
    pages: int
    claims: Counter[int]

    def replay(self, bug: str) -> str:
        """Return the command that runs this history again."""
        planted = "" if bug == NO_BUG else f' --bug "{bug}"'
        return f"python -m tests.simulation.run --seed {self.seed}{planted}"


def settings_of(seed: int) -> Settings:
    """Return what happens in a run: size, loss and page size follow from the seed."""
    return Settings(
        peers=2 + seed % 5,
        loss=LOSSES[seed % len(LOSSES)],
        config=SMALL_PAGES if seed % 3 == 0 else EngineConfig(),
    )


def simulate(seed: int, settings: Settings | None = None, bug: Bug | None = None) -> Outcome:
    """Run one history to its end and check it."""
    bug = bug or Bug()
    settings = settings or settings_of(seed)
    checks = Checks()
    world = World(seed, settings, checks)

    def new_process(site: Site) -> Process:
        return bug.process_class(world, site, bug.engine_class)

    world.members = frozenset(peer(n + 1) for n in range(settings.peers))
    for member in sorted(world.members):
        world.add(
            new_process(MemorySite(member, payload_bytes=settings.payload_bytes, log_class=bug.log_class))
        )
    for process in world.processes:
        process.boot()
    Nemesis(world, new_process)
    world.run_until(settings.duration_ms)
    if not world.heal():
        checks.find("G3: the logs are not alike long after all faults ended")
    checks.finally_streams_are_identical(world)
    checks.finally_acknowledged_events_are_everywhere(world)
    converged = world.now
    world.run_until(world.now + 3_500)
    checks.finally_everybody_knows_that_it_caught_up(world, converged)
    pages = sum(process.engine.counters["pages"] for process in world.processes)
    return Outcome(seed, checks.findings, checks.acknowledged_count, world.messages, pages, checks.claims)


def main(arguments: list[str]) -> int:
    """Run seeds, print what they find, return 1 if anything."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.run", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--runs", type=int, default=1, help="how many seeds")
    parser.add_argument("--bug", choices=[NO_BUG, *BUGS], default=NO_BUG, help="a bug to plant")
    options = parser.parse_args(arguments)
    started, failed = time.perf_counter(), 0
    for seed in range(options.seed, options.seed + options.runs):
        outcome = simulate(seed, bug=BUGS.get(options.bug))
        if outcome.findings:
            failed += 1
            print(f"{outcome.replay(options.bug)}")
            for finding in outcome.findings:
                print(f"    {finding}")
        elif options.runs == 1:
            print(f"seed {seed}: {outcome.events} events, {outcome.messages} messages, {outcome.pages} pages")
    print(f"{failed} of {options.runs} failed, {time.perf_counter() - started:.1f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
