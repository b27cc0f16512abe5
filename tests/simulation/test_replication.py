"""Replication in a simulated world: 300 histories without a finding, and every planted bug found."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.simulation.bugs import BUGS
from tests.simulation.run import NO_BUG, simulate
from tests.simulation.world import Settings

SEEDS = 300
CHUNK = 50
SEEDS_TO_CATCH = 10
ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_no_history_loses_replaces_or_forgets_anything(first: int) -> None:
    failed = [o for o in map(simulate, range(first, first + CHUNK)) if o.findings]
    assert not failed, "\n".join(f"{o.replay(NO_BUG)}\n    {o.findings[0]}" for o in failed)


@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_is_found(name: str) -> None:
    found = (simulate(seed, bug=BUGS[name]).findings for seed in range(SEEDS_TO_CATCH))
    assert any(found), f'"{name}" was not found in {SEEDS_TO_CATCH} seeds'


@pytest.mark.parametrize(
    ("name", "guarantee"),
    [
        ("gap guessed", "G3"),
        ("no epoch", "G10"),
        ("publish before fsync", "G1"),
        ("caught up on arrival", "G6"),
        ("pulls unanswered", "G3"),
        ("ack before fsync", "G1"),
        ("peer counted twice", "G1"),
        ("wiped peer counted", "G1"),
    ],
)
def test_a_planted_bug_is_found_by_the_check_it_breaks(name: str, guarantee: str) -> None:
    findings = [f for seed in range(SEEDS_TO_CATCH) for f in simulate(seed, bug=BUGS[name]).findings]
    assert any(finding.startswith(f"{guarantee}:") for finding in findings)


def test_events_are_often_known_to_be_durable_on_several_peers_and_often_not() -> None:
    claims = sum((simulate(seed).claims for seed in range(SEEDS_TO_CATCH)), Counter[int]())
    assert min(claims[members] for members in (1, 2, 3)) > 100, claims


def test_without_faults_almost_everything_arrives_live() -> None:
    calm = Settings(peers=3, loss=0.0, duplication=0.0, faults=frozenset(), appends=100, in_order=True)
    outcome = simulate(1, calm)
    assert outcome.findings == []
    assert outcome.events > 100
    assert outcome.pages < outcome.events / 10


def test_a_seed_is_one_history_whatever_the_hash_seed_of_the_process() -> None:
    def output(hash_seed: str) -> str:
        return subprocess.run(
            [sys.executable, "-m", "tests.simulation.run", "--seed", "4"],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.splitlines()[0]

    assert output("1") == output("2")
    assert "messages" in output("1")
