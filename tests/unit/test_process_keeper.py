"""Keeping processes up: back-off, giving up, and children that do not outlive their parent."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from node.child_process import PeerProcess, child_environment
from node.process_keeper import Kept, ProcessKeeper
from node.restart_policy import DEATHS_MAX, DELAY_MAX_S, WINDOW_S, RestartPolicy
from proto.errors import Unavailable
from tests.support.hyphae_command import eventually


class TestThePolicy:
    def test_the_wait_doubles_with_each_death_up_to_giving_up(self) -> None:
        policy = RestartPolicy()
        waits = [policy.died(now) for now in range(DEATHS_MAX)]
        assert waits == [0.2, 0.4, 0.8, 1.6, None]

    def test_deaths_further_apart_than_the_window_do_not_add_up(self) -> None:
        policy = RestartPolicy()
        assert {policy.died(n * (WINDOW_S + 1)) for n in range(50)} == {0.2}

    def test_five_deaths_must_lie_within_the_window(self) -> None:
        policy = RestartPolicy()
        apart = WINDOW_S / (DEATHS_MAX - 1)
        assert None not in [policy.died(n * apart) for n in range(50)]

    def test_no_wait_is_longer_than_the_longest(self) -> None:
        policy = RestartPolicy()
        assert max(w for n in range(4) if (w := policy.died(n)) is not None) <= DELAY_MAX_S


class Fake:
    """A process that is dead or alive as the test says."""

    def __init__(self) -> None:
        self.code: int | None = None
        self.starts = 0
        self.refuses = False
        self.now = 0.0
        self.notes: list[str] = []
        self.keeper = ProcessKeeper(self.notes.append, clock=lambda: self.now)
        self.keeper.add(Kept("peer-1", self.start, lambda: self.code, lambda: "the disk is full"))

    async def start(self) -> None:
        self.starts += 1
        if self.refuses:
            raise Unavailable("no more processes")
        self.code = None

    def tick(self, after: float = 0.0) -> None:
        self.now += after
        asyncio.run(self.keeper.tick())


class TestTheKeeper:
    def test_what_runs_is_left_alone(self) -> None:
        fake = Fake()
        fake.tick()
        assert (fake.starts, fake.notes) == (0, [])

    def test_what_died_is_started_again_when_its_time_has_come(self) -> None:
        fake = Fake()
        fake.code = -9
        fake.tick()
        assert fake.notes == ["peer-1 ended with exit code -9; starting it again in 0.2 s"]
        fake.tick(0.1)
        assert fake.starts == 0
        fake.tick(0.1)
        assert fake.starts == 1

    def test_a_start_that_is_refused_counts_as_a_death(self) -> None:
        fake = Fake()
        fake.code, fake.refuses = 1, True
        fake.tick()
        fake.tick(0.2)
        assert fake.notes[-1] == "peer-1 could not be started (no more processes); starting it again in 0.4 s"

    def test_what_keeps_dying_is_given_up_with_its_last_words(self) -> None:
        fake = Fake()

        def until_given_up() -> None:
            for _ in range(20):
                fake.code = 1
                fake.tick(2.0)

        with pytest.raises(Unavailable) as given_up:
            until_given_up()
        assert given_up.value.message == (
            "peer-1 died 5 times within 60 s, so everything was stopped. Its last words: the disk is full"
        )
        assert fake.starts == 4


PARENT = """
import os, subprocess, sys
read_end, write_end = os.pipe()
child = subprocess.Popen([sys.executable, "-c", sys.argv[1], str(read_end)], pass_fds=[read_end], stdout=1)
sys.stdin.read()
os._exit(0)
"""
STUBBORN_CHILD = """
import os, signal, sys, threading
from node import child_process
child_process.ORPHAN_GRACE_S = 0.2
signal.signal(signal.SIGTERM, lambda *_: print("asked", flush=True))
child_process.end_with_parent(int(sys.argv[1]))
print(os.getpid(), flush=True)
while True:
    threading.Event().wait(1)
"""


class TestChildren:
    def test_a_child_ends_with_its_parent_even_if_it_ignores_the_request(self) -> None:
        parent = subprocess.Popen(
            [sys.executable, "-c", PARENT, STUBBORN_CHILD],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert parent.stdout is not None
        assert int(parent.stdout.readline()) > 0
        parent.kill()
        rest, _ = parent.communicate(timeout=20)  # returns when the child, which holds stdout too, is gone
        assert rest == "asked\n"

    def test_a_child_gets_no_key_and_no_setting_of_a_client(self) -> None:
        given = {"HYPHAE_API_KEY": "k", "HYPHAE_URL": "u", "HYPHAE_MODEL_DIR": "/m", "PATH": "/bin"}
        assert child_environment(given) == {"HYPHAE_MODEL_DIR": "/m", "PATH": "/bin"}

    def test_a_peer_that_cannot_start_says_why_to_its_parent(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("x")
        process = PeerProcess(
            "peer-1", ("node", "--no-nats", "--data-dir", str(tmp_path / "file")), tmp_path / "stderr", None
        )
        process.start()
        eventually(lambda: process.poll() is not None, "the peer has ended")
        error = process.failure()
        process.close()
        assert (error.code, error.message[:8]) == ("invalid", "peer-1: ")
        assert "is a file, not a directory" in error.message
        assert process.last_words().startswith("error: invalid: ")

    def test_a_peer_that_ends_without_a_word_is_reported_with_its_exit_code(self, tmp_path: Path) -> None:
        process = PeerProcess("peer-1", ("--version",), tmp_path / "stderr", None)
        process.arguments = ("node", "--bogus")
        process.start()
        eventually(lambda: process.poll() is not None, "the peer has ended")
        assert "peer-1 ended with exit code 2 before it was ready: error: usage:" in process.failure().message
        process.close()
