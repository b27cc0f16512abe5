"""The mesh of the story: `hyphae up` as a child process, and everything it needs and leaves on this machine.

All of it lies in one directory of its own, and no setting of the user's reaches it.  Whether something is
left afterwards is found out by looking at processes and files, not by asking the product.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from deploy.demo.checking import StoryFailed, claim
from deploy.demo.processes import is_running, naming

READY_S = 120.0
STOP_S = 20.0
KEPT_VARIABLES = frozenset({"HYPHAE_NATS_SERVER"})
RUN_FILES = ("up.json", "run.json", "*.sock")  # a clean stop removes them


def hyphae_program() -> str:
    """Return the path of the command `hyphae` of this environment.

    Raises:
        StoryFailed: it is not installed.
    """
    beside = Path(sys.executable).with_name("hyphae")
    found = str(beside) if beside.exists() else shutil.which("hyphae")
    if found is None:
        raise StoryFailed("the command `hyphae` is not installed here; run `make setup` first.")
    return found


def environment(root: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of children: no setting and no key of the user's but where NATS lies."""
    kept = {n: v for n, v in environ.items() if not n.startswith("HYPHAE_") or n in KEPT_VARIABLES}
    return {**kept, "HYPHAE_CONFIG_DIR": str(root / "config")}


class MeshUnderTest:
    """Three peers and a nats-server.

    Args:
        root: an empty directory, used for nothing else.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.data = root / "mesh"
        self.environment = environment(root, os.environ)
        self.ready: dict[str, Any] = {}
        self._pids: dict[int, str] = {}
        self._up: subprocess.Popen[bytes] | None = None

    # -- start

    def launch(self, peers: int) -> None:
        """Start `hyphae up`; returns at once.  No interrupt may come between (see `interrupts`)."""
        command = [hyphae_program(), "up", "--peers", str(peers), "--json"]
        with self._complaints.open("ab") as complaints:
            self._up = subprocess.Popen(
                [*command, "--data-dir", str(self.data), "--http-port", "0"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=complaints,
                env=self.environment,
                start_new_session=True,
            )

    def wait_ready(self) -> None:
        """Wait for the line that says that everything is ready, and read it.

        Raises:
            StoryFailed: it did not come, or was something else.
        """
        line = self._first_line()
        try:
            self.ready = json.loads(line)
        except ValueError:
            raise StoryFailed(f"`hyphae up --json` printed no JSON:\n{self._last_words()}") from None
        claim(self.ready.get("ready") is True, f"`hyphae up` is not ready. {self._last_words()}")
        self.look_at_processes()

    def _first_line(self) -> bytes:
        assert self._up is not None
        assert self._up.stdout is not None
        end, received = time.monotonic() + READY_S, b""
        while not received.endswith(b"\n"):
            left = end - time.monotonic()
            if not select.select([self._up.stdout], [], [], max(0.0, left))[0]:
                raise StoryFailed(f"`hyphae up` was not ready within {READY_S:g} s. {self._last_words()}")
            data = os.read(self._up.stdout.fileno(), 65536)
            if not data:
                code = self._up.wait(STOP_S)
                raise StoryFailed(f"`hyphae up` ended with exit code {code}. {self._last_words()}")
            received += data
        return received.partition(b"\n")[0]

    # -- addresses

    @property
    def admin_key(self) -> str:
        """The operator's key."""
        return str(self.ready["admin_key"])

    def url(self, number: int) -> str:
        """Return the HTTP address of peer `number`, counted from 1."""
        return str(self.ready["peers"][number - 1]["rest_url"])

    def nats_address(self) -> str:
        """Return where NATS listens, without credentials."""
        return str(json.loads((self.data / "up.json").read_text())["nats"]["url"])

    def hyphae(self, *arguments: str) -> dict[str, Any]:
        """Run a command of the product on this mesh and return the JSON that it prints.

        Raises:
            StoryFailed: it failed.
        """
        command = [hyphae_program(), *arguments, "--data-dir", str(self.data), "--json"]
        done = subprocess.run(command, env=self.environment, capture_output=True, timeout=60, check=False)
        if done.returncode != 0:
            complaint = done.stderr.decode("utf-8", "replace").strip()
            raise StoryFailed(f"`hyphae {' '.join(arguments)}` ended with {done.returncode}: {complaint}")
        return dict(json.loads(done.stdout))

    # -- processes

    def peer_pid(self, number: int) -> int | None:
        """Return the process id of a peer that is ready, None while it is not."""
        try:
            pid = int(json.loads((self.data / f"peer-{number}" / "run.json").read_text())["pid"])
        except (OSError, ValueError, KeyError):
            return None
        return pid if is_running(pid) else None

    def kill_peer(self, number: int) -> int:
        """End a peer with SIGKILL; return the process id that it had.

        Raises:
            StoryFailed: it does not run.
        """
        pid = self.peer_pid(number)
        if pid is None:
            raise StoryFailed(f"peer-{number} does not run, so it cannot be killed.")
        os.kill(pid, signal.SIGKILL)
        return pid

    def look_at_processes(self) -> Mapping[int, str]:
        """Remember the processes that run now, so that each is looked for in the end; return all so far."""
        if self._up is not None:
            self._pids[self._up.pid] = "hyphae up"
        self._pids.update(naming(str(self.data)))
        return self._pids

    # -- end

    def stop(self) -> float:
        """Ask it to stop and wait for it; return the seconds that it took.

        Raises:
            StoryFailed: it did not stop in time (it is killed then), or ended with an error.
        """
        if self._up is None:
            return 0.0
        began = time.monotonic()
        self.look_at_processes()
        if self._up.poll() is None:
            self._up.terminate()
        try:
            code = self._up.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.kill_everything()
            raise StoryFailed(f"`hyphae up` did not stop within {STOP_S:g} s of SIGTERM.") from None
        finally:
            if self._up.stdout is not None:
                self._up.stdout.close()
        claim(code == 0, f"`hyphae up` ended with exit code {code}. {self._last_words()}")
        return time.monotonic() - began

    def left_behind(self) -> list[str]:
        """Return what a clean stop should not have left: processes, run files and sockets."""
        self._pids.update(naming(str(self.data)))
        running = [f"process {pid} ({what})" for pid, what in self._pids.items() if is_running(pid)]
        files = [str(path) for pattern in RUN_FILES for path in self.data.rglob(pattern)]
        return [*running, *files]

    def kill_everything(self) -> None:
        """End what is still there with SIGKILL: the supervisor first, so that it restarts nothing."""
        if self._up is not None and self._up.poll() is None:
            self._up.kill()
            self._up.wait()
        for pid in naming(str(self.data)):  # not those remembered: their ids may be others' by now
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    @property
    def _complaints(self) -> Path:
        return self.root / "up.stderr"

    def _last_words(self) -> str:
        text = self._complaints.read_text("utf-8", "replace").strip() if self._complaints.exists() else ""
        return f"Its last words:\n{text[-2000:]}" if text else "It said nothing."
