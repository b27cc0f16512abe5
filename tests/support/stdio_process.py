"""The other end of a stdio server: starts the process, sends lines, collects answers with a deadline."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

FAKE_PEER = Path(__file__).with_name("stdio_fake_peer.py")
ANSWER_S = 20.0
HANDSHAKE = {
    "jsonrpc": "2.0",
    "id": "init",
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25"},
}


class StdioProcess:
    """A running server.  Use as a context manager: the process is gone afterwards.

    Args:
        env: variables beside PATH; nothing else of this process is inherited, as clients do it.
        options: of the interpreter.
        args: the program and its arguments; the fake peer if empty.
    """

    def __init__(
        self, env: dict[str, str], options: tuple[str, ...] = (), args: tuple[str, ...] = ()
    ) -> None:
        self.process = subprocess.Popen(
            [sys.executable, *options, *(args or (str(FAKE_PEER),))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={"PATH": os.environ.get("PATH", ""), **env},
        )
        self.lines: list[bytes] = []
        self.stderr = b""
        self._arrived: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._held: list[dict[str, Any]] = []
        self._threads = [
            threading.Thread(target=self._collect_stdout, daemon=True),
            threading.Thread(target=self._collect_stderr, daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def __enter__(self) -> StdioProcess:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for thread in self._threads:
            thread.join(ANSWER_S)
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert pipe is not None
            with contextlib.suppress(BrokenPipeError):
                pipe.close()

    def send_bytes(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def send(self, message: Any) -> None:
        self.send_bytes(json.dumps(message, ensure_ascii=False).encode() + b"\n")

    def call(self, id: Any, tool: str, **arguments: Any) -> None:
        params = {"name": tool, "arguments": arguments}
        self.send({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})

    def receive(self) -> Any:
        """Return the next answer that nobody has waited for by its id."""
        return self._held.pop(0) if self._held else self._next()

    def answer(self, id: Any) -> dict[str, Any]:
        """Return the answer with this id; others are kept for later."""
        for number, held in enumerate(self._held):
            if held.get("id") == id:
                return self._held.pop(number)
        while True:
            message = self._next()
            if isinstance(message, dict) and message.get("id") == id:
                return message
            self._held.append(message)

    def ping(self) -> None:
        """Return once everything sent before has been taken up and the process still answers."""
        id = f"ping-{time.monotonic_ns()}"
        self.send({"jsonrpc": "2.0", "id": id, "method": "ping"})
        assert self.answer(id)["result"] == {}

    def close_input(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()

    def wait(self, timeout_s: float) -> int:
        """Return the exit status; fail if the process outlives the time."""
        return self.process.wait(timeout_s)

    def unread(self) -> list[Any]:
        """Return everything not yet received, after the process has ended."""
        while (line := self._arrived.get(timeout=ANSWER_S)) is not None:
            self._held.append(json.loads(line))
        return self._held

    def _next(self) -> Any:
        line = self._arrived.get(timeout=ANSWER_S)
        assert line is not None, f"the process ended; stderr: {self.stderr.decode(errors='replace')}"
        return json.loads(line)

    def _collect_stdout(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line)
            self._arrived.put(line)
        self._arrived.put(None)

    def _collect_stderr(self) -> None:
        assert self.process.stderr is not None
        while chunk := os.read(self.process.stderr.fileno(), 4096):
            self.stderr += chunk
