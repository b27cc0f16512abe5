"""What an answer allows to have happened: the check that every fuzzer makes of every answer.

An answer is JSON-RPC, never an internal error; a text for a model keeps to its size; and unless something was
said to have succeeded, the log of the peer holds the same number of events as before.
"""

from __future__ import annotations

import json
from typing import Any

from mcp_gateway.refusals import TEXT_CHARS
from tests.support.http_agent import HttpAgent

PROTOCOL_CODES = {-32700, -32600, -32601, -32602, -32020, -32022}


def parsed(data: bytes) -> Any:
    """Return an answer as strict JSON."""

    def refuse(name: str) -> Any:
        raise AssertionError(f"{name} is not JSON")

    return json.loads(data.decode("utf-8"), parse_constant=refuse)


class Watched:
    """Counts the events of a peer.

    Args:
        operator: of the peer.
    """

    def __init__(self, operator: HttpAgent) -> None:
        self._operator = operator
        self.events = self.count()

    def count(self) -> int:
        return int(self._operator("status")["events"])

    def judge(self, answers: list[Any], *, reads: bool = False) -> None:
        """Fail unless these answers are well formed and agree with what the log says.

        Args:
            answers: to one thing sent.
            reads: it was a call of a tool that only reads.
        """
        changed = [check(answer) for answer in answers]
        before, self.events = self.events, self.count()
        if reads or not any(changed):
            assert self.events == before, f"{self.events - before} events behind {answers}"


def check(answer: Any) -> bool:
    """Fail unless this is one well-formed answer; tell whether it says that a tool was used."""
    assert isinstance(answer, dict), answer
    assert answer["jsonrpc"] == "2.0", answer
    assert ("result" in answer) != ("error" in answer), answer
    assert isinstance(answer["id"], (int, str, type(None))), answer
    if "error" in answer:
        error = answer["error"]
        assert error["code"] in PROTOCOL_CODES or error["code"] > 0, error
        assert error["code"] > 0 or len(error["message"]) <= 600, error
        assert error["code"] < 0 or error["message"].startswith(f"{error['data']['code']}: "), error
        assert error["code"] < 0 or len(error["message"]) <= TEXT_CHARS, error
        return False
    result = answer["result"]
    if result.get("isError"):
        text = result["content"][0]["text"]
        assert text.startswith("invalid: "), text
        assert len(text) <= TEXT_CHARS, text
        return False
    return "structuredContent" in result
