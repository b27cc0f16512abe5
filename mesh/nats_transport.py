"""The transport over NATS: for ever trying to be up, and sure of what "up" means.

It keeps subscriptions, makes one `NatsLink` after another, and listens to itself: an own message is published
every two seconds, the connection counts as up when the first has come back (by then the server has all
subscriptions, for it reads in order), and is discarded when three in a row have not.  A client that publishes
but no longer reads can be told from a healthy one in no other way.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import structlog

from mesh.mailbox import Mailbox
from mesh.nats_address import NatsAddress, parse_nats_url
from mesh.nats_link import NatsLink
from mesh.pending_replies import PendingReplies
from mesh.transport import PENDING_BYTES, PENDING_MESSAGES, Counters, Handler, check_body, check_subject
from proto.errors import HyphaeError, Invalid, Overloaded, Unavailable, Uncertain

_log = structlog.get_logger(__name__)
_NEIGHBOURS_MAX = 32
_CANCEL_AGAIN_S = 2.0  # longer than sending what is queued may take

Urls = str | Sequence[str] | Callable[[], Sequence[str]]


@dataclass(frozen=True, slots=True)
class NatsOptions:
    """Times in seconds and bounds.

    Args:
        heartbeat_s: between two messages to ourselves.  Lower finds a deaf connection sooner, for traffic.
        misses_max: own messages in a row that may stay away.  Counted in beats, not in time, so that a
            stalled event loop is not taken for a deaf connection.
        connect_timeout_s: for TCP, TLS and login together.
        retry_s, retry_max_s: the n-th wait between attempts is random below min(retry_max, retry * 2^n).
        unsent_bytes_max: may wait for the socket before `publish` answers `Overloaded`.
        requests_max: may wait for an answer.
    """

    heartbeat_s: float = 2.0
    misses_max: int = 3
    connect_timeout_s: float = 2.0
    retry_s: float = 0.2
    retry_max_s: float = 2.0
    unsent_bytes_max: int = 8 * 1024 * 1024
    requests_max: int = 1_024


class NatsTransport:
    """See `mesh.transport.Transport`.

    Args:
        urls: servers to try in turn, or a function that is asked before each attempt, so that a server that
            moved or a password that changed is found.
        inbox_prefix: answers to our requests arrive below it.
        echo_subject: on which we hear ourselves; several connections may share it.
        credentials: user and password for URLs that name none.
        name: how the server shows the connection.
    """

    def __init__(
        self,
        urls: Urls,
        *,
        inbox_prefix: str,
        echo_subject: str,
        credentials: tuple[str, str] | None = None,
        name: str = "hyphae",
        options: NatsOptions | None = None,
    ) -> None:
        self.counters = Counters()
        self.last_error = "not started"
        self._urls = urls
        self._credentials = credentials
        self._name = name
        self._options = options or NatsOptions()
        self._inbox_prefix = inbox_prefix
        self._echo_subject = echo_subject
        self._replies = PendingReplies(self._options.requests_max)
        self._subscriptions: list[NatsSubscription] = []
        self._listeners: dict[str, list[Callable[..., None]]] = {"up": [], "down": [], "violation": []}
        self._neighbours: list[str] = []
        self._turn = 0
        self._link: NatsLink | None = None  # open, though perhaps not yet up
        self._inbox = ""  # of the link that is up
        self._up = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._closed = False

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
        for event, listener in (("up", on_up), ("down", on_down), ("violation", on_violation)):
            if listener is not None:
                self._listeners[event].append(listener)

    async def start(self) -> None:
        if self._task is None and not self._closed:
            self._task = asyncio.create_task(self._run(), name=f"{self._name} connection")

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
    ) -> NatsSubscription:
        check_subject(subject, literal=False)
        mailbox = Mailbox(subject, handler, pending_messages, pending_bytes, self.counters)
        subscription = NatsSubscription(self, mailbox)
        self._subscriptions.append(subscription)
        if self._link is not None:
            with contextlib.suppress(Unavailable):  # then the next connection makes it
                await subscription.attach(self._link)
        return subscription

    async def publish(self, subject: str, body: bytes, reply: str | None = None) -> None:
        check_body(body)
        check_subject(subject, literal=True)
        await self._live_link().publish(subject, body, reply or "")
        self.counters.published += 1

    async def request(self, subject: str, body: bytes, timeout_s: float) -> bytes:
        check_body(body)
        check_subject(subject, literal=True)
        link = self._live_link()
        with self._replies.expect() as (token, answer):
            await link.publish(subject, body, f"{self._inbox}.{token}")
            self.counters.published += 1
            try:
                async with asyncio.timeout(timeout_s):
                    return await answer
            except TimeoutError:
                raise Uncertain(f"no answer within {timeout_s:.1f} s; it may have been executed.") from None

    async def close(self) -> None:
        self._closed = True
        while self._task is not None and not self._task.done():
            self._task.cancel()  # the client can swallow it: before Python 3.12 `wait_for` does, by chance
            await asyncio.wait([self._task], timeout=_CANCEL_AGAIN_S)
        await asyncio.gather(*(s.mailbox.close() for s in self._subscriptions))
        self._subscriptions.clear()
        self.last_error = "closed"

    def forget(self, subscription: NatsSubscription) -> None:
        """Leave a subscription out of the connections to come."""
        with contextlib.suppress(ValueError):
            self._subscriptions.remove(subscription)

    def _live_link(self) -> NatsLink:
        if self._link is None or not self._up.is_set():
            raise Unavailable(f"NATS is not connected ({self.last_error}); nothing was sent.")
        return self._link

    async def _run(self) -> None:
        """Make one connection after another until closed."""
        failures = 0
        while not self._closed:
            connects = self.counters.connects
            try:
                await self._live_once()
            except HyphaeError as error:
                self._note_failure(error.message)
            except Exception as error:  # noqa: BLE001 - whatever it was, the next connection comes
                self._note_failure(type(error).__name__)
            failures = 1 if self.counters.connects > connects else failures + 1
            self._turn += 1
            ceiling = min(self._options.retry_max_s, self._options.retry_s * 2 ** min(failures, 16))
            await asyncio.sleep(random.uniform(0, ceiling))  # noqa: S311 - jitter

    async def _live_once(self) -> None:
        """Open one connection and use it until it is lost.

        Raises:
            HyphaeError: always, unless cancelled; the connection is discarded by then.
        """
        link = NatsLink(
            self._next_address(), self._name, self._heard, self._mark_down, self._options.unsent_bytes_max
        )
        flush = False
        try:
            await link.open(self._options.connect_timeout_s)
            if self._closed:
                raise Unavailable("closed")
            self._link = link
            await self._keep(link)
        except asyncio.CancelledError:
            flush = True  # closed on purpose: what was published still goes out
            raise
        finally:
            self._mark_down()
            self._link = None
            await link.discard(flush=flush)

    async def _keep(self, link: NatsLink) -> None:
        """Subscribe everything on a new connection, then listen to ourselves until it fails."""
        inbox = f"{self._inbox_prefix}.{secrets.token_hex(8)}"
        mark = secrets.token_bytes(8)
        heard = 0

        def on_echo(_subject: str, _reply: str, body: bytes, _nobody: bool) -> None:
            nonlocal heard
            if body.startswith(mark):
                heard = int.from_bytes(body[len(mark) :], "big")
                self._mark_up(link, inbox)

        await link.subscribe(self._echo_subject, on_echo)
        await link.subscribe(f"{inbox}.*", self._on_reply)
        for subscription in list(self._subscriptions):
            await subscription.attach(link)
        sent = missed = 0
        while missed < self._options.misses_max:
            sent += 1
            with contextlib.suppress(Overloaded):  # a stalled socket: the echo stays away, and that counts
                await link.publish(self._echo_subject, mark + sent.to_bytes(8, "big"))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._options.heartbeat_s):
                    await link.lost.wait()
            if link.lost.is_set():
                raise Unavailable(link.reason)
            missed = 0 if heard >= sent else missed + 1
        self.counters.rebuilds += 1
        raise Unavailable(f"{missed} own messages in a row did not come back")

    def _next_address(self) -> NatsAddress:
        given = self._urls() if callable(self._urls) else self._urls
        configured = [parse_nats_url(u) for u in ([given] if isinstance(given, str) else given)]
        if not configured:
            raise Invalid("No NATS address is configured.")
        first = configured[0]
        login = (first.user, first.password) if self._credentials is None else self._credentials
        known = configured + [parse_nats_url(url) for url in self._neighbours]
        chosen = known[self._turn % len(known)]
        return chosen if chosen.user is not None else NatsAddress(chosen.url, *login)

    def _on_reply(self, subject: str, _reply: str, body: bytes, nobody: bool) -> None:
        token = subject.rpartition(".")[2]
        if nobody:
            self._replies.fail(token, Unavailable("nobody serves this subject; nothing was executed."))
        else:
            self._replies.resolve(token, body)

    def _mark_up(self, link: NatsLink, inbox: str) -> None:
        if self._up.is_set() or link is not self._link or link.lost.is_set():
            return
        self._inbox = inbox
        self._neighbours = link.neighbours[:_NEIGHBOURS_MAX]
        self.counters.connects += 1
        self.last_error = ""
        _log.info("connected to NATS", connection=self._name, server=link.url)
        self._up.set()
        self._tell("up")

    def _mark_down(self) -> None:
        """Be down at once, not only when the loop comes round: callers and waiters hear of it now."""
        if not self._up.is_set():
            return
        self._up.clear()
        if not self._closed:
            self.counters.losses += 1
        self._replies.fail_all(Uncertain("the connection to NATS was lost; it may have been executed."))
        self._tell("down")

    def _note_failure(self, reason: str) -> None:
        if reason != self.last_error:
            _log.warning("no connection to NATS; trying on", connection=self._name, reason=reason)
        self.last_error = reason

    def _heard(self, complaint: str) -> None:
        if "permissions violation" in complaint.lower():
            self.counters.violations += 1
            _log.error("NATS refuses a subject", connection=self._name, complaint=complaint)
            self._tell("violation", complaint)
        else:
            _log.debug("NATS complains", connection=self._name, complaint=complaint)

    def _tell(self, event: str, *details: str) -> None:
        for listener in self._listeners[event]:
            try:
                listener(*details)
            except Exception as error:  # noqa: BLE001 - a listener must not end the connection
                _log.error("a listener failed", on=event, error=type(error).__name__)


class NatsSubscription:
    """Standing interest, attached to one connection after another."""

    def __init__(self, transport: NatsTransport, mailbox: Mailbox) -> None:
        self.mailbox = mailbox
        self._transport = transport
        self._link: NatsLink | None = None
        self._handle: object | None = None

    async def attach(self, link: NatsLink) -> None:
        """Make the interest known on a connection, once.

        Raises:
            Unavailable, ProtocolError: see `NatsLink.subscribe`.
        """
        if self._link is link:
            return
        self._link = link
        self._handle = await link.subscribe(self.mailbox.subject, self._offer)

    async def cancel(self) -> None:
        self._transport.forget(self)
        if self._link is not None and self._handle is not None:
            await self._link.unsubscribe(self._handle)
        self._link = self._handle = None
        await self.mailbox.close()

    def _offer(self, subject: str, reply: str, body: bytes, _nobody: bool) -> None:
        self.mailbox.offer(subject, reply, body)
