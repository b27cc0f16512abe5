"""Requests to one peer over its Unix socket or its URL, on a few connections that are kept open.

It never guesses: a call that certainly was not executed fails `Unavailable`, one that may have been fails
`Uncertain`, and only a call that can stand it is sent twice.  Light to import: the stdio gateway lives on
this.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Callable
from typing import Any, Final

from mesh import wall_clock
from mesh.client_tls import client_context, what_failed
from mesh.http_connection import Answer, ConnectionLost, HttpConnection, parse_target
from mesh.repeatable import is_repeatable
from proto.errors import (
    Forbidden,
    HyphaeError,
    Internal,
    Invalid,
    NotFound,
    Overloaded,
    ProtocolError,
    Unauthenticated,
    Unavailable,
    Uncertain,
    rebuild,
)
from proto.messages import MESSAGE_BYTES, KeyCredential, Reply, Request, decode_reply, encode_request

PATH: Final = "/v1/request"
MEDIA_TYPE: Final = "application/msgpack"
IDLE_MAX: Final = 8  # connections kept open while nothing is asked
IN_FLIGHT_MAX: Final = 64
TRUSTED_IDLE_S: Final = 1.0  # servers hang up on idle connections after some seconds; before that they do not


class HttpRequester:
    """See `mesh.ports.Requester`.

    Args:
        target: `http://host:port`, `https://...`, or the path of a Unix socket.
        key: sent as `x-hyphae-key`; a key in the credential of a request goes before it.
        ca: for https, file of the certificates that alone are trusted; None for those of the system.
        now_ms: wall clock, ms since 1970.

    Raises:
        Invalid: the target is none, or the key holds what cannot be sent.
    """

    def __init__(
        self,
        target: str,
        key: str | None = None,
        *,
        ca: str | None = None,
        now_ms: Callable[[], int] = wall_clock.now_ms,
    ) -> None:
        self._target = parse_target(target)
        self._ca = ca
        self._tls: ssl.SSLContext | None = None
        self._key = None if key is None else _sendable(key)
        self._now_ms = now_ms
        self._idle: list[HttpConnection] = []
        self._busy: set[HttpConnection] = set()
        self._places = asyncio.Semaphore(IN_FLIGHT_MAX)
        self._closed = False

    async def request(self, request: Request) -> Reply:
        try:
            body = encode_request(request)
            if len(body) > MESSAGE_BYTES:
                raise Invalid(f"the call has {len(body)} bytes, limit {MESSAGE_BYTES}.")
            return await self._by_deadline(request, body)
        except HyphaeError as error:
            return Reply(error=error)

    def written(self, page: str) -> None:
        """Nothing to do: over a wire this travels with the next drain, as `Request.wrote`."""

    async def close(self) -> None:
        self._closed = True
        for connection in [*self._idle, *self._busy]:
            connection.abort()
        self._idle.clear()

    async def _by_deadline(self, request: Request, body: bytes) -> Reply:
        left_s = (request.deadline_ms - self._now_ms()) / 1000
        sent = False

        def sending() -> None:
            nonlocal sent
            sent = True

        try:
            async with asyncio.timeout(max(0.0, left_s)), self._places:
                return await self._exchange(request, body, sending)
        except TimeoutError:
            if sent:
                raise Uncertain(f"no answer from {self._target.shown} within {left_s:.0f} s.") from None
            raise Unavailable(f"{self._target.shown} could not be asked within {left_s:.0f} s.") from None

    async def _exchange(self, request: Request, body: bytes, sending: Callable[[], None]) -> Reply:
        """Ask once, and once more if a connection turns out to have been stale and the call can stand it."""
        headers = self._headers(request)
        repeatable = is_repeatable(request)
        connection = self._take_idle(trusted_only=not repeatable)
        while True:
            reused = connection is not None
            if connection is None:
                connection = await self._open()
            self._busy.add(connection)
            complete = False
            try:
                sending()
                answer = await connection.post(PATH, headers, body, MESSAGE_BYTES)
                complete = True
                return _reply_of(answer, self._target.shown)
            except ConnectionLost as lost:
                if not (reused and repeatable and not lost.answered) or self._closed:
                    raise Uncertain(f"the connection to {self._target.shown} was lost ({lost}).") from lost
            finally:
                self._busy.discard(connection)
                self._put_back(connection, keep=complete)
            connection = None

    def _headers(self, request: Request) -> list[tuple[str, str]]:
        headers = [("Content-Type", MEDIA_TYPE), ("Accept", MEDIA_TYPE)]
        credential = request.credential
        key = _sendable(credential.key) if isinstance(credential, KeyCredential) else self._key
        return headers if key is None else [*headers, ("X-Hyphae-Key", key)]

    async def _open(self) -> HttpConnection:
        if self._closed:
            raise Unavailable("this requester is closed; nothing was sent.")
        if self._target.tls and self._tls is None:
            self._tls = client_context(self._ca)
        try:
            return await HttpConnection.open(self._target, self._tls)
        except ssl.SSLError as error:
            text = what_failed(error, self._target.shown, self._target.host, self._ca)
            raise Unavailable(text) from error
        except OSError as error:
            raise Unavailable(
                f"no peer could be reached at {self._target.shown} ({type(error).__name__}). Is it running?"
            ) from error

    def _take_idle(self, *, trusted_only: bool) -> HttpConnection | None:
        """Return the connection used last, dropping those that the peer has closed."""
        while self._idle:
            connection = self._idle.pop()
            if connection.usable and not (trusted_only and connection.idle_s > TRUSTED_IDLE_S):
                return connection
            connection.abort()
        return None

    def _put_back(self, connection: HttpConnection, *, keep: bool) -> None:
        if keep and connection.usable and len(self._idle) < IDLE_MAX and not self._closed:
            self._idle.append(connection)
        else:
            connection.abort()


def _sendable(key: str) -> str:
    """Return a key that fits into a header.

    Raises:
        Invalid: it does not; it is not shown.
    """
    if not key.isascii() or not key.isprintable() or not key.strip():
        raise Invalid(f"the key ({len(key)} characters) holds something that no key holds, or nothing.")
    return key.strip()


def _reply_of(answer: Answer, shown: str) -> Reply:
    """Return the reply that a response holds, or the error that it amounts to."""
    if answer.content_type == MEDIA_TYPE:
        try:
            return decode_reply(answer.body)
        except ProtocolError as error:
            raise Internal(f"{shown} answered what is no reply: {error.message}") from error
    return Reply(error=_told_error(answer) or _status_error(answer.status, shown))


def _told_error(answer: Answer) -> HyphaeError | None:
    """Return the error in a JSON body `{"error": {code, message, definite, retry_after_ms?}}`, if any."""
    try:
        told: Any = json.loads(answer.body)["error"]
        code, message, definite = told["code"], told["message"], told["definite"]
        retry_after_ms = told.get("retry_after_ms")
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    proper = isinstance(code, str) and isinstance(message, str) and isinstance(definite, bool)
    if not proper or not isinstance(retry_after_ms, (int, type(None))) or answer.status < 400:
        return None
    return rebuild(code, message, definite, retry_after_ms)


def _status_error(status: int, shown: str) -> HyphaeError:
    """Return what a status without further words means: from a proxy, or from what is no peer."""
    known: dict[int, HyphaeError] = {
        401: Unauthenticated(f"{shown} does not accept the key."),
        403: Forbidden(f"{shown} refuses this call."),
        404: NotFound(f"{shown} is no peer of a mesh: it knows no {PATH}."),
        405: NotFound(f"{shown} is no peer of a mesh: it knows no {PATH}."),
        413: Invalid(f"{shown} refuses a call of this size."),
        421: Forbidden(f"{shown} does not serve this host name."),
        429: Overloaded(f"{shown} is busy.", retry_after_ms=1_000),
        503: Unavailable(f"{shown} is not available (503)."),
    }
    if status in known:
        return known[status]
    if status >= 500:
        return Uncertain(f"{shown} answered with status {status}.")
    return ProtocolError(f"{shown} answered with status {status}; it seems to be no peer of a mesh.")
