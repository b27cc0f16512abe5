"""What a server answered, and the exact questions that a test may ask of it.

Every check is for equality: the members of the envelope, the id with its type, the code, the status.  A check
that lets something through unsaid belongs into the test that needs it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

OK = 200
ACCEPTED = 202


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer, or none.

    Args:
        raw: the bytes of it; empty for none.
        status: of HTTP; None on other transports.
        headers: of HTTP, by lower-case name.
    """

    raw: bytes
    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def body(self) -> Any:
        """The JSON value; fails for what is not strictly JSON in UTF-8."""
        return strict_json(self.raw)

    def result(self, id: Any = 1) -> dict[str, Any]:
        """Return the result of a request that must have succeeded."""
        self.has_status(OK)
        body = self.body
        assert isinstance(body, dict), body
        assert set(body) == {"jsonrpc", "id", "result"}, body
        _same_envelope(body, id)
        result: dict[str, Any] = body["result"]
        assert isinstance(result, dict)
        return result

    def content(self, id: Any = 1) -> dict[str, Any]:
        """Return the structured content of a `tools/call` that must have succeeded."""
        result = self.result(id)
        assert result["isError"] is False, result
        content: dict[str, Any] = result["structuredContent"]
        return content

    def refusal(self, id: Any = 1) -> str:
        """Return the text of a `tools/call` whose arguments must have been refused."""
        result = self.result(id)
        assert result["isError"] is True, result
        assert "structuredContent" not in result
        (block,) = result["content"]
        assert set(block) == {"type", "text"}
        assert block["type"] == "text"
        return str(block["text"])

    def error(self, code: int, id: Any = 1, http: int = OK) -> dict[str, Any]:
        """Return the error of a message that must have been refused with this code."""
        self.has_status(http)
        return error_of(self.body, code, id)

    def nothing(self) -> None:
        """Check that there was no answer: over HTTP 202 without a body."""
        self.has_status(ACCEPTED)
        assert self.raw == b"", self.raw[:300]

    def has_status(self, http: int) -> None:
        """Check the status, where the transport has one."""
        if self.status is not None:
            assert self.status == http, f"{self.status} instead of {http}: {self.raw[:300]!r}"


def error_of(body: Any, code: int, id: Any) -> dict[str, Any]:
    """Return the error object of a JSON-RPC answer that must be an error with this code and id."""
    assert isinstance(body, dict), body
    assert set(body) == {"jsonrpc", "id", "error"}, body
    _same_envelope(body, id)
    error: dict[str, Any] = body["error"]
    assert set(error) - {"data"} == {"code", "message"}, error
    assert type(error["code"]) is int
    assert error["code"] == code, error
    assert isinstance(error["message"], str)
    assert error["message"]
    return error


def strict_json(data: bytes) -> Any:
    """Return the value of JSON text without the constants that Python would let through."""
    return json.loads(data.decode("utf-8", "strict"), parse_constant=_refuse)


def _refuse(name: str) -> NoReturn:
    raise AssertionError(f"{name} is not JSON")


def _same_envelope(body: Mapping[str, Any], id: Any) -> None:
    assert body["jsonrpc"] == "2.0", body
    assert type(body["id"]) is type(id), f"id {body['id']!r} instead of {id!r}"
    assert body["id"] == id, f"id {body['id']!r} instead of {id!r}"
