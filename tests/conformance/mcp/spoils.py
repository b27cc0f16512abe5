"""Ways in which a server can be wrong: the real one, with its answers spoiled on the way back."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from tests.conformance.mcp.harness import Headers, Link
from tests.conformance.mcp.model import Transport
from tests.conformance.mcp.reply import Reply

Spoil = Callable[[Any, Any], Any]
"""Message and answer (None for none) to the wrong answer."""


@dataclass(frozen=True, slots=True)
class WrongLink:
    """A link to a server that is wrong in one way.

    Args:
        link: to the right one.
        spoil: the way.
        status: of HTTP instead of the right one.
    """

    link: Link
    spoil: Spoil
    status: int | None = None

    @property
    def name(self) -> Transport:
        return self.link.name

    def agree(self, revision: str) -> None:
        self.link.agree(revision)

    def settle(self) -> None:
        self.link.settle()

    def ask(self, data: bytes, headers: Headers) -> Reply:
        return self._spoiled(data, self.link.ask(data, headers))

    def tell(self, data: bytes, headers: Headers) -> Reply:
        return self._spoiled(data, self.link.tell(data, headers))

    def _spoiled(self, data: bytes, reply: Reply) -> Reply:
        try:
            message = json.loads(data)
        except (ValueError, RecursionError):
            message = None
        try:
            body = self.spoil(message, copy.deepcopy(reply.body) if reply.raw else None)
        except Exception as mistake:
            raise RuntimeError("this row spoils nothing: mend it") from mistake  # no failure of the test
        raw = b"" if body is None else json.dumps(body).encode()
        return replace(reply, raw=raw, status=self.status or reply.status)


def as_it_is(message: Any, answer: Any) -> Any:
    return answer


def setting(*path: Any, to: Any) -> Spoil:
    """Return a spoil that sets one member of every answer that has its parent; `...` deletes it."""

    def spoil(message: Any, answer: Any) -> Any:
        inner = answer
        for name in path[:-1]:
            if isinstance(inner, dict) and name not in inner:
                return answer
            inner = inner[name]
        if to is ...:
            inner.pop(path[-1], None)
        else:
            inner[path[-1]] = to
        return answer

    return spoil


def instead(result: Any) -> Spoil:
    """Return a spoil that gives this result for every error."""

    def spoil(message: Any, answer: Any) -> Any:
        if not isinstance(answer, dict) or "error" not in answer:
            return answer
        return {"jsonrpc": "2.0", "id": answer["id"], "result": result}

    return spoil


def refused(code: int) -> Spoil:
    """Return a spoil that gives this error for every result."""

    def spoil(message: Any, answer: Any) -> Any:
        if not isinstance(answer, dict) or "result" not in answer:
            return answer
        return {"jsonrpc": "2.0", "id": answer["id"], "error": {"code": code, "message": "invalid: x"}}

    return spoil


def always_answered(message: Any, answer: Any) -> Any:
    return answer or {"jsonrpc": "2.0", "id": None, "result": {}}


def id_as_text(message: Any, answer: Any) -> Any:
    return {**answer, "id": str(answer["id"])}


def any_version(message: Any, answer: Any) -> Any:
    if message["method"] == "initialize":
        answer["result"]["protocolVersion"] = message["params"].get("protocolVersion")
    return answer


def last_tool_missing(message: Any, answer: Any) -> Any:
    answer["result"]["tools"].pop()
    return answer


def first_tools_swapped(message: Any, answer: Any) -> Any:
    tools = answer["result"]["tools"]
    tools[0], tools[1] = tools[1], tools[0]
    return answer


def all_parts_answered(message: Any, answer: Any) -> Any:
    return [*answer, {"jsonrpc": "2.0", "id": None, "result": {}}] if isinstance(answer, list) else answer
