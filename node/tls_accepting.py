"""Accepting connections that begin with a TLS handshake: as many as there are places, each for a short time.

A protocol hears of its connection only after the handshake.  asyncio's own server therefore holds any number of
silent connections, at 330 KB each, for a minute.  Here handshakes and connections share one bound, and who is one too
many is hung up on at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable

import structlog

from node.server_tls import ServerTls

HANDSHAKE_S = 10.0
NO_HANDLES_S = 3.0  # between attempts to accept while the process has no file handle left

_log = structlog.get_logger(__name__)


class TlsAcceptor:
    """Accepts on one socket while `run` runs.

    Args:
        listening: bound, listening, not blocking; closed by its owner.
        tls: whose context of the moment each handshake uses.
        protocol: makes the protocol of a connection.
        connections: how many have shaken hands and are open.
        limit: of those and of handshakes together.
    """

    def __init__(
        self,
        listening: socket.socket,
        tls: ServerTls,
        protocol: Callable[[], asyncio.Protocol],
        connections: Callable[[], int],
        limit: int,
    ) -> None:
        self._listening, self._tls, self._protocol = listening, tls, protocol
        self._connections, self._limit = connections, limit
        self._handshakes: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Accept until cancelled; handshakes under way are then given up."""
        loop = asyncio.get_running_loop()
        try:
            while True:
                await asyncio.sleep(0)  # accepting what already waits gives nobody else a turn
                try:
                    accepted, _ = await loop.sock_accept(self._listening)
                except ConnectionError:
                    continue  # it left before it was taken
                except OSError as error:
                    _log.error("cannot_accept", reason=error.strerror)
                    await asyncio.sleep(NO_HANDLES_S)
                    continue
                if len(self._handshakes) + self._connections() >= self._limit:
                    accepted.close()
                    continue
                task = loop.create_task(self._shake_hands(accepted))
                self._handshakes.add(task)
                task.add_done_callback(self._handshakes.discard)
        finally:
            for task in self._handshakes:
                task.cancel()

    async def _shake_hands(self, accepted: socket.socket) -> None:
        accepted.setblocking(False)
        with contextlib.suppress(OSError):  # TLS errors and time-outs are some
            await asyncio.get_running_loop().connect_accepted_socket(
                self._protocol, accepted, ssl=self._tls.context, ssl_handshake_timeout=HANDSHAKE_S
            )
