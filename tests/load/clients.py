"""Agents of the load: one JSON-RPC call at a time over HTTP or over a real stdio gateway.

The duty: bytes, and telling success, declared overload and everything else apart.  What is called, how often
and what must come of it is `workload`'s.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from mesh.http_connection import ConnectionLost, HttpConnection, parse_target

ANSWER_S = 60.0
BYTES_MAX = 4 * 1024 * 1024
VERSION = "2025-11-25"
HANDSHAKE = {"protocolVersion": VERSION, "capabilities": {}, "clientInfo": {"name": "load", "version": "1"}}


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a call ended.

    Args:
        result: of JSON-RPC, for a tool its structured content; None for a failure.
        failure: empty, "overloaded", or what else went wrong.
    """

    result: dict[str, Any] | None
    failure: str = ""


class Client(Protocol):
    """One agent's way to the peer."""

    async def call(self, method: str, params: Mapping[str, Any]) -> Outcome:
        """Make one call; never raises for what the other side does."""
        ...

    async def close(self) -> None:
        """Hang up."""
        ...


class HttpClient:
    """`POST /mcp` on a kept connection.

    Args:
        url: of the peer.
        key: of the agent.
    """

    def __init__(self, url: str, key: str) -> None:
        self._given = url, key
        self._target = parse_target(url)
        self._headers = [
            ("Content-Type", "application/json"),
            ("Accept", "application/json, text/event-stream"),
            ("MCP-Protocol-Version", VERSION),
            ("X-Hyphae-Key", key),
        ]
        self._connection: HttpConnection | None = None
        self._ids = itertools.count()

    async def call(self, method: str, params: Mapping[str, Any]) -> Outcome:
        body = json.dumps({"jsonrpc": "2.0", "id": next(self._ids), "method": method, "params": params})
        try:
            if self._connection is None or not self._connection.usable:
                self._connection = await HttpConnection.open(self._target)
            async with asyncio.timeout(ANSWER_S):
                answer = await self._connection.post("/mcp", self._headers, body.encode(), BYTES_MAX)
        except (OSError, ConnectionLost, TimeoutError) as error:
            await self.close()
            return Outcome(None, f"{type(error).__name__}: {error}")
        if answer.status in {429, 503} and b'"overloaded"' in answer.body:
            return Outcome(None, "overloaded")
        if answer.status != 200:
            return Outcome(None, f"status {answer.status}: {answer.body[:200]!r}")
        return outcome(json.loads(answer.body))

    def another(self) -> HttpClient:
        """Return another connection of the same agent."""
        return HttpClient(*self._given)

    async def close(self) -> None:
        if self._connection is not None:
            self._connection.abort()
            self._connection = None


class StdioClient:
    """A real `hyphae mcp serve` process.  Made by `start`."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self._ids = itertools.count()
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._reading = asyncio.create_task(self._read())

    @classmethod
    async def start(cls, data_dir: Path, config: Path, key: str) -> StdioClient:
        """Start a gateway to the peer of a directory, and shake hands."""
        config.mkdir(parents=True)
        environment = {
            "HOME": str(config),
            "HYPHAE_CONFIG_DIR": str(config),
            "HYPHAE_DATA_DIR": str(data_dir),
            "HYPHAE_API_KEY": key,
        }
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "node", "mcp", "serve"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env=environment,
            limit=BYTES_MAX,
        )
        client = cls(process)
        begun = await client.call("initialize", HANDSHAKE)
        assert begun.result is not None, begun.failure
        client._send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return client

    async def call(self, method: str, params: Mapping[str, Any]) -> Outcome:
        id = next(self._ids)
        waiting = self._waiting[id] = asyncio.get_running_loop().create_future()
        self._send({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
        try:
            async with asyncio.timeout(ANSWER_S):
                return outcome(await waiting)
        except (TimeoutError, EOFError) as error:
            return Outcome(None, f"{type(error).__name__}: {error}")
        finally:
            self._waiting.pop(id, None)

    async def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            await asyncio.wait_for(self.process.wait(), 5)
        except TimeoutError:
            self.process.kill()
            await self.process.wait()
        self._reading.cancel()

    def _send(self, message: Mapping[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")

    async def _read(self) -> None:
        assert self.process.stdout is not None
        while line := await self.process.stdout.readline():
            answer = json.loads(line)
            waiting = self._waiting.get(answer.get("id"))
            if waiting is not None and not waiting.done():
                waiting.set_result(answer)
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(EOFError("the gateway ended"))


def outcome(answer: Any) -> Outcome:
    """Return what a JSON-RPC answer amounts to."""
    if "error" in answer:
        error = answer["error"]
        code = (error.get("data") or {}).get("code")
        return Outcome(None, "overloaded" if code == "overloaded" else f"error {error}"[:300])
    result = answer["result"]
    if result.get("isError"):
        return Outcome(None, f"refused {result['content'][0]['text']}"[:300])
    return Outcome(result.get("structuredContent", result))
