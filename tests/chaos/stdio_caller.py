"""An agent's calls through a real stdio gateway, `hyphae mcp serve`, as its editor starts it.

The gateway repeats, falls back and names what it has written by itself; whoever calls knows its answers only.
"""

from __future__ import annotations

import itertools
import queue
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tests.chaos.caller import Telling, told_of
from tests.chaos.expecting import SILENT
from tests.chaos.history import FAIL, OK, UNKNOWN, History
from tests.support.stdio_process import HANDSHAKE, StdioProcess

SERVE: Final = ("-P", "-m", "node", "mcp", "serve")
ROOT: Final = Path(__file__).resolve().parents[2]
ANSWER_S: Final = 90.0  # a gateway answers each call within 30 s


class StdioCaller:
    """See `caller.Calling`.

    Args:
        way: variables that name the peer or the servers.
        home: a directory of its own.
    """

    def __init__(self, history: History, name: str, key: str, way: Mapping[str, str], home: Path) -> None:
        self.name = name
        self.code = ""
        self.lives = 0
        self._history = history
        self._environment = {
            "PYTHONPATH": str(ROOT),
            "HOME": str(home),
            "HYPHAE_CONFIG_DIR": str(home / "config"),
            "HYPHAE_API_KEY": key,
            **way,
        }
        self._ids = itertools.count(1)
        self._process = self._started()

    def _started(self) -> StdioProcess:
        self.lives += 1
        process = StdioProcess(self._environment, args=SERVE)
        process.send(HANDSHAKE)
        process.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return process

    def close(self) -> None:
        self._process.__exit__()

    def restart(self) -> None:
        """Kill the gateway, as editors do, and start another one."""
        self.close()
        self._process = self._started()

    def call(
        self,
        peer: str,
        what: str,
        method: str,
        arguments: Mapping[str, Any],
        noted: Mapping[str, Any],
        telling: Telling,
    ) -> dict[str, Any] | None:
        """See `caller.Calling`; `peer` is only noted."""
        op = self._history.invoke(self.name, what, peer, **noted)
        answer = self._ask(method, arguments)
        error, result = answer.get("error"), answer.get("result")
        if result is not None and not result["isError"]:
            told: dict[str, Any] = result["structuredContent"]
            self._history.end(OK, op, self.name, what, peer, **told_of(told, telling))
            return told
        data = {} if error is None else error.get("data") or {}
        kind = FAIL if error is None or data.get("definite") else UNKNOWN
        self.code = code = data.get("code", "refused")
        self._history.end(kind, op, self.name, what, peer, code=code)
        return None

    def _ask(self, method: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answer of the gateway, or an error that says that there was none."""
        id_, until = next(self._ids), time.monotonic() + ANSWER_S
        try:
            self._process.call(id_, method, **arguments)
            while time.monotonic() < until:
                try:
                    return self._process.answer(id_)
                except queue.Empty:
                    continue
        except (AssertionError, OSError):  # it ended
            self.restart()
        return {"error": {"data": {"code": SILENT}}}
