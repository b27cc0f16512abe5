"""Real stdio gateways: `hyphae mcp serve` as an editor starts it, on a real peer."""

from __future__ import annotations

from types import TracebackType
from typing import Any

from tests.support.stdio_process import HANDSHAKE, StdioProcess

SERVE = ("-P", "-m", "node", "mcp", "serve")


class Gateway:
    """One process.  Use as a context manager: it is gone afterwards.

    Args:
        environment: what the editor configured.
    """

    def __init__(self, environment: dict[str, str]) -> None:
        self.stdio = StdioProcess(environment, args=SERVE)
        self._ids = iter(range(1_000_000))

    def __enter__(self) -> Gateway:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stdio.__exit__(kind, error, trace)

    @property
    def pid(self) -> int:
        return self.stdio.process.pid

    def handshake(self) -> dict[str, Any]:
        self.stdio.send(HANDSHAKE)
        result: dict[str, Any] = self.stdio.answer(HANDSHAKE["id"])["result"]
        self.stdio.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return result

    def send(self, tool: str, **arguments: Any) -> int:
        """Send a call without waiting; return its id."""
        id_ = next(self._ids)
        self.stdio.call(id_, tool, **arguments)
        return id_

    def result(self, id_: int) -> dict[str, Any]:
        """Return the result of a call that must have succeeded."""
        answer = self.stdio.answer(id_)
        assert "error" not in answer, answer["error"]
        assert not answer["result"]["isError"], answer["result"]["content"]
        result: dict[str, Any] = answer["result"]["structuredContent"]
        return result

    def __call__(self, tool: str, **arguments: Any) -> dict[str, Any]:
        return self.result(self.send(tool, **arguments))

    def said(self, tool: str, **arguments: Any) -> str:
        """Return the text of a call that must have failed, whichever way."""
        answer = self.stdio.answer(self.send(tool, **arguments))
        if "error" in answer:
            return str(answer["error"]["message"])
        assert answer["result"]["isError"], answer
        return str(answer["result"]["content"][0]["text"])
