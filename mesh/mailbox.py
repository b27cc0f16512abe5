"""A bounded queue between a connection and one handler.

The connection offers and never waits; one task hands over in order.  The task lives as long as the
subscription, not as long as a connection, so that a lost connection cancels nobody's work half-way.
"""

from __future__ import annotations

import asyncio
from collections import deque

import structlog

from mesh.transport import Counters, Handler

_log = structlog.get_logger(__name__)
_REPORT_EVERY = 1_000  # drops or failures between two log lines


class Mailbox:
    """What waits for one handler.

    Args:
        subject: for log lines only.
        handler: called with one message at a time.
        pending_messages, pending_bytes: bounds of what may wait; beyond them a message is dropped.
        counters: told of messages received, dropped and failed.
    """

    def __init__(
        self, subject: str, handler: Handler, pending_messages: int, pending_bytes: int, counters: Counters
    ) -> None:
        self.subject = subject
        self._handler = handler
        self._messages_max = pending_messages
        self._bytes_max = pending_bytes
        self._counters = counters
        self._waiting: deque[tuple[str, str, bytes]] = deque()
        self._bytes = 0
        self._dropped = self._failed = 0
        self._arrived = asyncio.Event()
        self._closed = False
        self._task = asyncio.create_task(self._hand_over(), name=f"mailbox {subject}")

    def offer(self, subject: str, reply: str, body: bytes) -> None:
        """Queue a message, or drop and count it when the queue is full.  Never blocks, never raises."""
        if self._closed:
            return
        self._counters.received += 1
        if len(self._waiting) >= self._messages_max or self._bytes + len(body) > self._bytes_max:
            self._drop()
            return
        self._waiting.append((subject, reply, body))
        self._bytes += len(body)
        self._arrived.set()

    async def close(self) -> None:
        """Drop what waits and cancel the message being handled."""
        self._closed = True  # a handler may swallow its cancellation
        self._waiting.clear()
        self._bytes = 0
        self._task.cancel()
        if self._task is not asyncio.current_task():
            await asyncio.gather(self._task, return_exceptions=True)

    def _drop(self) -> None:
        self._counters.dropped += 1
        if self._dropped % _REPORT_EVERY == 0:
            _log.warning("messages come faster than they are handled and are dropped", subject=self.subject)
        self._dropped += 1

    def _note_failure(self, error: Exception) -> None:
        self._counters.handler_errors += 1
        if self._failed % _REPORT_EVERY == 0:
            _log.error("a message could not be handled", subject=self.subject, error=type(error).__name__)
        self._failed += 1

    async def _hand_over(self) -> None:
        while not self._closed:
            while self._waiting:
                message = self._waiting.popleft()
                self._bytes -= len(message[2])
                try:
                    await self._handler(*message)
                except Exception as error:  # noqa: BLE001 - one bad message must not end the subscription
                    self._note_failure(error)
            self._arrived.clear()
            if not self._closed:
                await self._arrived.wait()
