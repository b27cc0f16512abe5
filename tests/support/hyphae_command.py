"""The command line as a user runs it: real processes with a home of their own, none of which outlives a test."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

START_S = 90.0


@dataclass
class Home:
    """One user's machine: a home, a configuration and a data directory below `root`.

    Args:
        root: a short path, because sockets lie below it.
        extra: further variables.
    """

    root: Path
    extra: dict[str, str] = field(default_factory=dict)

    @property
    def data(self) -> Path:
        return self.root / "data"

    @property
    def config(self) -> Path:
        return self.root / "config"

    def environment(self) -> dict[str, str]:
        """Return the variables of every process of this user."""
        return {
            "PATH": os.environ.get("PATH", ""),
            "HOME": str(self.root),
            "HYPHAE_CONFIG_DIR": str(self.config),
            "HYPHAE_DATA_DIR": str(self.data),
            **self.extra,
        }

    def start(self, *arguments: str, **popen: Any) -> subprocess.Popen[str]:
        """Start a command and return its process."""
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "node", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self.environment(),
            **popen,
        )

    def run(self, *arguments: str, code: int = 0) -> str:
        """Run a command to its end and return its stdout; fail unless it exits with `code`."""
        process = self.start(*arguments)
        out, err = process.communicate(timeout=START_S)
        assert process.returncode == code, f"{arguments} exited with {process.returncode}: {err or out}"
        return out if code == 0 else err

    def json(self, *arguments: str) -> Any:
        """Run a command with --json and return its result."""
        return json.loads(self.run(*arguments, "--json"))

    def down(self) -> None:
        """Stop everything, whatever state it is in."""
        with contextlib.suppress(AssertionError, subprocess.TimeoutExpired):
            self.run("down")
        for process in self.processes():
            with contextlib.suppress(psutil.Error):
                process.kill()

    def processes(self) -> list[psutil.Process]:
        """Return all living processes that work in the data directory, by their command lines."""
        mine = str(self.data)
        found = []
        for process in psutil.process_iter(["cmdline", "status"]):
            line = process.info["cmdline"] or []
            if any(mine in part for part in line) and process.info["status"] != psutil.STATUS_ZOMBIE:
                found.append(process)
        return found


class Up:
    """A running `hyphae up --json` in the foreground."""

    def __init__(self, home: Home, *arguments: str) -> None:
        self.home = home
        self.arguments = arguments
        self.process = home.start("up", "--json", "--http-port", "0", *arguments)
        self.ready: dict[str, Any] = {}

    def wait_ready(self) -> dict[str, Any]:
        """Return what it printed when ready."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            assert self.process.stderr is not None
            raise AssertionError(f"up ended: {self.process.stderr.read()}")
        self.ready = json.loads(line)
        return self.ready

    def stop(self, number: int = signal.SIGTERM) -> tuple[int, str, str]:
        """Stop it as a user would; return exit code, further output, stderr."""
        self.process.send_signal(number)
        return self.ended()

    def ended(self) -> tuple[int, str, str]:
        """Wait for its end; return exit code, further output, stderr."""
        out, err = self.process.communicate(timeout=START_S)
        return self.process.returncode, out, err


@contextlib.contextmanager
def running_up(home: Home, *arguments: str) -> Iterator[Up]:
    """Yield a mesh that is ready; nothing of it is left afterwards."""
    up = Up(home, *arguments)
    try:
        up.wait_ready()
        yield up
    finally:
        if up.process.poll() is None:
            up.process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                up.process.communicate(timeout=20)
            up.process.kill()
        up.process.communicate()
        home.down()


def eventually(condition: Callable[[], bool], what: str, timeout_s: float = 30.0) -> None:
    """Return when the condition holds; fail the test, saying what did not come true, after the deadline."""
    until = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > until:
            raise AssertionError(f"within {timeout_s} s it did not come true that {what}")
        time.sleep(0.02)


def secrets_in(record: Mapping[str, Any]) -> list[str]:
    """Return the secrets that `up --json` prints."""
    password = record["nats_url"].partition("://")[2].rpartition("@")[0].partition(":")[2]
    return [password, record["admin_key"], record["agent_key"]]
