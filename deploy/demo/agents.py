"""Agents as their clients are: MCP over a child's stdin and stdout, and MCP over HTTP.

The standard library and the protocol, nothing of the product: what works here works for anybody's client.
"""

from __future__ import annotations

import itertools
import json
import queue
import subprocess
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deploy.demo.checking import StoryFailed
from deploy.demo.http_wire import ANSWER_S, Unreachable, Wire

REVISION = "2025-06-18"
CLIENT = {"name": "hyphae-demo", "version": "1"}
END_S = 5.0


@dataclass(frozen=True, slots=True)
class Answer:
    """What a tool answered.

    Args:
        result: its `structuredContent`.
        took_ms: from writing the request to having read the answer.
    """

    result: dict[str, Any]
    took_ms: float


class McpAgent(ABC):
    """One agent with its own key, attached to one peer.  For one thread.

    Args:
        name: of the agent.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._ids = itertools.count(1)

    def initialize(self) -> dict[str, Any]:
        """Shake hands; return what the server says of itself.

        Raises:
            StoryFailed: it refused or spoke another protocol.
        """
        params = {"protocolVersion": REVISION, "capabilities": {}, "clientInfo": CLIENT}
        result = self._request("initialize", params)
        if result.get("protocolVersion") != REVISION:
            raise StoryFailed(
                f"{self.name}: the server speaks {result.get('protocolVersion')}, not {REVISION}."
            )
        self._notify({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return result

    def tools(self) -> list[str]:
        """Return the names of the tools."""
        return [tool["name"] for tool in self._request("tools/list", {})["tools"]]

    def call(self, tool: str, **arguments: Any) -> Answer:
        """Call a tool.

        Raises:
            StoryFailed: the tool refused, or there was no answer.
        """
        began = time.perf_counter()
        result = self._request("tools/call", {"name": tool, "arguments": arguments})
        took_ms = (time.perf_counter() - began) * 1000
        if result.get("isError"):
            raise StoryFailed(f"{self.name}: {tool} answered {result['content'][0]['text']}")
        return Answer(result["structuredContent"], took_ms)

    @abstractmethod
    def close(self) -> None:
        """Leave."""

    def _request(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        request_id = next(self._ids)
        message = {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}
        reply = self._exchange(message, request_id)
        if "error" in reply:
            raise StoryFailed(f"{self.name}: {method} was refused with {reply['error'].get('message')}")
        return dict(reply["result"])

    @abstractmethod
    def _exchange(self, message: Mapping[str, Any], request_id: int) -> dict[str, Any]:
        """Send a request and return the message that answers it."""

    @abstractmethod
    def _notify(self, message: Mapping[str, Any]) -> None:
        """Send a notification."""


class HttpAgent(McpAgent):
    """An agent that speaks to `POST /mcp`.

    Args:
        name: of the agent.
        url: of the peer.
        key: of the agent.
    """

    def __init__(self, name: str, url: str, key: str) -> None:
        super().__init__(name)
        self._wire = Wire(url, key)
        self._headers = {"accept": "application/json, text/event-stream", "mcp-protocol-version": REVISION}

    def close(self) -> None:
        """Close the connection."""
        self._wire.close()

    def _exchange(self, message: Mapping[str, Any], request_id: int) -> dict[str, Any]:
        status, body = self._post(message)
        try:
            reply = json.loads(body)
        except ValueError:
            reply = None
        if not isinstance(reply, dict) or reply.get("id") != request_id:
            raise StoryFailed(f"{self.name}: HTTP {status} is no answer to the request: {body[:200]!r}")
        return reply

    def _notify(self, message: Mapping[str, Any]) -> None:
        status, body = self._post(message)
        if status != 202:
            raise StoryFailed(f"{self.name}: a notification was answered with HTTP {status}: {body[:200]!r}")

    def _post(self, message: Mapping[str, Any]) -> tuple[int, bytes]:
        try:
            return self._wire.send("POST", "/mcp", message, self._headers)
        except Unreachable as error:
            raise StoryFailed(f"{self.name}: no answer to {error}") from error


class StdioAgent(McpAgent):
    """An agent whose client has started `hyphae mcp serve`, as editors do.

    Args:
        name: of the agent.
        command: the program and its arguments.
        environment: of the child.
        stderr: file for what it writes there.
    """

    def __init__(
        self, name: str, command: Sequence[str], environment: Mapping[str, str], stderr: Path
    ) -> None:
        super().__init__(name)
        with stderr.open("ab") as complaints:
            self._child = subprocess.Popen(
                list(command),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=complaints,
                env=dict(environment),
                start_new_session=True,
            )
        self._lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    @property
    def pid(self) -> int:
        """The process id of the child."""
        return self._child.pid

    def close(self) -> None:
        """Close its stdin, upon which it ends; kill it if it does not."""
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        with suppress(OSError):  # it is gone already, with unsent bytes of ours
            self._child.stdin.close()
        try:
            self._child.wait(END_S)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()
        self._listener.join(END_S)
        self._child.stdout.close()

    def _exchange(self, message: Mapping[str, Any], request_id: int) -> dict[str, Any]:
        self._notify(message)
        end = time.monotonic() + ANSWER_S
        while True:
            try:
                line = self._lines.get(timeout=max(0.0, end - time.monotonic()))
            except queue.Empty:
                raise StoryFailed(f"{self.name}: no answer over stdio within {ANSWER_S:g} s.") from None
            if not line:
                raise StoryFailed(f"{self.name}: `hyphae mcp serve` ended (exit code {self._child.poll()}).")
            reply = self._decoded(line)
            if reply.get("id") == request_id:
                return reply

    def _notify(self, message: Mapping[str, Any]) -> None:
        assert self._child.stdin is not None
        try:
            self._child.stdin.write(json.dumps(message, ensure_ascii=False).encode() + b"\n")
            self._child.stdin.flush()
        except OSError as error:
            raise StoryFailed(
                f"{self.name}: `hyphae mcp serve` does not listen: {error.strerror}."
            ) from error

    def _decoded(self, line: bytes) -> dict[str, Any]:
        try:
            reply = json.loads(line)
        except ValueError:
            reply = None
        if not isinstance(reply, dict):
            raise StoryFailed(f"{self.name}: stdout holds a line that is no message: {line[:200]!r}")
        return reply

    def _listen(self) -> None:
        assert self._child.stdout is not None
        for line in self._child.stdout:
            self._lines.put(line)
        self._lines.put(b"")
