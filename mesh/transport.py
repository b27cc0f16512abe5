"""The port between peers: messages by subject, at most once, and requests with an answer.

Adapters: `nats_transport` (the wire) and `loopback` (memory, for tests).  One contract suite holds for both.
A message may be lost, doubled or late; whoever needs more builds it above.  Nothing here knows what the
bytes mean.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Protocol

from proto.errors import ProtocolError
from proto.limits import NATS_MESSAGE_BYTES

Handler = Callable[[str, str, bytes], Awaitable[None]]
"""Receives (subject, reply subject or "", body).  Called for one message at a time per subscription."""

PENDING_MESSAGES: Final = 4_096
PENDING_BYTES: Final = 16 * 1024 * 1024


_LITERAL = re.compile(r"[^\s.*>]+(?:\.[^\s.*>]+)*")
_PATTERN = re.compile(r"(?:[^\s.*>]+|\*|>\Z)(?:\.(?:[^\s.*>]+|\*|>\Z))*")


@dataclass(slots=True)
class Counters:
    """What a transport has done since it was made; only ever grows."""

    connects: int = 0  # connections that came up
    losses: int = 0  # of these, connections that ended other than by `close`
    rebuilds: int = 0  # of these, connections discarded because they had gone deaf
    published: int = 0
    received: int = 0
    dropped: int = 0  # messages thrown away because a subscription's queue was full
    violations: int = 0  # subjects that the server refused
    handler_errors: int = 0


class Subscription(Protocol):
    """Standing interest in a subject; it outlives connections."""

    async def cancel(self) -> None:
        """End the interest and drop what is queued.  A message being handled is cancelled."""
        ...


class Transport(Protocol):
    """One connection to the mesh, for ever trying to be up."""

    @property
    def connected(self) -> bool:
        """Whether an own message has come back over this connection and nothing bad was seen since."""
        ...

    @property
    def counters(self) -> Counters: ...

    def watch(
        self,
        *,
        on_up: Callable[[], None] | None = None,
        on_down: Callable[[], None] | None = None,
        on_violation: Callable[[str], None] | None = None,
    ) -> None:
        """Add listeners.  They must not block; what they raise is logged and goes no further.

        `on_up` is called on each new connection, once every subscription is in force there.
        """
        ...

    async def start(self) -> None:
        """Begin connecting in the background.  Never fails because the other side is away."""
        ...

    async def wait_connected(self, timeout_s: float) -> bool:
        """Wait until `connected`, at most `timeout_s` seconds; tell whether it is."""
        ...

    async def subscribe(
        self,
        subject: str,
        handler: Handler,
        *,
        pending_messages: int = PENDING_MESSAGES,
        pending_bytes: int = PENDING_BYTES,
    ) -> Subscription:
        """Hand messages on a subject (`*` one token, `>` the rest) to `handler`, in order of arrival.

        Remembered, and made again on each new connection.  In force once `on_up` was called, or, made while
        connected, for everything that this transport sends later.  While `pending_messages` messages or
        `pending_bytes` bytes wait, further ones are dropped and counted.  A handler that raises is counted
        and gets the next message.

        Raises:
            ProtocolError: no proper subject; nothing is remembered.
        """
        ...

    async def publish(self, subject: str, body: bytes, reply: str | None = None) -> None:
        """Send one message; it is gone when this returns, and nobody may have heard it.

        Raises:
            Unavailable: not connected; nothing was or will be sent.
            Overloaded: too much is waiting to be sent; nothing was added.
            ProtocolError: body over 512 KiB or no proper subject; the connection was not touched.
        """
        ...

    async def request(self, subject: str, body: bytes, timeout_s: float) -> bytes:
        """Send one message and return the answer of whoever serves the subject.

        Raises:
            Unavailable: (definite) not connected, or nobody serves the subject.
            Uncertain: no answer within `timeout_s`, or the connection was lost while waiting.
            Overloaded, ProtocolError: as `publish`; nothing was sent.
        """
        ...

    async def close(self) -> None:
        """End the connection, within seconds whatever its state.  Waiting requests fail `Uncertain`."""
        ...


def check_body(body: bytes) -> None:
    """Refuse a body that the server would answer by cutting the connection.

    Raises:
        ProtocolError: over the limit.
    """
    if len(body) > NATS_MESSAGE_BYTES:
        raise ProtocolError(f"a message has {len(body)} bytes, limit {NATS_MESSAGE_BYTES}; nothing was sent")


def check_subject(subject: str, *, literal: bool) -> None:
    """Refuse what is no subject: tokens between dots, `*` or a final `>` only where not `literal`.

    Raises:
        ProtocolError: empty, an empty token, a space, or a stray wildcard.
    """
    if not (_LITERAL if literal else _PATTERN).fullmatch(subject):
        raise ProtocolError(f'"{subject[:80]}" is no subject' + (" to send to" if literal else ""))
