"""One HTTP request and its response, over ASGI: headers in, a bounded body in, one whole body out.

The duty: the rules of the ASGI protocol and nothing of ours: no route, no key, no JSON-RPC.  Responses are
sent in one piece; whether the client was still there is told to the caller.
Source: ASGI HTTP specification 2.x.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, MutableMapping, Sequence
from typing import Any, Final, TypeVar

from mcp_gateway.body_room import BodyRoom

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
AsgiApp = Callable[[Scope, Receive, Send], Awaitable[None]]
Headers = Sequence[tuple[bytes, bytes]]

BODY_S = 30.0
JSON = b"application/json"
ALWAYS: Final = ((b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff"))
"""Sent with every response: answers hold memories, and are never anything but what they say they are."""

_T = TypeVar("_T")


class TooLarge(Exception):
    """The body exceeds the limit; what was read of it is gone."""


class TooSlow(Exception):
    """The body did not arrive in time."""


class Gone(Exception):
    """The client closed the connection; there is nobody to answer."""


class Exchange:
    """One request.

    Args:
        scope: of an ASGI connection of type http.
        receive: as ASGI gives it.
        send: as ASGI gives it.
        room: of bodies on this surface.
    """

    def __init__(self, scope: Scope, receive: Receive, send: Send, room: BodyRoom | None = None) -> None:
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.query: bytes = scope["query_string"]
        self._headers: list[tuple[bytes, bytes]] = list(scope["headers"])
        self._receive = receive
        self._send = send
        self._room = room or BodyRoom()
        self._watch: asyncio.Future[Message] | None = None
        self._responded = False

    def header(self, name: bytes) -> list[str]:
        """Return all values of a header, given in lower case, without surrounding blanks."""
        return [value.decode("latin-1").strip(" \t") for key, value in self._headers if key == name]

    @property
    def announced_bytes(self) -> int | None:
        """The length of the body by its header; None where only its end will tell."""
        values = self.header(b"content-length")
        if values and values[0].isdecimal():
            return int(values[0][:20])
        return None if self.header(b"transfer-encoding") else 0

    async def body(self, limit: int) -> bytes:
        """Return the whole body.

        Raises:
            TooLarge: more than `limit` bytes are announced or arrive.
            TooSlow: it takes longer than 30 s.
            Gone: the client left before its end.
            Overloaded: too much of other bodies is under way.
        """
        if (self.announced_bytes or 0) > limit:
            raise TooLarge
        try:
            async with asyncio.timeout(BODY_S):
                return await self._gather(limit)
        except TimeoutError:
            raise TooSlow from None

    async def _gather(self, limit: int) -> bytes:
        message = await self._receive()
        if message["type"] == "http.request" and not message.get("more_body", False):
            whole: bytes = message.get("body", b"")  # nearly always one piece
            if len(whole) > limit:
                raise TooLarge
            return whole
        pieces = bytearray()
        taken = 0
        try:
            while message["type"] != "http.disconnect":
                piece: bytes = message.get("body", b"")
                self._room.take(len(piece))
                taken += len(piece)
                pieces += piece
                if taken > limit:
                    raise TooLarge
                if not message.get("more_body", False):
                    return bytes(pieces)
                message = await self._receive()
            raise Gone
        finally:
            self._room.give_back(taken)

    def watch(self) -> asyncio.Future[Message]:
        """Begin to notice the client's leaving.  Only after the body has been read."""
        if self._watch is None:
            self._watch = asyncio.ensure_future(self._receive())
        return self._watch

    async def while_connected(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Return the result of work that is dropped when the client leaves.

        Raises:
            Gone: the client left; the work was cancelled.
        """
        gone: asyncio.Future[Any] = self.watch()
        task: asyncio.Future[Any] = asyncio.ensure_future(work)
        try:
            await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                raise Gone
            result: _T = task.result()
            return result
        finally:
            if not task.done():
                task.cancel()

    async def respond(
        self, status: int, body: bytes, content_type: bytes = JSON, headers: Headers = ()
    ) -> bool:
        """Send the response; tell whether the client was there for all of it, as far as `watch` noticed.

        A second response to one request is not sent.
        """
        if self._responded:
            return False
        self._responded = True
        start = [*ALWAYS, (b"content-length", str(len(body)).encode("ascii")), *headers]
        if body:
            start.append((b"content-type", content_type))
        try:
            if self._watch is not None and self._watch.done():
                return False
            await self._send({"type": "http.response.start", "status": status, "headers": start})
            await self._send({"type": "http.response.body", "body": body})
        except OSError:
            return False
        finally:
            if self._watch is not None:
                self._watch.cancel()
        return True
