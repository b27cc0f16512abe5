"""JSON-RPC 2.0 as bytes: one message or batch in, one answer out.

Pure: no transport, no revision of MCP, no method by name.  Parsing arbitrary bytes returns a value, never an
exception; the caller must not answer a `Notification` or a `Response`.
Source: JSON-RPC 2.0 specification; MCP narrows ids to strings and integers, and params to objects.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603

Id = int | str


@dataclass(frozen=True, slots=True)
class Request:
    """A call that must be answered with its id, once."""

    id: Id
    method: str
    params: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Notification:
    """A message without id: never answered, whatever it says.

    Args:
        method: its method.
        params: its parameters; none where they were no object.
        sound: false for parameters that were no object; a transport with a status may say so.
    """

    method: str
    params: Mapping[str, Any] = field(default_factory=dict)
    sound: bool = True


@dataclass(frozen=True, slots=True)
class Response:
    """An answer from the other side: we never ask, so it is ignored."""


@dataclass(frozen=True, slots=True)
class Malformed:
    """What is no message: answered with this error, and with its id where one could be read."""

    code: int
    message: str
    id: Id | None = None


Message = Request | Notification | Response | Malformed


@dataclass(frozen=True, slots=True)
class Batch:
    """An array of messages, at least one; whether arrays are allowed is the caller's question."""

    messages: tuple[Message, ...]


def parse(data: bytes) -> Message | Batch:
    """Return the message or batch that the bytes hold; what is wrong with them is a `Malformed`.

    Args:
        data: UTF-8, one JSON value.
    """
    try:
        value = loads(data)
    except ValueError as error:
        return Malformed(PARSE_ERROR, f"Parse error: {error}")
    if not isinstance(value, list):
        return _message(value)
    if not value:
        return Malformed(INVALID_REQUEST, "Invalid request: an empty batch")
    return Batch(tuple(_message(item) for item in value))


def loads(data: bytes) -> Any:
    """Return the JSON value of bytes.

    Raises:
        ValueError: not UTF-8, not JSON (NaN and Infinity included), a number of more than 4,300 digits, or
            nested too deep; the text says which, without showing the bytes.
    """
    try:
        return json.loads(data.decode("utf-8"), parse_constant=_refuse_constant)
    except UnicodeDecodeError as error:
        raise ValueError(f"byte {error.start} is not UTF-8") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"no JSON at character {error.pos}: {error.msg}") from None
    except _NoJson:
        raise
    except ValueError:  # Python's own words name a function of its own
        raise ValueError("a number has too many digits") from None
    except RecursionError:
        raise ValueError("nested too deep") from None


class _NoJson(ValueError):
    """A word that JSON does not have."""


def _refuse_constant(name: str) -> NoReturn:
    raise _NoJson(f"{name} is not JSON")


def _message(value: Any) -> Message:
    if not isinstance(value, dict):
        return Malformed(INVALID_REQUEST, "Invalid request: a message is an object")
    readable = value.get("id")
    known = readable if isinstance(readable, (int, str)) and not isinstance(readable, bool) else None
    if value.get("jsonrpc") != "2.0":
        return Malformed(INVALID_REQUEST, 'Invalid request: jsonrpc must be "2.0"', known)
    if "method" not in value and ("result" in value or "error" in value):
        return Response()
    if "id" in value and known is None:
        return Malformed(INVALID_REQUEST, "Invalid request: id must be a string or an integer")
    method = value.get("method")
    if not isinstance(method, str):
        return Malformed(INVALID_REQUEST, "Invalid request: method must be a string", known)
    params = value.get("params")
    if "id" not in value:
        return Notification(
            method, params if isinstance(params, dict) else {}, isinstance(params, dict | None)
        )
    if known is None or not isinstance(params, dict | None):
        return Malformed(INVALID_PARAMS, "Invalid params: params must be an object", known)
    return Request(known, method, params or {})


def result(id: Id, value: Mapping[str, Any]) -> dict[str, Any]:
    """Return the answer to a request."""
    return {"jsonrpc": "2.0", "id": id, "result": value}


def error(id: Id | None, code: int, message: str, data: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return an error answer; `id` is None (null on the wire) where none could be read."""
    body: dict[str, Any] = {"code": code, "message": message}
    if data is not None:
        body["data"] = data
    return {"jsonrpc": "2.0", "id": id, "error": body}


def encode(value: Any) -> bytes:
    """Return compact JSON on one line, UTF-8, non-ASCII kept.

    A lone surrogate has no UTF-8 form; then everything beyond ASCII is written as escapes.

    Raises:
        ValueError: a number that JSON does not have.
        TypeError: a value that JSON does not have.
    """
    try:
        return text(value).encode("utf-8")
    except UnicodeEncodeError:
        return json.dumps(value, allow_nan=False, separators=(",", ":")).encode("ascii")


def text(value: Any) -> str:
    """Return compact JSON on one line, non-ASCII kept.  Raises as `encode`."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
