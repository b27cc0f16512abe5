"""What a seed that failed tells people, and that a seed is one history whoever runs it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation import replication
from tests.simulation.catalog import SIMULATIONS
from tests.simulation.trace import Trace

ROOT = Path(__file__).parents[2]


def simulations(*arguments: str, hash_seed: str = "0") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.simulation", *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_seed_that_fails_prints_its_command_and_the_last_steps_of_each_peer() -> None:
    done = simulations("--of", "replication", "--runs", "1", "--bug", "confirmed before fsync")
    assert done.returncode == 1
    assert 'make sim OF=replication SEED=0 RUNS=1 BUG="confirmed before fsync"' in done.stdout
    steps = done.stdout.split("until the first finding:\n")[1].splitlines()
    told = steps[: next(n for n, line in enumerate(steps) if "FOUND: G1" in line) + 1]
    assert "the world          FOUND: G1: peer" in told[-1]
    assert any("peer 1  " in line and "commits" in line for line in told)
    assert any("peer 2  " in line and "confirmation" in line for line in told)


def test_telling_the_steps_changes_nothing() -> None:
    trace = Trace()
    silent, told = replication.simulate(5), replication.simulate(5, trace=trace)
    assert silent == told
    assert any("starts and holds" in line for line in trace.lines()) or len(trace.lines()) > 10


def test_a_trace_keeps_the_last_steps_of_each_peer_and_ends_with_the_first_finding() -> None:
    trace = Trace(steps=2)
    for step in range(5):
        trace.add(step, "peer 1", f"step {step}")
    trace.add(0.5, "peer 2", "one step")
    trace.found("G1: something is wrong")
    trace.add(9.0, "peer 1", "too late to matter")
    assert [line.split("ms  ")[1].split("  ")[-1].strip() for line in trace.lines()] == [
        "step 3",
        "step 4",
        "one step",
        "FOUND: G1: something is wrong",
    ]


@pytest.mark.parametrize("name", SIMULATIONS)
def test_a_seed_is_one_history_whatever_the_hash_seed_of_the_process(name: str) -> None:
    one, other = (simulations("--of", name, "--seed", "4", "--runs", "1", hash_seed=s) for s in "12")
    assert one.returncode == other.returncode == 0
    assert one.stdout == other.stdout
    assert "messages" in one.stdout or name == "forks"


def test_a_long_run_says_how_far_it_came() -> None:
    done = simulations("--of", "replication", "--minutes", "0.01", "--workers", "1")
    assert done.returncode == 0, done.stdout
    assert "0 failed" in done.stdout
    assert "seeds in" in done.stdout
    assert "pages pulled" in done.stdout


def test_a_long_run_in_which_a_seed_fails_says_which_and_returns_1() -> None:
    done = simulations("--of", "replication", "--minutes", "0.01", "--workers", "1", "--bug", "no epoch")
    assert done.returncode == 1
    assert 'FAILED: make sim OF=replication SEED=0 RUNS=1 BUG="no epoch"' in done.stdout
    assert "the last steps of each peer" in done.stderr


def test_a_bug_that_is_not_there_is_an_error_that_names_those_that_are() -> None:
    done = simulations("--bug", "gremlins")
    assert done.returncode == 2
    assert "pulls unanswered" in done.stderr
