"""What to do with a message: the one decision that every transport leaves to this module.

Pure: no bytes, no key, no tool.  A message becomes a `Call` of a known revision, a `Refusal`, a `Together`
of both (a batch), or nothing.  Each message is judged alone; of a connection only the revision counts that its
`initialize` agreed on, and that only for messages of the era with a handshake.
Source: JSON-RPC 2.0; MCP specification, transports of each revision.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mcp_gateway import jsonrpc, ladder
from mcp_gateway.eras import Revision, Revisions
from mcp_gateway.jsonrpc import Batch, Malformed, Notification, Request, Response
from mcp_gateway.ladder import Fault, Headers

BATCH_MESSAGES = 100
BAD_REQUEST = 400


@dataclass(frozen=True, slots=True)
class Call:
    """A request with a method that exists in its revision."""

    request: Request
    revision: Revision


@dataclass(frozen=True, slots=True)
class Refusal:
    """A message that is answered with an error and goes no further.

    Args:
        body: the JSON-RPC answer.
        status: of HTTP.
    """

    body: Mapping[str, Any]
    status: int = BAD_REQUEST


@dataclass(frozen=True, slots=True)
class Together:
    """A batch: what of it is answered, at least one, in its order."""

    parts: tuple[Call | Refusal, ...]


Asked = Call | Refusal | Together


def classify(
    message: jsonrpc.Message | Batch,
    revisions: Revisions,
    *,
    headers: Headers | None = None,
    agreed: Revision | None = None,
) -> Asked | None:
    """Return what to do with a message, or None for one that must not be answered.

    Args:
        message: as `jsonrpc.parse` returned it.
        revisions: the table.
        headers: of an HTTP request, which names its revision there; None on a connection without headers.
        agreed: on what `initialize` agreed, on such a connection; None before.
    """
    if isinstance(message, Malformed):
        return Refusal(jsonrpc.error(message.id, message.code, message.message))
    if isinstance(message, (Request, Notification)):
        if ladder.names_its_revision(message, headers, revisions):
            return _of_its_own(message, headers, revisions)
    elif headers is not None and ladder.header_names_one(headers, revisions):
        what = "no batches" if isinstance(message, Batch) else "no answers from clients: a server never asks"
        return _invalid(f"this revision has {what}")
    revision = (agreed or revisions.agreed) if headers is None else revisions.of_header(headers.version)
    if revision is None:
        text = f"unsupported MCP-Protocol-Version; supported are {', '.join(revisions.names)}"
        return _invalid(text, getattr(message, "id", None))
    return _of_handshake(message, revision, revisions, over_http=headers is not None)


def _of_its_own(
    message: Request | Notification, headers: Headers | None, revisions: Revisions
) -> Call | Refusal | None:
    """Judge a message that names its revision itself."""
    if isinstance(message, Notification):
        fault = ladder.notified(headers, revisions)
        if fault is not None:
            return _refusal(None, fault, revisions.per_request.status(fault.code))
        return _malformed_notification(message, over_http=headers is not None)
    outcome = ladder.climb(message, headers, revisions)
    if isinstance(outcome, Fault):
        return _refusal(message.id, outcome, revisions.per_request.status(outcome.code))
    return Call(message, outcome)


def _of_handshake(
    message: Request | Notification | Response | Batch,
    revision: Revision,
    revisions: Revisions,
    *,
    over_http: bool,
) -> Asked | None:
    if isinstance(message, Response):
        return None
    if isinstance(message, Notification):
        return _malformed_notification(message, over_http=over_http)
    if isinstance(message, Batch):
        return _together(message, revision, revisions)
    if message.method in revision.era.methods:
        return Call(message, revision)
    fault = ladder.unknown_method(message)
    return _refusal(message.id, fault, revision.era.status(fault.code))


def _together(batch: Batch, revision: Revision, revisions: Revisions) -> Asked | None:
    if not revision.batches:
        return _invalid(f"{revision.name} has no batches")
    if len(batch.messages) > BATCH_MESSAGES:
        return _invalid(f"a batch of {len(batch.messages)}; the limit is {BATCH_MESSAGES}")
    parts = [_part(message, revision, revisions) for message in batch.messages]
    answered = tuple(part for part in parts if part is not None)
    return Together(answered) if answered else None


def _part(message: jsonrpc.Message, revision: Revision, revisions: Revisions) -> Call | Refusal | None:
    """Judge one message of a batch."""
    if isinstance(message, Request):
        if message.method == "initialize":
            return _invalid("initialize must not be part of a batch", message.id)
        if ladder.names_its_revision(message, None, revisions):
            return _invalid("a request that names its revision must not be part of a batch", message.id)
    asked = classify(message, revisions, agreed=revision)
    return None if isinstance(asked, Together) else asked


def _malformed_notification(message: Notification, *, over_http: bool) -> Refusal | None:
    """Refuse a notification with a status where there is one; elsewhere nothing may answer it."""
    if message.sound or not over_http:
        return None
    return Refusal(jsonrpc.error(None, jsonrpc.INVALID_PARAMS, "Invalid params: params must be an object"))


def _invalid(text: str, id: jsonrpc.Id | None = None) -> Refusal:
    return Refusal(jsonrpc.error(id, jsonrpc.INVALID_REQUEST, f"Invalid request: {text}"))


def _refusal(id: jsonrpc.Id | None, fault: Fault, status: int) -> Refusal:
    return Refusal(jsonrpc.error(id, fault.code, fault.message, fault.data), status)
