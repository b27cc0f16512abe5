"""Histories without a finding, in which everything that can go wrong went wrong; and every planted bug is found."""

from __future__ import annotations

import multiprocessing
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass, replace

import pytest

from tests.simulation import forks, memory, replication, report
from tests.simulation.catalog import SIMULATIONS, run
from tests.simulation.outcome import NO_BUG, Outcome, missing
from tests.simulation.world import Settings

SEEDS = {replication.NAME: 400, memory.NAME: 160, forks.NAME: 80}
CHUNK = 40
TAME_SEEDS = 40
LISTED_PER_UNMARKED_REPEAT = 1_000  # the simple mark: 1 in 36,563 was seen in the reference model
CHUNKS = [(name, first) for name, seeds in SEEDS.items() for first in range(0, seeds, CHUNK)]
PLANTED = [
    (name, bug) for name, simulation in SIMULATIONS.items() for bug in simulation.bugs if bug != NO_BUG
]


@dataclass
class Runs:
    """Everything that runs in two processes while the tests wait for their parts."""

    seeds: dict[tuple[str, int], Future[list[Outcome]]]
    bugs: dict[tuple[str, str], Future[list[Outcome]]]

    def of(self, name: str) -> list[Outcome]:
        """Return the outcomes of all seeds of a simulation."""
        return [outcome for chunk in CHUNKS if chunk[0] == name for outcome in self.seeds[chunk].result()]


@pytest.fixture(scope="module")
def runs() -> Iterator[Runs]:
    pool = ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn"))
    seeds = {(name, first): pool.submit(run, name, first, CHUNK, NO_BUG) for name, first in CHUNKS}
    bugs = {(name, bug): pool.submit(run, name, 0, *_budget(name, bug)) for name, bug in PLANTED}
    yield Runs(seeds, bugs)
    pool.shutdown(cancel_futures=True)


def _budget(name: str, bug: str) -> tuple[int, str, str]:
    planted = SIMULATIONS[name].bugs[bug]
    return planted.seeds, bug, planted.breaks


@pytest.mark.parametrize(("name", "first"), CHUNKS)
def test_no_history_breaks_a_promise(runs: Runs, name: str, first: int) -> None:
    failed = [outcome for outcome in runs.seeds[name, first].result() if outcome.findings]
    assert not failed, "\n".join(line for outcome in failed[:3] for line in report.failure(outcome))


@pytest.mark.parametrize("name", SIMULATIONS)
def test_everything_that_can_go_wrong_went_wrong(runs: Runs, name: str) -> None:
    counts = report.total(runs.of(name))
    assert missing(SIMULATIONS[name].sometimes, counts, SEEDS[name]) == []


@pytest.mark.parametrize(("name", "bug"), PLANTED)
def test_a_planted_bug_is_found_by_the_check_it_breaks(runs: Runs, name: str, bug: str) -> None:
    seeds, _, breaks = _budget(name, bug)
    found = {
        finding.split(":")[0] for outcome in runs.bugs[name, bug].result() for finding in outcome.findings
    }
    assert breaks in found, f'"{bug}" in {seeds} seeds: only {sorted(found)}'


def test_a_repeat_without_its_mark_is_rare(runs: Runs) -> None:
    counts = report.total(runs.of(memory.NAME))
    assert counts["repeats unmarked"] * LISTED_PER_UNMARKED_REPEAT <= counts["listed"]


def _tame(settings: Settings) -> Settings:
    """Return a world in which nothing goes wrong."""
    return replace(
        settings, loss=0.0, duplication=0.0, drift=0.0, faults=frozenset(), tails=False, in_order=True
    )


def test_a_tame_mix_of_replication_would_be_noticed() -> None:
    outcomes = [
        replication.simulate(seed, _tame(replication.settings_of(seed))) for seed in range(TAME_SEEDS)
    ]
    assert [outcome.findings for outcome in outcomes if outcome.findings] == []
    lacking = set(missing(replication.SOMETIMES, report.total(outcomes), TAME_SEEDS))
    assert {
        "crashes",
        "clones",
        "hangs",
        "joins",
        "lost tails",
        "partitions: a bridge",
        "pulls timed out",
        "restores that lose a tail",
        "retirements",
    } <= lacking


def test_a_tame_mix_of_the_memory_would_be_noticed() -> None:
    tame = replace(
        memory.settings_of(1),
        loss=0.0,
        duplication=0.0,
        drift=0.0,
        reply_loss=0.0,
        request_loss=0.0,
        gateway_restarts=0.0,
        faults=frozenset(),
        tails=False,
        clocks=("right",),
        storm=False,
        poison=0,
        retirements=0,
        second_gateway=False,
    )
    outcomes = [memory.simulate(seed, tame) for seed in range(4)]
    assert [outcome.findings for outcome in outcomes if outcome.findings] == []
    lacking = set(missing(memory.SOMETIMES, report.total(outcomes), TAME_SEEDS))
    assert {"crashes", "clones", "late events", "lost tails", "poison events", "replies lost"} <= lacking


def test_without_faults_almost_everything_arrives_live() -> None:
    outcome = replication.simulate(1, _tame(Settings(peers=3, appends=100)))
    assert outcome.findings == []
    assert outcome.counts["events acknowledged"] > 100
    assert outcome.counts["pages pulled"] < outcome.counts["events acknowledged"] / 10


def test_events_are_often_known_to_be_durable_on_several_peers_and_often_not(runs: Runs) -> None:
    counts: Counter[str] = report.total(runs.of(replication.NAME))
    assert min(counts[f"claims of {members}"] for members in (1, 2, 3)) > SEEDS[replication.NAME], counts
