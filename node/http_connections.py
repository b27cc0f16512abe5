"""Connections of the HTTP surfaces: bounded in number, in the size of a request's head, and in patience.

Without this, whoever reaches the port needs no key to take every file handle of a peer, or its memory, and with
them its socket, its log and its processor.  What is refused before there is a request is refused as JSON.  It
must not know routes or keys.  The only module that knows the insides of uvicorn.
"""

from __future__ import annotations

import asyncio
import resource
from http import HTTPStatus
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from mcp_gateway import jsonrpc, rest
from mcp_gateway.http_exchange import ALWAYS, JSON
from proto.errors import HyphaeError, Invalid, Overloaded

HANDLES_WANTED = 16_384
HANDLES_KEPT = 256  # for the log, NATS, indexes and whatever libraries open
HEAD_S = 20.0  # from a connection, or the first byte of a further request, to the end of its headers
READ_S = 30.0  # a client that takes nothing of a response for so long is gone
TARGET_BYTES: Final = 8 * 1024  # of a request line's path and query
HEADERS: Final = 100
HEAD_BYTES: Final = 32 * 1024  # of request target and headers; clients send under 2 KiB
LINGER_S = 2.0  # for a refused client to stop sending: closed at once, it would lose the answer to a reset
RETRY_MS: Final = 1_000


def connection_limit(wanted: int = 0) -> int:
    """Return how many connections each of the two surfaces may have; the limit of this process is raised.

    Args:
        wanted: by setting; 0 for as many as there are file handles for.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    handles = HANDLES_WANTED if hard == resource.RLIM_INFINITY else min(hard, HANDLES_WANTED)
    if soft != resource.RLIM_INFINITY and soft < handles:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (handles, hard))
            soft = handles
        except (OSError, ValueError):
            pass  # macOS allows less than it says
    have = HANDLES_WANTED if soft == resource.RLIM_INFINITY else soft
    possible = max(16, (have - HANDLES_KEPT) // 2)
    return min(wanted, possible) if wanted else possible


class RefusedHead(Exception):
    """The head of a request exceeds a limit; raised through the parser to end its connection."""


class BoundedConnection(HttpToolsProtocol):
    """One connection; refused beyond `limit`, and closed when its headers or its reader do not come."""

    limit = 1_024
    _waiting: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None
    _taken = False  # something of what was written has been read since `_unread` was set
    _in_head = False
    _head_bytes = 0
    _refusal: tuple[int, HyphaeError] | None = None
    _ended = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take the connection, or refuse it where there are too many."""
        super().connection_made(transport)
        if len(self.connections) > self.limit:
            text = f"{self.limit} connections are open, which is the limit. Nothing was done."
            self._end(503, Overloaded(text, retry_after_ms=RETRY_MS))
            transport.close()
        else:
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._done()
        if self._unread is not None:
            self._unread.cancel()
        super().connection_lost(exc)

    # -- what arrives

    def data_received(self, data: bytes) -> None:
        """Take bytes; the first ones of a request give it some time for the others."""
        if self._ended or self.transport.is_closing():
            return
        if self.cycle is not None and self.cycle.response_complete:
            self._wait()
        unfinished = self._in_head
        super().data_received(data)
        if unfinished and self._in_head:  # the parser holds back a header that has no end
            self._head_bytes += len(data)
            if self._head_bytes > HEAD_BYTES and not self._ended:
                self._refuse_request(431, _too_long("head", HEAD_BYTES))

    def on_message_begin(self) -> None:
        """Begin the head of a request."""
        self._in_head, self._head_bytes = True, 0
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        """Take a part of the request target."""
        super().on_url(url)
        if len(self.url) > TARGET_BYTES:
            self._refuse(414, _too_long("request target", TARGET_BYTES))

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take one header; a field behind a chunked body says nothing about its request (RFC 9110, 6.5)."""
        if not self._in_head:
            return
        super().on_header(name, value)
        self._head_bytes += len(name) + len(value)
        if len(self.headers) > HEADERS:
            self._refuse(431, Invalid(f"the request has more than {HEADERS} headers. Nothing was done."))
        if self._head_bytes > HEAD_BYTES:
            self._refuse(431, _too_long("head", HEAD_BYTES))

    def on_headers_complete(self) -> None:
        """Begin the request; how long its body takes is decided by what reads it."""
        self._in_head = False
        self._done()
        super().on_headers_complete()

    def _unsupported_upgrade_warning(self) -> None:
        """Answer a request to speak another protocol as if it had not asked, and hang up: RFC 9110, 7.8."""
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.keep_alive = False
        else:
            self.transport.close()

    # -- what is refused before there is a request

    def _refuse(self, status: int, error: HyphaeError) -> None:
        self._refusal = status, error
        raise RefusedHead

    def send_400_response(self, msg: str) -> None:
        """End the connection of what is no HTTP, or too much of it."""
        text = "this is no proper HTTP request. Nothing was done."
        self._refuse_request(*(self._refusal or (400, Invalid(text))))

    def _refuse_request(self, status: int, error: HyphaeError) -> None:
        """Refuse; while an earlier request is being answered just hang up, for it would be taken for its answer."""
        cycle = self.cycle
        answering = cycle is not None and not cycle.response_complete
        if self.pipeline or (answering and (cycle.response_started or not cycle.more_body)):
            self.transport.abort()
            return
        self._end(status, error)
        if not answering and self.transport.can_write_eof():
            self.transport.write_eof()
            self._waiting = self.loop.call_later(LINGER_S, self._give_up)
        else:
            self.transport.close()

    def _end(self, status: int, error: HyphaeError) -> None:
        self._ended = True
        self._done()
        body = jsonrpc.encode(rest.error_body(error))
        headers = [
            *ALWAYS,
            (b"content-type", JSON),
            (b"connection", b"close"),
            (b"content-length", str(len(body)).encode("ascii")),
            *rest.retry_after(error),
        ]
        head = f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n".encode("ascii")
        lines = b"".join(b"%b: %b\r\n" % header for header in headers)
        self.transport.write(head + lines + b"\r\n" + body)
        self._expect_reader()

    # -- patience

    def _wait(self) -> None:
        if self._waiting is None:
            self._waiting = self.loop.call_later(HEAD_S, self._give_up)

    def _done(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _give_up(self) -> None:
        if self.transport is not None:
            self.transport.abort()

    def on_response_complete(self) -> None:
        """Go on with the next request; what was written must still be read."""
        super().on_response_complete()
        self._expect_reader()

    def pause_writing(self) -> None:
        """Stop writing until some of it has been read."""
        super().pause_writing()
        self._expect_reader()

    def resume_writing(self) -> None:
        """Go on writing."""
        self._taken = True
        super().resume_writing()

    def _expect_reader(self) -> None:
        if self._unread is None and self.transport.get_write_buffer_size():
            self._taken = False
            self._unread = self.loop.call_later(READ_S, self._look_for_reader)

    def _look_for_reader(self) -> None:
        self._unread = None
        if self.transport.get_write_buffer_size() and not self._taken:
            self.transport.abort()
        else:
            self._expect_reader()


def _too_long(what: str, limit: int) -> Invalid:
    return Invalid(f"the {what} of the request is longer than {limit} bytes. Nothing was done.")


def bounded(limit: int) -> type[Any]:
    """Return the class of connections of a surface that has at most `limit` of them."""
    return type("BoundedConnection", (BoundedConnection,), {"limit": limit})
