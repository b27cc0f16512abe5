"""Long runs: all simulations side by side on all cores, for a time, each seed the history that it always is."""

from __future__ import annotations

import gc
import multiprocessing
import os
import sys
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field

from tests.simulation import report
from tests.simulation.catalog import SIMULATIONS
from tests.simulation.outcome import NO_BUG, Outcome, missing

REPORTED_S = 15.0
TOLD = 3  # failing seeds whose steps are told; of further ones only the command


@dataclass(frozen=True, slots=True)
class Part:
    """What a worker did: some seeds of one simulation.

    Args:
        cpu_s: processor time that it took.
    """

    name: str
    seeds: int
    cpu_s: float
    counts: Counter[str]
    failed: Sequence[Outcome]


@dataclass(slots=True)
class Tally:
    """What one simulation has come to so far.

    Args:
        begun_s: processor time of the parts that are under way, as earlier ones lead to expect.
    """

    next_seed: int
    seeds: int = 0
    cpu_s: float = 0.0
    begun_s: float = 0.0
    counts: Counter[str] = field(default_factory=Counter)
    failed: list[Outcome] = field(default_factory=list)


def work(name: str, first: int, count: int, bug: str) -> Part:
    """Run seeds in a worker."""
    gc.set_threshold(
        100_000, 50, 50
    )  # worlds are dropped as a whole: looking for cycles all the time is a tenth
    started = time.process_time()
    counts: Counter[str] = Counter()
    failed: list[Outcome] = []
    for seed in range(first, first + count):
        outcome = SIMULATIONS[name].simulate(seed, bug=bug)
        counts.update(outcome.counts)
        if outcome.findings:
            failed.append(outcome)
    return Part(name, count, time.process_time() - started, counts, failed)


class LongRun:
    """Gives seeds to workers until the time is up.

    Args:
        names: of the simulations.
        first: the first seed of each.
        workers: processes; one per core unless given.
        bug: planted, to see that it is found.
    """

    def __init__(
        self, names: Sequence[str], first: int, workers: int | None = None, bug: str = NO_BUG
    ) -> None:
        self._bug = bug
        self.tallies = {name: Tally(first) for name in names}
        self._workers = workers or os.cpu_count() or 1
        self._told = 0

    def run(self, seconds: float) -> int:
        """Run, tell of progress and failures on stderr, print the tables; return 1 if anything is wrong."""
        started = reported = time.monotonic()
        under_way: dict[Future[Part], float] = {}
        with ProcessPoolExecutor(self._workers, mp_context=multiprocessing.get_context("spawn")) as pool:
            while under_way or time.monotonic() < started + seconds:
                while len(under_way) <= self._workers and time.monotonic() < started + seconds:
                    future, expected = self._begin(pool)
                    under_way[future] = expected
                done, _ = wait(under_way, timeout=1.0, return_when=FIRST_COMPLETED)
                for future in done:
                    self._take(future.result(), under_way.pop(future))
                if time.monotonic() > reported + REPORTED_S:
                    reported = time.monotonic()
                    self._say(self._progress(reported - started, seconds))
        return self._conclude(time.monotonic() - started)

    def _begin(self, pool: ProcessPoolExecutor) -> tuple[Future[Part], float]:
        """Begin a part of the simulation that is furthest behind its share of the time."""
        name = min(self.tallies, key=lambda n: self._time_of(n) / SIMULATIONS[n].share)
        tally, chunk = self.tallies[name], SIMULATIONS[name].chunk
        expected = chunk * tally.cpu_s / tally.seeds if tally.seeds else 1.0
        tally.begun_s += expected
        future = pool.submit(work, name, tally.next_seed, chunk, self._bug)
        tally.next_seed += chunk
        return future, expected

    def _time_of(self, name: str) -> float:
        return self.tallies[name].cpu_s + self.tallies[name].begun_s

    def _take(self, part: Part, expected: float) -> None:
        tally = self.tallies[part.name]
        tally.begun_s -= expected
        tally.seeds += part.seeds
        tally.cpu_s += part.cpu_s
        tally.counts.update(part.counts)
        tally.failed += part.failed
        for outcome in part.failed:
            self._told += 1
            lines = report.failure(outcome) if self._told <= TOLD else iter((outcome.replay(),))
            self._say(*lines)

    def _progress(self, passed: float, seconds: float) -> str:
        seeds = ", ".join(f"{name} {tally.seeds:,}" for name, tally in self.tallies.items())
        failed = sum(len(tally.failed) for tally in self.tallies.values())
        return f"{passed:6.0f} of {seconds:.0f} s, {self._workers} workers. Seeds: {seeds}. Failed: {failed}."

    def _conclude(self, passed: float) -> int:
        is_wrong = False
        for name, tally in self.tallies.items():
            print("\n".join(report.situations(name, tally.counts, tally.seeds)))
            lacking = missing(SIMULATIONS[name].sometimes, tally.counts, tally.seeds)
            if lacking:
                print(f"    TOO RARE: {', '.join(lacking)}")
            is_wrong |= bool(lacking or tally.failed)
        for tally in self.tallies.values():
            for outcome in tally.failed:
                print(f"FAILED: {outcome.replay()}\n    {outcome.findings[0]}")
        for name, tally in self.tallies.items():
            last = tally.next_seed - 1
            rate = tally.seeds / max(tally.cpu_s, 1e-9)
            print(
                f"{name}: {tally.seeds:,} seeds, up to {last:,}, {len(tally.failed)} failed,"
                f" {rate:.1f} seeds/s of processor time"
            )
        seeds = sum(tally.seeds for tally in self.tallies.values())
        print(f"{seeds:,} seeds in {passed:.0f} s on {self._workers} workers")
        return 1 if is_wrong else 0

    @staticmethod
    def _say(*lines: str) -> None:
        print("\n".join(lines), file=sys.stderr, flush=True)
