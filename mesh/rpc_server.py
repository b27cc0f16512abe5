"""The serving end of requests over NATS: bytes in, a handler called, bytes out, everything bounded.

It knows neither what is asked nor who may ask: the handler authenticates.  What comes too late is dropped
unread, because its caller has been told that it may not have happened and has moved on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

import structlog

from mesh import wall_clock
from mesh.nats_address import is_reply_subject
from mesh.repeatable import is_read
from mesh.sealing import seal, unwrap
from mesh.transport import Subscription, Transport
from proto.errors import HyphaeError, Internal, Invalid, Overloaded
from proto.limits import NATS_MESSAGE_BYTES
from proto.messages import Reply, Request, decode_request, encode_reply

_log = structlog.get_logger(__name__)

RequestHandler = Callable[[Request, bytes], Awaitable[Reply]]
"""Takes a request and its argument bytes as signed.  Cancelled at the deadline of the request."""

CONCURRENT_MAX: Final = 256
RETRY_AFTER_MS: Final = 200
STOP_TIMEOUT_S: Final = 2.0
LIFETIME_MAX_S: Final = 120.0  # of a request, whatever deadline it claims
ENVELOPE_BYTES: Final = 128  # what sealing adds to a reply, at most
REPLY_BYTES_MAX: Final = NATS_MESSAGE_BYTES - ENVELOPE_BYTES


@dataclass(slots=True)
class RpcCounters:
    """What a server has done since it was made; only ever grows."""

    served: int = 0
    late: int = 0  # dropped because their deadline had passed
    malformed: int = 0
    refused: int = 0  # answered `Overloaded`
    expired: int = 0  # cancelled at their deadline
    unanswered: int = 0  # replies that could not be sent


class RpcServer:
    """Serves one subject.

    Args:
        transport: any; best a connection of its own, so that bulk traffic does not delay answers.
        subject: `Subjects.requests(peer)`.
        handler: must not raise; what it raises becomes `Internal`.
        now_ms: wall clock, ms since 1970, to compare deadlines with.
        concurrent_max: requests being handled; further ones are refused with a hint when to come back.
    """

    def __init__(
        self,
        transport: Transport,
        subject: str,
        handler: RequestHandler,
        *,
        now_ms: Callable[[], int] = wall_clock.now_ms,
        concurrent_max: int = CONCURRENT_MAX,
    ) -> None:
        self.counters = RpcCounters()
        self._transport = transport
        self._subject = subject
        self._handler = handler
        self._now_ms = now_ms
        self._max = concurrent_max
        self._tasks: set[asyncio.Task[None]] = set()
        self._subscription: Subscription | None = None

    async def start(self) -> None:
        """Begin to serve.  While stopped, askers learn at once that nobody serves the subject."""
        if self._subscription is None:
            self._subscription = await self._transport.subscribe(self._subject, self._receive)

    async def stop(self) -> None:
        """Take no further requests and cancel those in flight, within seconds.  May be started again."""
        subscription, self._subscription = self._subscription, None
        if subscription is not None:
            await subscription.cancel()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=STOP_TIMEOUT_S)

    async def _receive(self, _subject: str, reply_to: str, message: bytes) -> None:
        if not is_reply_subject(reply_to):
            self.counters.malformed += 1
            return
        try:
            asker, body = unwrap(message)
            request, args_bytes = decode_request(body)
        except HyphaeError:
            self.counters.malformed += 1  # without the asker's key there is nothing to answer with
            return
        left_s = (request.deadline_ms - self._now_ms()) / 1000
        if left_s <= 0:
            self.counters.late += 1
            return

        async def answer(reply: Reply) -> None:
            await self._publish(reply_to, lambda: seal(_encode_bounded(reply, request), asker, body))

        if len(self._tasks) >= self._max:
            self.counters.refused += 1
            text = f"{self._max} requests are being served."
            await answer(Reply(error=Overloaded(text, retry_after_ms=RETRY_AFTER_MS)))
            return
        task = asyncio.create_task(self._serve(request, args_bytes, min(left_s, LIFETIME_MAX_S), answer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(
        self, request: Request, args_bytes: bytes, left_s: float, answer: Callable[[Reply], Awaitable[None]]
    ) -> None:
        try:
            async with asyncio.timeout(left_s):
                reply = await self._handler(request, args_bytes)
        except TimeoutError:
            self.counters.expired += 1
            return
        except Exception as error:  # noqa: BLE001 - a defect of one call must be answered like any outcome
            _log.error("a request failed by a defect", method=request.method, error=type(error).__name__)
            reply = Reply(error=Internal("the peer failed on this request; its log says how."))
        self.counters.served += 1
        await answer(reply)

    async def _publish(self, reply_to: str, message: Callable[[], bytes]) -> None:
        """Send an answer; where that fails, the asker will find that the outcome is uncertain."""
        try:
            await self._transport.publish(reply_to, message())
        except HyphaeError as error:
            self.counters.unanswered += 1
            _log.warning("an answer could not be sent", error=type(error).__name__)


def _encode_bounded(reply: Reply, request: Request) -> bytes:
    """Return the reply's wire form, or that of an error where it has none or does not fit a message."""
    try:
        encoded = encode_reply(reply)
    except HyphaeError as error:
        _log.error("a reply has no wire form", method=request.method, error=error.message)
        return encode_reply(Reply(error=Internal("the peer failed to answer this request.")))
    if len(encoded) <= REPLY_BYTES_MAX:
        return encoded
    text = f"the answer is too large ({len(encoded)} bytes, limit {REPLY_BYTES_MAX}); ask for less."
    return encode_reply(Reply(error=Invalid(text, definite=is_read(request))))
