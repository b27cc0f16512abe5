"""Real peers for benchmarks: `hyphae up` as a child process, spoken to over HTTP on kept connections."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

START_S = 60


@dataclass(frozen=True, slots=True)
class Mesh:
    """A running mesh, as `up --json` announces it."""

    directory: Path
    announced: dict[str, Any]

    def agent(self, peer: int, key: str | None = None) -> Agent:
        host = self.announced["peers"][peer]["rest_url"].removeprefix("http://")
        return Agent(http.client.HTTPConnection(host, timeout=120), key or self.announced["agent_key"])

    def operator(self, peer: int) -> Agent:
        return self.agent(peer, self.announced["admin_key"])

    def rss_mb(self, peer: int) -> float:
        run = json.loads((self.directory / f"peer-{peer + 1}" / "run.json").read_text())
        return float(psutil.Process(run["pid"]).memory_info().rss) / 1e6


class Agent:
    """One keep-alive connection with one key."""

    def __init__(self, connection: http.client.HTTPConnection, key: str) -> None:
        self._connection = connection
        self._headers = {"content-type": "application/json", "x-hyphae-key": key}

    def tool(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Call a tool over `POST /mcp`, as an agent does."""
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
        answer = self._send("POST", "/mcp", {**body, "params": {"name": name, "arguments": arguments}})
        result: dict[str, Any] = answer["result"]["structuredContent"]
        return result

    def rest(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        return self._send(method, path, body)

    def _send(self, method: str, path: str, body: dict[str, Any] | None) -> dict[str, Any]:
        payload = None if body is None else json.dumps(body, ensure_ascii=False).encode()
        try:
            self._connection.request(method, path, payload, self._headers)
        except ConnectionError:  # the peer closes connections that were idle for long; nothing was sent
            self._connection.close()
            self._connection.request(method, path, payload, self._headers)
        response = self._connection.getresponse()
        answer: dict[str, Any] = json.loads(response.read() or b"{}")
        if response.status >= 300 or "error" in answer:
            raise RuntimeError(f"{method} {path}: {response.status} {answer}")
        return answer


@contextmanager
def mesh(peers: int = 1, kept: Path | None = None) -> Iterator[Mesh]:
    """Run a mesh for the block, in a temporary directory or in one that is kept."""
    with tempfile.TemporaryDirectory(prefix="hyphae-bench-") as name:
        directory = kept or Path(name)
        program = [str(Path(sys.executable).with_name("hyphae")), "up", "--peers", str(peers), "--json"]
        program += ["--data-dir", str(directory), "--http-port", "5900"]
        environment = {k: v for k, v in os.environ.items() if not k.startswith("HYPHAE_")}
        environment["HYPHAE_CONFIG_DIR"] = str(directory / "config")
        with subprocess.Popen(program, stdout=subprocess.PIPE, text=True, env=environment) as process:
            try:
                assert process.stdout is not None
                announced = json.loads(process.stdout.readline())
                yield Mesh(directory, announced)
            finally:
                process.send_signal(signal.SIGTERM)
                process.wait(START_S)
