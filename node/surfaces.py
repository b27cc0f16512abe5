"""The HTTP surfaces of a peer: one application on TCP, one on its Unix socket, served by uvicorn.

Both listen before the peer says that it is ready; a port that is taken is an error that names its holder.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import uvicorn

from mcp_gateway.http_app import build_app
from node.data_directory import PeerDirectory
from node.http_connections import bounded, connection_limit
from node.locations import web_url
from node.peer_config import PeerConfig
from node.peer_core import PeerCore
from node.processes import port_holder
from node.server_tls import ServerTls
from node.tls_accepting import TlsAcceptor
from node.version import version
from proto.errors import Unavailable

BACKLOG = 512
GRACE_S = 3


class _Server(uvicorn.Server):
    """uvicorn without its signal handlers, the peer has its own; with TLS it does not accept by itself either.

    Args:
        tls: of its connections, or None.
        limit: of its connections.
    """

    def __init__(self, config: uvicorn.Config, tls: ServerTls | None, limit: int) -> None:
        super().__init__(config)
        self._tls, self._limit = tls, limit
        self._accepting: list[asyncio.Task[None]] = []

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to accept."""
        if self._tls is None:
            await super().startup(sockets)
            return
        await super().startup([])
        for listening in sockets or []:
            acceptor = TlsAcceptor(
                listening, self._tls, self._protocol, lambda: len(self.server_state.connections), self._limit
            )
            self._accepting.append(asyncio.create_task(acceptor.run()))

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept no more, and end what is open."""
        for task in self._accepting:
            task.cancel()
        await asyncio.gather(*self._accepting, return_exceptions=True)
        await super().shutdown(sockets)

    def _protocol(self) -> asyncio.Protocol:
        made: asyncio.Protocol = self.config.http_protocol_class(  # type: ignore[call-arg]
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )
        return made

    @contextlib.contextmanager
    def capture_signals(self) -> Any:
        yield


class Surfaces:
    """Listens on construction.

    Args:
        core: the parts behind.
        directory: where the socket lies.
        config: address, names, connections.
        tls: of TCP; None for plain HTTP.

    Raises:
        Unavailable: the port is taken, or the socket cannot be made; nothing is listening.
    """

    def __init__(
        self, core: PeerCore, directory: PeerDirectory, config: PeerConfig, tls: ServerTls | None
    ) -> None:
        self._core, self._config, self._tls = core, config, tls
        self._tcp = _listen(config.http_host, config.http_port)
        try:
            self._unix_path = directory.socket()
            self._unix = _listen_unix(self._unix_path)
        except BaseException:
            self._tcp.close()
            raise
        shown, actual = self._tcp.getsockname()[:2]
        self.http_url = web_url(config.http_name or shown, actual, tls=tls is not None)

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """Serve both for as long as the block runs; then answer what is under way, for at most 3 s."""
        core, config = self._core, self._config
        servers, limit = [], connection_limit(config.http_connections)
        own_name = () if config.http_name is None else (config.http_name,)
        for local, listening, tls in ((False, self._tcp, self._tls), (True, self._unix, None)):
            app = build_app(
                core.service,
                ready=core.readiness,
                metrics=core.metrics,
                local_user=local,
                allowed_hosts=(*config.allowed_hosts, *own_name),
                allowed_origins=config.allowed_origins,
                version=version(),
            )
            servers.append((_server(app, limit, tls), listening))
        tasks = [asyncio.create_task(server.serve(sockets=[listening])) for server, listening in servers]
        try:
            await self._until_started([server for server, _ in servers], tasks)
            yield
        finally:
            for server, _ in servers:
                server.should_exit = True
            await asyncio.gather(*tasks, return_exceptions=True)
            self._tcp.close()
            self._unix.close()
            with contextlib.suppress(OSError):
                self._unix_path.unlink()

    async def _until_started(self, servers: list[_Server], tasks: list[asyncio.Task[None]]) -> None:
        while not all(server.started for server in servers):
            for task in tasks:
                if task.done():
                    raise Unavailable("the HTTP surface ended while starting; see the log.")
            await asyncio.sleep(0.005)


def _server(app: Any, connections: int, tls: ServerTls | None) -> _Server:
    return _Server(
        uvicorn.Config(
            app,
            loop="none",
            http=bounded(connections),
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="error",  # whoever reaches the port could fill the log with warnings
            access_log=False,
            server_header=False,
            date_header=False,
            backlog=BACKLOG,
            timeout_keep_alive=75,
            timeout_graceful_shutdown=GRACE_S,
        ),
        tls,
        connections,
    )


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With the protocol named, asyncio sets TCP_NODELAY on what is accepted; without it a reply waits 40 ms.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen(BACKLOG)
    except OSError as error:
        listening.close()
        raise Unavailable(
            f"{host}:{port} cannot be listened on: {error.strerror} ({port_holder(port)}). Choose another --http-port."
        ) from error
    listening.setblocking(False)
    return listening


def _listen_unix(path: Path) -> socket.socket:
    with contextlib.suppress(FileNotFoundError):
        path.unlink()  # the lock is held, so whoever made it is gone
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listening.bind(str(path))
        path.chmod(0o600)
        listening.listen(BACKLOG)
    except OSError as error:
        listening.close()
        raise Unavailable(f"the socket {path} cannot be made: {error.strerror}.") from error
    listening.setblocking(False)
    return listening
