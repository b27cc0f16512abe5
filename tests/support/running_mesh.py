"""Real peers for tests: `hyphae node` as a process that can be killed, stopped and started again.

Each lives in a directory of its own, on a free port, and ends with the process that runs the tests, however
that ends.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.support.http_agent import HttpAgent
from tests.support.places import short_directory

STOP_S = 30.0
_names = itertools.count(1)


class RunningPeer:
    """One `hyphae node`.  `start` again after it ended starts it anew on the same data.

    Args:
        root: a short path; the data directory is `root/peer`.
        options: further options of the command; without any it stands alone.
        environment: further variables.
    """

    module = "node"  # whose `node` command it runs

    def __init__(
        self, root: Path, *options: str, environment: Mapping[str, str] | None = None, name: str = "peer"
    ) -> None:
        self.root, self.options, self.name = root, options or ("--no-nats",), name
        self.directory = root / name
        self.log_path = root / f"{name}.log"
        self.environment = dict(environment or {})
        self.ready: dict[str, Any] = {}
        self.process: subprocess.Popen[bytes] | None = None
        self._parent_fd = -1
        self._agents: list[HttpAgent] = []

    # -- life

    def launch(self, *, listening: bool = False) -> subprocess.Popen[bytes]:
        """Start the process and return at once.

        Args:
            listening: its stderr is a pipe, not the log file.
        """
        reading, self._parent_fd = os.pipe()
        environment = {
            **{n: os.environ[n] for n in ("PATH", "PYTHONPATH") if n in os.environ},
            "HOME": str(self.root),
            "HYPHAE_CONFIG_DIR": str(self.root / "config"),
            **self.environment,
        }
        program = [
            sys.executable,
            "-P",
            "-m",
            self.module,
            "node",
            "--json",
            "--data-dir",
            str(self.directory),
        ]
        port = () if "--http-port" in self.options else ("--http-port", "0")
        with self.log_path.open("ab") as log:
            self.process = subprocess.Popen(
                [*program, *port, *self.options, "--parent-fd", str(reading)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE if listening else log,
                env=environment,
                pass_fds=(reading,),
            )
        os.close(reading)
        return self.process

    def start(self) -> RunningPeer:
        """Start the process and return once it is ready."""
        process = self.launch()
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            self.kill()
            raise AssertionError(f"the peer ended: {self.log()[-2000:]}")
        self.ready = json.loads(line)
        return self

    def refusal(self) -> str:
        """Start a process that must not become ready; return what it says, beginning with `error:`."""
        process = self.launch(listening=True)
        assert process.stdout is not None
        line = process.stdout.readline()
        assert not line, f"it became ready: {line!r}"
        said = process.communicate(timeout=STOP_S)[1].decode()
        self._ended()
        assert process.returncode > 0, f"exit code {process.returncode}"
        assert "error: " in said, said
        return said[said.index("error: ") :]

    def send_signal(self, number: int) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def wait(self) -> int:
        """Return the exit code of a process that is ending."""
        assert self.process is not None
        code = self.process.wait(STOP_S)
        self._ended()
        return code

    def stop(self, number: int = signal.SIGTERM) -> int:
        """End it as an operator would; return the exit code."""
        self.send_signal(number)
        return self.wait()

    def kill(self) -> None:
        """End it with SIGKILL, if it runs."""
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait(STOP_S)
        self._ended()

    def _ended(self) -> None:
        for agent in self._agents:
            agent.close()
        self._agents.clear()
        if self.process is not None and self.process.stdout is not None:
            self.process.stdout.close()
        if self._parent_fd >= 0:
            os.close(self._parent_fd)
            self._parent_fd = -1

    # -- what it is and says

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    @property
    def url(self) -> str:
        return str(self.ready["http_url"])

    def log(self) -> str:
        """Return what it has written to stderr in all its lives."""
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    def secret(self, name: str) -> str:
        return (self.directory / "secrets" / f"{name}.key").read_text().strip()

    # -- who speaks to it

    def agent(self, key: str | None = None, headers: Mapping[str, str] | None = None) -> HttpAgent:
        """Return an agent with a key, by default that of the first agent."""
        return self.caller(key or self.secret("agent"), headers)

    def operator(self) -> HttpAgent:
        return self.caller(self.secret("operator"))

    def caller(self, key: str | None, headers: Mapping[str, str] | None = None) -> HttpAgent:
        """Return somebody with this key, or with none."""
        agent = HttpAgent(self.url, key, headers)
        self._agents.append(agent)
        return agent

    def new_agent(self, name: str = "", **rights: Any) -> HttpAgent:
        """Return an agent of its own with a new key."""
        return self.agent(self.issue(name or f"agent-{next(_names)}", **rights)["key"])

    def issue(self, name: str, **rights: Any) -> dict[str, Any]:
        """Return a new key and what it is for."""
        return self.operator()("issue_key", agent=name, **rights)


@contextlib.contextmanager
def running_peer(*options: str, environment: Mapping[str, str] | None = None) -> Iterator[RunningPeer]:
    """Run one peer in a temporary directory for the block."""
    with short_directory() as root:
        peer = RunningPeer(root, *options, environment=environment)
        try:
            yield peer.start()
        finally:
            peer.kill()
