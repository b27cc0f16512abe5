"""A transport in memory: a verified fake for tests, held to the same contract suite as the NATS one.

A `Loopback` stands for the server.  It delivers in order to every matching subscription, answers requests
that nobody serves, and can be taken away and brought back.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from mesh.mailbox import Mailbox
from mesh.pending_replies import PendingReplies
from mesh.transport import PENDING_BYTES, PENDING_MESSAGES, Counters, Handler, check_body, check_subject
from proto.errors import Unavailable, Uncertain


def matches(pattern: str, subject: str) -> bool:
    """Tell whether a subject fits a pattern: `*` is one token, a final `>` is one or more."""
    wanted, given = pattern.split("."), subject.split(".")
    if wanted[-1] == ">":
        wanted.pop()
        if len(given) <= len(wanted):
            return False
        given = given[: len(wanted)]
    return len(wanted) == len(given) and all(w in ("*", g) for w, g in zip(wanted, given, strict=True))


class Loopback:
    """What stands for the server: the transports that are attached, and whether it is there."""

    def __init__(self) -> None:
        self.up = True
        self.transports: list[LoopbackTransport] = []

    def stop(self) -> None:
        """Be away: every transport is down at once, and waiting requests fail."""
        self.up = False
        for transport in self.transports:
            transport.mark_down()

    def restart(self) -> None:
        """Be there again: every started transport is up."""
        self.up = True
        for transport in self.transports:
            transport.mark_up()

    def deliver(self, subject: str, reply: str, body: bytes) -> bool:
        """Hand a message to all who listen; tell whether anybody does."""
        heard = [t.offer(subject, reply, body) for t in self.transports if t.connected]
        return any(heard)


class LoopbackTransport:
    """See `mesh.transport.Transport`.

    Args:
        loopback: the server that it attaches to.
        inbox_prefix: answers to our requests arrive below it; must differ between transports.
        requests_max: may wait for an answer at once.
    """

    def __init__(self, loopback: Loopback, *, inbox_prefix: str, requests_max: int = 1_024) -> None:
        self.counters = Counters()
        self._loopback = loopback
        self._inbox_prefix = inbox_prefix
        self._replies = PendingReplies(requests_max)
        self._subscriptions: list[LoopbackSubscription] = []
        self._listeners: list[tuple[Callable[[], None] | None, Callable[[], None] | None]] = []
        self._up = asyncio.Event()

    @property
    def connected(self) -> bool:
        return self._up.is_set()

    def watch(
        self,
        *,
        on_up: Callable[[], None] | None = None,
        on_down: Callable[[], None] | None = None,
        on_violation: Callable[[str], None] | None = None,
    ) -> None:
        self._listeners.append((on_up, on_down))

    async def start(self) -> None:
        if self not in self._loopback.transports:
            self._loopback.transports.append(self)
            if self._loopback.up:
                self.mark_up()

    async def wait_connected(self, timeout_s: float) -> bool:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._up.wait()
        return self.connected

    async def subscribe(
        self,
        subject: str,
        handler: Handler,
        *,
        pending_messages: int = PENDING_MESSAGES,
        pending_bytes: int = PENDING_BYTES,
    ) -> LoopbackSubscription:
        check_subject(subject, literal=False)
        mailbox = Mailbox(subject, handler, pending_messages, pending_bytes, self.counters)
        subscription = LoopbackSubscription(self._subscriptions, mailbox)
        self._subscriptions.append(subscription)
        return subscription

    async def publish(self, subject: str, body: bytes, reply: str | None = None) -> None:
        self._send(subject, body, reply or "")

    async def request(self, subject: str, body: bytes, timeout_s: float) -> bytes:
        with self._replies.expect() as (token, answer):
            if not self._send(subject, body, f"{self._inbox_prefix}.{token}"):
                raise Unavailable("nobody serves this subject; nothing was executed.")
            try:
                async with asyncio.timeout(timeout_s):
                    return await answer
            except TimeoutError:
                raise Uncertain(f"no answer within {timeout_s:.1f} s; it may have been executed.") from None

    async def close(self) -> None:
        if self in self._loopback.transports:
            self._loopback.transports.remove(self)
        self.mark_down(lost=False)
        await asyncio.gather(*(s.mailbox.close() for s in self._subscriptions))
        self._subscriptions.clear()

    def offer(self, subject: str, reply: str, body: bytes) -> bool:
        """Take a message if it is for us; tell whether it is."""
        prefix, _, token = subject.rpartition(".")
        if prefix == self._inbox_prefix:
            self._replies.resolve(token, body)
            return True
        interested = [s for s in self._subscriptions if matches(s.mailbox.subject, subject)]
        for subscription in interested:
            subscription.mailbox.offer(subject, reply, body)
        return bool(interested)

    def mark_up(self) -> None:
        """The server is there."""
        if not self._up.is_set():
            self._up.set()
            self.counters.connects += 1
            self._tell(0)

    def mark_down(self, *, lost: bool = True) -> None:
        """The server is away."""
        if self._up.is_set():
            self._up.clear()
            self.counters.losses += lost
            self._replies.fail_all(Uncertain("the connection was lost; it may have been executed."))
            self._tell(1)

    def _send(self, subject: str, body: bytes, reply: str) -> bool:
        check_body(body)
        check_subject(subject, literal=True)
        if not self._up.is_set():
            raise Unavailable("the loopback is away; nothing was sent.")
        self.counters.published += 1
        return self._loopback.deliver(subject, reply, body)

    def _tell(self, which: int) -> None:
        for listeners in self._listeners:
            listener = listeners[which]
            if listener is not None:
                with contextlib.suppress(Exception):
                    listener()


class LoopbackSubscription:
    """Standing interest of one transport."""

    def __init__(self, all_of_them: list[LoopbackSubscription], mailbox: Mailbox) -> None:
        self.mailbox = mailbox
        self._all = all_of_them

    async def cancel(self) -> None:
        if self in self._all:
            self._all.remove(self)
        await self.mailbox.close()
