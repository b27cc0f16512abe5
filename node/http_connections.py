"""Connections of the HTTP surfaces: not so many that files run out, and none that stays without a request.

Without this, whoever reaches the port needs no key to take every file handle of a peer, and with them its
socket, its log and its processor.
"""

from __future__ import annotations

import asyncio
import resource
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HANDLES_WANTED = 16_384
HANDLES_KEPT = 256  # for the log, NATS, indexes and whatever libraries open
HEAD_S = 20.0  # from a connection, or the first byte of a further request, to the end of its headers


def connection_limit() -> int:
    """Return how many connections each of the two surfaces may have; the limit of this process is raised."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = HANDLES_WANTED if hard == resource.RLIM_INFINITY else min(hard, HANDLES_WANTED)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            soft = wanted
        except (OSError, ValueError):
            pass  # macOS allows less than it says
    have = HANDLES_WANTED if soft == resource.RLIM_INFINITY else soft
    return max(16, (have - HANDLES_KEPT) // 2)


class BoundedConnection(HttpToolsProtocol):
    """One connection; closed at once beyond `limit`, and when its headers do not come."""

    limit = 1_024
    _waiting: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take the connection, or drop it where there are too many."""
        super().connection_made(transport)
        if len(self.connections) > self.limit:
            transport.abort()
        else:
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._done()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take bytes; the first ones of a request give it some time for the others."""
        if self.cycle is not None and self.cycle.response_complete:
            self._wait()
        super().data_received(data)

    def on_headers_complete(self) -> None:
        """Begin the request; how long its body takes is decided by what reads it."""
        self._done()
        super().on_headers_complete()

    def _wait(self) -> None:
        if self._waiting is None:
            self._waiting = self.loop.call_later(HEAD_S, self._give_up)

    def _done(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _give_up(self) -> None:
        if self.transport is not None and not self.transport.is_closing():
            self.transport.abort()


def bounded(limit: int) -> type[Any]:
    """Return the class of connections of a surface that has at most `limit` of them."""
    return type("BoundedConnection", (BoundedConnection,), {"limit": limit})
