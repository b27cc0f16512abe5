"""The way from a stdio process to its peer: found on the first call, under one key, with its pages counted.

The duty: turn (method, arguments, deadline) into a `Request` of this process.  The key and the peer are
looked for when they are first needed, and again while they are missing, so that no handshake waits for them.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from mcp_gateway.written_pages import WrittenPages, reader_of
from mesh import wall_clock
from mesh.ports import Requester
from proto.errors import HyphaeError, Unauthenticated, Unavailable
from proto.messages import OWN_STORES, KeyCredential, Reply, Request

_CONFIRMS = frozenset({"drain_inbox", "close_session"})
_SEARCHES = frozenset({"recall", "query"})


class PeerDoor:
    """A `calling.Door` for one stdio process.  Lives on one event loop.

    Args:
        make_requester: connects to a peer; may take its time; raises `HyphaeError` or `OSError`.
        key: returns the key, or raises `Unauthenticated`.
        default_project: of calls that name none.
        mark: 8 random bytes of this process.
        pages: what each reader was given for certain.
    """

    def __init__(
        self,
        make_requester: Callable[[], Awaitable[Requester]],
        key: Callable[[], str],
        default_project: str | None,
        mark: bytes,
        pages: WrittenPages,
    ) -> None:
        self._make_requester = make_requester
        self._find_key = key
        self._default_project = default_project
        self._mark = mark
        self._pages = pages
        self._stored: deque[str] = deque(maxlen=OWN_STORES)
        self._key: str | None = None
        self._is_refused = False
        self._requester: Requester | None = None
        self._connecting: asyncio.Future[Requester] | None = None

    def key(self) -> str:
        """Return the key of this process, looked up once it exists, and again when it was refused.

        Raises:
            Unauthenticated: there is none; the next call looks again.
        """
        if self._key is None or self._is_refused:
            found = self._find_key()
            if found != self._key:
                self._stored.clear()  # they may be another agent's
            self._key, self._is_refused = found, False
        return self._key

    async def __call__(self, method: str, args: Mapping[str, Any], deadline_ms: int) -> Reply:
        """Return the reply of the peer; a missing key or peer is an error in it."""
        try:
            credential = KeyCredential(self.key())
            requester = await self._connected(deadline_ms)
        except HyphaeError as error:
            return Reply(error=error)
        wrote = await self._wrote(method, args)
        request = Request(method, args, deadline_ms, credential, self._mark, wrote, self._default_project)
        reply = await requester.request(request)
        if method == "store" and reply.result is not None:
            self._stored.append(str(reply.result["node_id"]))
        if isinstance(reply.error, Unauthenticated):
            self._is_refused = True  # it may have been replaced, or that peer does not know it yet
        return reply

    async def _wrote(self, method: str, args: Mapping[str, Any]) -> str | None:
        """Return what this process has written that the call depends on: `Request.wrote`."""
        if method in _CONFIRMS:
            return await self._pages.last(reader_of(args))
        return ",".join(self._stored) or None if method in _SEARCHES else None

    async def close(self) -> None:
        """Release the connection, and stop looking for one."""
        if self._connecting is not None:
            self._connecting.cancel()
        if self._requester is not None:
            await self._requester.close()

    async def _connected(self, deadline_ms: int) -> Requester:
        """Return the connection; concurrent callers share one attempt, which outlives each of them."""
        if self._requester is not None:
            return self._requester
        if self._connecting is None:
            self._connecting = asyncio.ensure_future(self._make_requester())
        attempt = self._connecting
        left_s = max(0, deadline_ms - wall_clock.now_ms()) / 1000
        await asyncio.wait({attempt}, timeout=left_s)
        if not attempt.done():
            raise Unavailable(f"no peer could be reached within {left_s:.0f} s.")
        if self._connecting is attempt:
            self._connecting = None
        try:
            self._requester = attempt.result()
        except OSError as error:
            raise Unavailable(f"no peer could be reached: {type(error).__name__}.") from error
        return self._requester
