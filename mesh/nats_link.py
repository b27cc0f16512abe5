"""One TCP connection to a NATS server: the only module that imports the NATS client.

A client object lives as long as one connection and never reconnects by itself: whatever goes wrong, it is
thrown away and the transport makes another.  So nothing that was buffered for a lost connection is ever sent
late, and no state of the client (closed for ever, deaf, a subscription that ended) outlives the connection.
The client is loaded on the first connection, because gateways that do not use NATS must stay small.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

from mesh.nats_address import NatsAddress
from proto.errors import HyphaeError, Overloaded, ProtocolError, Unavailable

if TYPE_CHECKING:
    from nats.aio.client import Client
    from nats.aio.msg import Msg
    from nats.aio.subscription import Subscription as ClientSubscription

PING_INTERVAL_S: Final = 5  # with two outstanding, a silent server is noticed after 15 s, if not by the echo
PINGS_OUTSTANDING: Final = 2
CLOSE_TIMEOUT_S: Final = 1.0
NO_RESPONDERS: Final = "503"

OnMessage = Callable[[str, str, bytes, bool], None]
"""(subject, reply, body, nobody_there): must not block or raise.  `nobody_there`: the server says that nobody
serves the subject of the request whose reply subject this is."""


class NatsLink:
    """A connection that ends once.  After `open`, wait for `lost`; then call `discard` in every case.

    Args:
        address: where to connect and who we are.
        name: how the server shows this connection.
        on_error: told in words of what the client or the server complains about.
        on_lost: called once, at the moment of the loss.
        unsent_bytes_max: bytes that may wait for the socket.
    """

    def __init__(
        self,
        address: NatsAddress,
        name: str,
        on_error: Callable[[str], None],
        on_lost: Callable[[], None],
        unsent_bytes_max: int,
    ) -> None:
        self.url = address.url
        self.lost = asyncio.Event()
        self.reason = "the server closed the connection"
        self._address = address
        self._name = name
        self._on_error = on_error
        self._on_lost = on_lost
        self._unsent_max = unsent_bytes_max
        self._client: Client | None = None
        self._subscriptions: list[ClientSubscription] = []

    async def open(self, timeout_s: float) -> None:
        """Connect and log in.

        Raises:
            Unavailable: it did not come to that; call `discard`.
        """
        from nats.aio.client import Client

        self._client = Client()
        try:
            async with asyncio.timeout(timeout_s):
                await self._client.connect(**self._options(timeout_s))
        except Exception as error:
            cause = self._client.last_error or error
            raise Unavailable(f"no connection to {self._address.url}: {_in_words(cause)}") from error

    def _options(self, timeout_s: float) -> dict[str, Any]:
        user, password = self._address.user, self._address.password
        login = {"token": user} if password is None else {"user": user, "password": password}
        return {
            "servers": [self._address.url],
            "name": self._name,
            "error_cb": self._heard_error,
            "closed_cb": self._heard_closed,
            "allow_reconnect": False,
            # With 0 or less the client would try a closed port for ever inside one call.
            "max_reconnect_attempts": 1,
            "reconnect_time_wait": 0,
            "connect_timeout": timeout_s,
            "ping_interval": PING_INTERVAL_S,
            "max_outstanding_pings": PINGS_OUTSTANDING,
            "pending_size": -1,
            **login,
        }

    @property
    def neighbours(self) -> list[str]:
        """Other servers of the same cluster that this server told of, as URLs without credentials."""
        client = self._client
        return [] if client is None else [f"{u.scheme}://{u.netloc}" for u in client.discovered_servers]

    async def subscribe(self, subject: str, on_message: OnMessage) -> object:
        """Add interest; the caller keeps the result for `unsubscribe`.

        Raises:
            Unavailable, ProtocolError: as `publish`.
        """

        async def hand_over(message: Msg) -> None:
            status = (message.headers or {}).get("Status")
            on_message(message.subject, message.reply, message.data, status == NO_RESPONDERS)

        client = self._usable()
        subscription = await self._guarded(lambda: client.subscribe(subject, cb=hand_over))
        self._subscriptions.append(subscription)
        return subscription

    async def unsubscribe(self, subscription: Any) -> None:
        """End interest; harmless on a lost connection."""
        with contextlib.suppress(ValueError):
            self._subscriptions.remove(subscription)
        with contextlib.suppress(HyphaeError):
            await self._guarded(subscription.unsubscribe)

    async def publish(self, subject: str, body: bytes, reply: str = "") -> None:
        """Queue one message for the socket.

        Raises:
            Unavailable: the connection is gone.
            Overloaded: too much waits for the socket.
            ProtocolError: the client refuses the subject or the size.
        """
        client = self._usable()
        if client.pending_data_size > self._unsent_max:
            raise Overloaded(
                f"{client.pending_data_size} bytes wait to be sent to NATS, limit {self._unsent_max}.",
                retry_after_ms=500,
            )
        await self._guarded(lambda: client.publish(subject, body, reply))

    def _usable(self) -> Client:
        if self._client is None or self.lost.is_set() or not self._client.is_connected:
            raise Unavailable("the connection to NATS is down; nothing was sent.")
        return self._client

    async def _guarded(self, call: Callable[[], Awaitable[Any]]) -> Any:
        from nats import errors

        try:
            return await call()
        except errors.MaxPayloadError as error:
            raise ProtocolError(
                "a message is larger than this NATS server allows; nothing was sent"
            ) from error
        except errors.BadSubjectError as error:
            raise ProtocolError("a subject is empty or holds a space or a stray wildcard") from error
        except (errors.Error, OSError) as error:
            raise Unavailable(f"the connection to NATS is down ({_in_words(error)}).") from error

    async def discard(self, *, flush: bool) -> None:
        """Be rid of the connection within about a second, whatever state it is in.  Never raises.

        Args:
            flush: send first what is queued; otherwise it is thrown away.
        """
        client, self._client = self._client, None
        self._lose()
        if client is None:
            return
        if not flush:
            _abort(client)
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                await client.close()
        except Exception as error:  # noqa: BLE001 - closing a broken client raises all sorts of things
            self._on_error(f"closing: {_in_words(error)}")
        finally:
            _abort(client)
            for subscription in self._subscriptions:
                _end_task(subscription)

    async def _heard_error(self, error: Exception) -> None:
        # An error callback that raises would end the client's reading task and leave it deaf.
        with contextlib.suppress(Exception):
            self._on_error(_in_words(error))

    async def _heard_closed(self) -> None:
        if self._client is not None and self._client.last_error is not None:
            self.reason = _in_words(self._client.last_error)
        self._lose()

    def _lose(self) -> None:
        if not self.lost.is_set():
            self.lost.set()
            self._on_lost()


def _in_words(error: BaseException) -> str:
    """Return one line that names the error; errors of this client hold no secrets."""
    return f"{type(error).__name__}: {error}".strip().rstrip(":")[:200]


def _abort(client: Client) -> None:
    """Close the socket at once and forget what waits for it.

    `Client.close` would first write the rest and wait for the socket, for ever on a connection that
    swallows everything.  These names are private in the client (2.16); the tests on black holes and on
    deafness fail if they go.
    """
    client._pending.clear()
    client._pending_data_size = 0
    writer = getattr(client._transport, "_io_writer", None)
    if writer is not None:
        writer.transport.abort()


def _end_task(subscription: ClientSubscription) -> None:
    """Cancel the reading task of a subscription that an interrupted `Client.close` has left behind."""
    subscription._stop_processing()
