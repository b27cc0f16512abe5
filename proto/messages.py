"""Requests and replies between gateways and peers, and between peers.

One `Request` in, one `Reply` out, msgpack arrays on the wire.  The arguments travel as bytes, so that a
signature covers exactly what is executed.  Pure, and light to import: the stdio gateway lives on this.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from proto.codec import decode, encode
from proto.errors import HyphaeError, ProtocolError, rebuild
from proto.ids import digest
from proto.limits import BULK_BODY_BYTES

REQUEST_VERSION = 1
OWN_STORES = 8
MESSAGE_BYTES = BULK_BODY_BYTES + 64 * 1024


@dataclass(frozen=True, slots=True)
class KeyCredential:
    """The key itself: only in-process, over loopback, a Unix socket or TLS; never on NATS."""

    key: str

    def __repr__(self) -> str:
        return "KeyCredential(...)"


@dataclass(frozen=True, slots=True)
class SignedCredential:
    """Proof of a key without the key: an Ed25519 signature over `signed_bytes` of the request."""

    key_id: str
    nonce: bytes
    signature: bytes


@dataclass(frozen=True, slots=True)
class LocalUser:
    """The user who owns the peer's process, known by the peer's socket.  Never decoded from the wire."""


Credential = KeyCredential | SignedCredential | LocalUser | None


@dataclass(frozen=True, slots=True)
class Request:
    """One call.

    Args:
        method: name of a tool or of a further operation of the service.
        args: plain values by argument name, checked again by the peer that serves it.
        deadline_ms: wall clock in ms since 1970 after which it is dropped.
        credential: what authenticates it.
        mark: 8 random bytes of the gateway process, empty over HTTP.
        wrote: of a drain: the page that the gateway last wrote out completely for this reader; "" says
            that there is none; None says nothing (HTTP without `ack`).  Of a search: ids of the memories that
            the gateway process stored last, at most `OWN_STORES`, separated by commas; peers that know
            nothing of this ignore it.
        default_project: project of calls that name none (`HYPHAE_PROJECT`, `x-hyphae-project`).
    """

    method: str
    args: Mapping[str, Any]
    deadline_ms: int
    credential: Credential = None
    mark: bytes = b""
    wrote: str | None = None
    default_project: str | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer: a result, or an error.

    Args:
        page: of a drain: the page listed, to be confirmed with `Requester.written` once its reply has been
            written out.
    """

    result: Mapping[str, Any] | None = None
    error: HyphaeError | None = None
    page: str | None = None

    def unwrap(self) -> Mapping[str, Any]:
        """Return the result, or raise the error."""
        if self.error is not None:
            raise self.error
        return self.result or {}


def signed_bytes(request: Request, args_bytes: bytes, key_id: str, nonce: bytes) -> bytes:
    """Return what a signature covers: everything of the request that can change its effect."""
    return digest(
        "request",
        request.method.encode(),
        args_bytes,
        request.deadline_ms.to_bytes(8, "big"),
        request.mark,
        b"\x00" if request.wrote is None else b"\x01" + request.wrote.encode(),
        b"\x00" if request.default_project is None else b"\x01" + request.default_project.encode(),
        key_id.encode(),
        nonce,
    )


def encode_args(args: Mapping[str, Any]) -> bytes:
    """Return the arguments as the bytes that are signed and sent."""
    return encode(dict(args))


def encode_request(request: Request, args_bytes: bytes | None = None) -> bytes:
    """Return the wire form.  A `KeyCredential` or `LocalUser` is left out: it travels in no message."""
    signed = request.credential if isinstance(request.credential, SignedCredential) else None
    return encode(
        (
            REQUEST_VERSION,
            request.method,
            encode_args(request.args) if args_bytes is None else args_bytes,
            request.deadline_ms,
            request.mark,
            request.wrote,
            request.default_project,
            None if signed is None else (signed.key_id, signed.nonce, signed.signature),
        )
    )


_REQUEST_TYPES: tuple[Any, ...] = (
    int,
    str,
    bytes,
    int,
    bytes,
    (str, type(None)),
    (str, type(None)),
    (tuple, type(None)),
)


def decode_request(data: bytes) -> tuple[Request, bytes]:
    """Return a request and its argument bytes.

    Raises:
        ProtocolError: not a request of this version.
    """
    fields = decode(data, max_bytes=MESSAGE_BYTES)
    if not isinstance(fields, tuple) or len(fields) != len(_REQUEST_TYPES) or fields[0] != REQUEST_VERSION:
        raise ProtocolError("a request is not an array of this version")
    if not all(
        isinstance(f, t) and not isinstance(f, bool) for f, t in zip(fields, _REQUEST_TYPES, strict=True)
    ):
        raise ProtocolError("a request holds a field of the wrong type")
    _, method, args_bytes, deadline_ms, mark, wrote, default_project, proof = fields
    args = decode(args_bytes, max_bytes=MESSAGE_BYTES)
    if not _is_object(args) or not 0 <= deadline_ms < 2**63 or len(mark) > 16:
        raise ProtocolError("a request holds a field out of range")
    credential: SignedCredential | None = None
    if proof is not None:
        types = (str, bytes, bytes)
        if len(proof) != 3 or not all(isinstance(p, t) for p, t in zip(proof, types, strict=True)):
            raise ProtocolError("a request holds no proper proof of its key")
        credential = SignedCredential(*proof)
    return Request(method, args, deadline_ms, credential, mark, wrote, default_project), args_bytes


def _is_object(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(name, str) for name in value)


def encode_reply(reply: Reply) -> bytes:
    """Return the wire form of a reply."""
    if reply.error is not None:
        e = reply.error
        return encode((REQUEST_VERSION, None, (e.code, e.message, e.definite, e.retry_after_ms), reply.page))
    return encode((REQUEST_VERSION, dict(reply.result or {}), None, reply.page))


def decode_reply(data: bytes) -> Reply:
    """Return the reply that bytes stand for.

    Raises:
        ProtocolError: not a reply of this version.
    """
    fields = decode(data, max_bytes=MESSAGE_BYTES)
    if not isinstance(fields, tuple) or len(fields) != 4 or fields[0] != REQUEST_VERSION:
        raise ProtocolError("a reply is not an array of this version")
    _, result, failure, page = fields
    if not isinstance(page, (str, type(None))):
        raise ProtocolError("a reply names no proper page")
    if failure is None:
        if not _is_object(result):
            raise ProtocolError("a reply holds no result")
        return Reply(result=result, page=page)
    if not isinstance(failure, tuple) or len(failure) != 4:
        raise ProtocolError("a reply holds no proper error")
    code, message, definite, retry_after_ms = failure
    if not isinstance(code, str) or not isinstance(message, str) or not isinstance(definite, bool):
        raise ProtocolError("a reply holds no proper error")
    if isinstance(retry_after_ms, bool) or not isinstance(retry_after_ms, (int, type(None))):
        raise ProtocolError("a reply holds no proper error")
    return Reply(error=rebuild(code, message, definite, retry_after_ms), page=page)
