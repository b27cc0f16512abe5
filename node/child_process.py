"""Child processes of the program itself: `hyphae node` as started by the supervisor or in the background.

A child says on a pipe that it is ready (its run file as one JSON line), or why it is not; it ends when the
pipe of its parent closes.  Which children there are and when they are started again is `supervisor`'s.
Light to import: the stdio gateway uses it.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from proto.errors import HyphaeError, Unavailable, rebuild

READY_LINE_BYTES = 64 * 1024
LAST_WORDS_BYTES = 4096
ORPHAN_GRACE_S = 5.0
_NOT_INHERITED = ("API_KEY", "API_KEY_FILE", "URL", "NATS_URL", "PROJECT", "DATA_DIR", "PEERS", "NAME")


def hyphae_command(*arguments: str) -> list[str]:
    """Return the command line that runs this program again, unmoved by what the working directory holds."""
    return [sys.executable, "-P", "-m", "node", *arguments]


def child_environment(environ: Mapping[str, str], *, alone: bool = True) -> dict[str, str]:
    """Return the environment for a peer: without keys, and without what is meant for clients or for `up`.

    Args:
        alone: no other peer shares the machine; otherwise the threads of the model do not wait busily.
    """
    out = {n: v for n, v in environ.items() if n not in {f"HYPHAE_{name}" for name in _NOT_INHERITED}}
    return out if alone else {"HYPHAE_EMBED_SPINNING": "false", **out}


class PeerProcess:
    """One `hyphae node` process.  `start` again after it ended starts it anew.

    Args:
        name: for messages, such as "peer-1".
        arguments: what follows `hyphae`.
        stderr: file for what it writes to stderr, emptied at each start.
        parent_fd: read end of a pipe whose closing ends the child; None lets it live on alone.
        alone: see `child_environment`.
    """

    def __init__(
        self, name: str, arguments: Sequence[str], stderr: Path, parent_fd: int | None, *, alone: bool = True
    ) -> None:
        self.name = name
        self.arguments = tuple(arguments)
        self._told: dict[str, Any] = {}
        self._stderr = stderr
        self._parent_fd = parent_fd
        self._alone = alone
        self._process: subprocess.Popen[bytes] | None = None
        self._ready_fd = -1
        self._received = b""

    @property
    def pid(self) -> int:
        """The process id, 0 before the first start."""
        return self._process.pid if self._process is not None else 0

    def start(self) -> None:
        """Start it; returns at once.

        Raises:
            Unavailable: the system refused; nothing runs.
        """
        self._close_ready()
        self._told, self._received = {}, b""
        read_end, write_end = os.pipe()
        extra = [] if self._parent_fd is None else ["--parent-fd", str(self._parent_fd)]
        passed = (write_end,) if self._parent_fd is None else (write_end, self._parent_fd)
        try:
            with self._stderr.open("wb") as stderr:
                self._process = subprocess.Popen(
                    hyphae_command(*self.arguments, "--ready-fd", str(write_end), *extra),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=stderr,
                    pass_fds=passed,
                    env=child_environment(os.environ, alone=self._alone),
                    start_new_session=True,
                )
        except OSError as e:
            os.close(read_end)
            raise Unavailable(f"{self.name} cannot be started: {e.strerror}.") from e
        finally:
            os.close(write_end)
        os.set_blocking(read_end, False)
        self._ready_fd = read_end

    def poll(self) -> int | None:
        """Return the exit code once it has ended, negative for a signal; None while it runs."""
        return None if self._process is None else self._process.poll()

    def failure(self) -> HyphaeError:
        """Return why it ended before it was ready: its own error, else its last words and exit code."""
        self._read_ready()
        error = self._told.get("error")
        if isinstance(error, dict):
            return rebuild(str(error.get("code")), f"{self.name}: {error.get('message')}", True, None)
        code = None if self._process is None else self._process.returncode
        words = self.last_words() or "it said nothing"
        return Unavailable(f"{self.name} ended with exit code {code} before it was ready: {words}")

    def last_words(self) -> str:
        """Return the last line that it wrote to stderr since its start, or an empty text."""
        try:
            with self._stderr.open("rb") as f:
                f.seek(max(0, self._stderr.stat().st_size - LAST_WORDS_BYTES))
                lines = f.read().decode("utf-8", "replace").strip().splitlines()
        except OSError:
            return ""
        return lines[-1].strip() if lines else ""

    def terminate(self) -> None:
        """Ask it to stop (SIGTERM); nothing when it has ended."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it at once (SIGKILL) and collect it; nothing when it has ended."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    def close(self) -> None:
        """Release what this process holds for it.  The child itself is not touched."""
        self._close_ready()

    def _read_ready(self) -> None:
        if self._ready_fd < 0:
            return
        try:
            data = os.read(self._ready_fd, READY_LINE_BYTES)
        except BlockingIOError:
            return
        self._received += data
        if not data:
            self._close_ready()
        line, newline, _ = self._received.partition(b"\n")
        if newline and not self._told:
            self._told = dict(json.loads(line))

    def _close_ready(self) -> None:
        if self._ready_fd >= 0:
            os.close(self._ready_fd)
            self._ready_fd = -1


def tell_parent(ready_fd: int | None, value: Mapping[str, Any]) -> None:
    """In a child: write the one line that the parent waits for, and close the pipe.

    A parent that has gone away is no error: the child may outlive it.
    """
    if ready_fd is None:
        return
    try:
        os.write(ready_fd, json.dumps(value, ensure_ascii=False).encode() + b"\n")
        os.close(ready_fd)
    except OSError:
        return


def end_with_parent(parent_fd: int) -> None:
    """In a child: stop this process when the other end of the pipe closes, however the parent ended.

    First as by SIGTERM, and if that did not do within `ORPHAN_GRACE_S`, at once.
    """

    def watch() -> None:
        while os.read(parent_fd, 1):
            pass
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(ORPHAN_GRACE_S)
        os._exit(1)

    threading.Thread(target=watch, name="parent-watch", daemon=True).start()
