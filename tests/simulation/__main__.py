"""Run simulations: `make sim MINUTES=10`, `make sim OF=memory SEED=17 RUNS=1`, `make sim OF=memory BUG="no epoch"`.

One seed is one history.  What a seed finds is printed with the command that replays it and its last steps.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time

import structlog

from tests.simulation import report
from tests.simulation.catalog import SIMULATIONS
from tests.simulation.long_run import LongRun
from tests.simulation.outcome import NO_BUG, Outcome

EVERYTHING = "all"


def main(arguments: list[str]) -> int:
    """Run seeds, print what they find; return 1 if anything, 2 for an unknown name."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument(
        "--of", choices=(EVERYTHING, *SIMULATIONS), default=EVERYTHING, help="which simulation"
    )
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--runs", type=int, default=100, help="how many seeds of each simulation")
    parser.add_argument("--minutes", type=float, help="run on all cores for so long, instead of --runs")
    parser.add_argument("--workers", type=int, help="processes of a long run; one per core unless given")
    parser.add_argument("--bug", default=NO_BUG, help="a bug to plant")
    options = parser.parse_args(arguments)
    names = list(SIMULATIONS) if options.of == EVERYTHING else [options.of]
    names = [name for name in names if options.bug in SIMULATIONS[name].bugs]
    if not names:
        known = "\n".join(f"  {name}: {', '.join(SIMULATIONS[name].bugs)}" for name in SIMULATIONS)
        print(f'no simulation has a bug named "{options.bug}". There are:\n{known}', file=sys.stderr)
        return 2
    if options.minutes is not None:
        return LongRun(names, options.seed, options.workers, options.bug).run(options.minutes * 60)
    return max(_run(name, range(options.seed, options.seed + options.runs), options.bug) for name in names)


def _run(name: str, seeds: range, bug: str) -> int:
    started, outcomes = time.perf_counter(), list[Outcome]()
    for seed in seeds:
        outcomes.append(SIMULATIONS[name].simulate(seed, bug=bug))
        if outcomes[-1].findings:
            print("\n".join(report.failure(outcomes[-1])), flush=True)
    print("\n".join(report.situations(name, report.total(outcomes), len(outcomes))))
    failed = sum(bool(outcome.findings) for outcome in outcomes)
    print(f"{name}: {failed} of {len(outcomes)} failed", flush=True)
    print(f"{time.perf_counter() - started:.1f} s", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    sys.exit(main(sys.argv[1:]))
