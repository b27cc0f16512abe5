"""Requests that wait for their answers, by token.

Knows no connection: the adapter that owns it says what arrived, what failed, and when everything failed.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterator
from contextlib import contextmanager

from proto.errors import HyphaeError, Overloaded


class PendingReplies:
    """A bounded table of waiting requests.

    Args:
        requests_max: waiting at once; a client without a send buffer has no other brake.
    """

    def __init__(self, requests_max: int) -> None:
        self._max = requests_max
        self._waiting: dict[str, asyncio.Future[bytes]] = {}

    @contextmanager
    def expect(self) -> Iterator[tuple[str, asyncio.Future[bytes]]]:
        """Yield a token that nobody can guess and the future of its answer; forget both on the way out.

        Raises:
            Overloaded: the table is full; nothing was added.
        """
        if len(self._waiting) >= self._max:
            raise Overloaded(
                f"{self._max} requests are waiting for answers; this one was not sent.", retry_after_ms=200
            )
        token = secrets.token_hex(8)
        future: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._waiting[token] = future
        try:
            yield token, future
        finally:
            del self._waiting[token]
            if future.done() and not future.cancelled():
                future.exception()  # mark as seen: the caller may have left before it looked

    def resolve(self, token: str, body: bytes) -> None:
        """Hand an answer to whoever waits; an answer that nobody waits for any more is ignored."""
        future = self._waiting.get(token)
        if future is not None and not future.done():
            future.set_result(body)

    def fail(self, token: str, error: HyphaeError) -> None:
        """End one wait with an error."""
        future = self._waiting.get(token)
        if future is not None and not future.done():
            future.set_exception(error)

    def fail_all(self, error: HyphaeError) -> None:
        """End all waits with an error."""
        for token in list(self._waiting):
            self.fail(token, error)
