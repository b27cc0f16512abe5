"""What a request must show that names its revision itself, rung by rung; the first failure is the answer.

Pure.  The rungs: the envelope in `params._meta`; over HTTP, headers that say the same as the body, so that
what stands in between may rely on them; a revision that we speak; a method that it has.
Source: MCP specification 2026-07-28, per-request protocol fields; transports, Streamable HTTP, headers.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from mcp_gateway import eras
from mcp_gateway.eras import Revision, Revisions
from mcp_gateway.jsonrpc import INVALID_PARAMS, METHOD_NOT_FOUND, Notification, Request
from mcp_gateway.refusals import shown

VERSION_KEY: Final = f"{eras.META_PREFIX}protocolVersion"
CAPABILITIES_KEY: Final = f"{eras.META_PREFIX}clientCapabilities"
NAMED: Final[Mapping[str, str]] = {"tools/call": "name"}  # method -> the parameter that Mcp-Name repeats

_WRAPPED: Final = re.compile(r"=\?base64\?(.*)\?=")


@dataclass(frozen=True, slots=True)
class Headers:
    """The headers of an HTTP request that repeat its body: all values of each, without surrounding blanks."""

    version: Sequence[str] = ()
    method: Sequence[str] = ()
    name: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a request is refused: the members of a JSON-RPC error."""

    code: int
    message: str
    data: Mapping[str, Any] | None = None


def names_its_revision(
    message: Request | Notification, headers: Headers | None, revisions: Revisions
) -> bool:
    """Tell whether a message belongs to an era without a handshake.

    Args:
        message: as parsed.
        headers: of an HTTP request; None where there are none.
        revisions: the table.
    """
    return (
        message.method == eras.DISCOVER
        or VERSION_KEY in _meta(message)
        or (headers is not None and header_names_one(headers, revisions))
    )


def header_names_one(headers: Headers, revisions: Revisions) -> bool:
    """Tell whether the version header alone claims a revision without a handshake."""
    return any(revisions.find(value, per_request=True) for value in headers.version)


def climb(request: Request, headers: Headers | None, revisions: Revisions) -> Revision | Fault:
    """Return the revision that a request names and fulfils, or what is wrong with it."""
    fault = _envelope(request) or _headers(request, headers)
    if fault is not None:
        return fault
    requested = _meta(request)[VERSION_KEY]
    revision = revisions.find(requested, per_request=True)
    if revision is None:
        return _unsupported(requested, revisions)
    return revision if request.method in revision.era.methods else unknown_method(request)


def notified(headers: Headers | None, revisions: Revisions) -> Fault | None:
    """Return what is wrong with the headers of a notification; it needs none, but not a wrong one.

    Of a notification the specification asks no envelope and no Mcp-Method.
    """
    if headers is None or not headers.version:
        return None
    if len(headers.version) > 1:
        return _mismatch("MCP-Protocol-Version is given more than once.")
    return None if headers.version[0] in revisions.names else _unsupported(headers.version[0], revisions)


def decoded(value: str) -> str | None:
    """Return the text of a header value that may be wrapped as `=?base64?...?=`; None: badly wrapped.

    Strict: canonical base64 of UTF-8, so that one text has one wrapping.
    """
    found = _WRAPPED.fullmatch(value)
    if found is None:
        return value
    wrapped = found[1]
    try:
        data = base64.b64decode(wrapped, validate=True)
        text = data.decode("utf-8")
    except ValueError:
        return None
    return text if base64.b64encode(data).decode("ascii") == wrapped else None


def unknown_method(request: Request) -> Fault:
    """Return the fault of a request whose method does not exist."""
    return Fault(METHOD_NOT_FOUND, f"Method not found: {shown(request.method)[1:-1]}")


def _envelope(request: Request) -> Fault | None:
    meta = _meta(request)
    for key, kind, form in ((VERSION_KEY, str, "a string"), (CAPABILITIES_KEY, dict, "an object")):
        if not isinstance(meta.get(key), kind):
            problem = f'Invalid params: params._meta["{key}"] must be {form}, in every request.'
            return Fault(INVALID_PARAMS, problem)
    return None


def _headers(request: Request, headers: Headers | None) -> Fault | None:
    if headers is None:
        return None
    names = [decoded(value) for value in headers.name]
    named = NAMED.get(request.method)  # elsewhere Mcp-Name repeats nothing and may say anything, once
    name = request.params.get(named) if named else next(iter(names), None)
    repeated = (
        ("MCP-Protocol-Version", headers.version, f"_meta {VERSION_KEY}", _meta(request)[VERSION_KEY]),
        ("Mcp-Method", headers.method, "method", request.method),
        ("Mcp-Name", names, f"params.{named}", name),
    )
    for header, values, member, value in repeated:
        if len(values) > 1:
            return _mismatch(f"{header} is given more than once.")
        if next(iter(values), None) != value:
            return _mismatch(f"{header} is {_seen(values)}; it must repeat {member} of the body.")
    return None


def _seen(values: Sequence[str | None]) -> str:
    if not values:
        return "missing"
    return "badly encoded" if values[0] is None else shown(values[0])


def _mismatch(text: str) -> Fault:
    return Fault(eras.HEADER_MISMATCH, f"Header mismatch: {text}")


VERSION_SHOWN = 64


def _unsupported(requested: str, revisions: Revisions) -> Fault:
    return Fault(
        eras.UNSUPPORTED_VERSION,
        f"Unsupported protocol version: {shown(requested)[1:-1]}",
        {"supported": list(revisions.names), "requested": requested[:VERSION_SHOWN]},
    )


def _meta(message: Request | Notification) -> Mapping[str, Any]:
    meta = message.params.get("_meta")
    return meta if isinstance(meta, dict) else {}
