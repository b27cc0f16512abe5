"""Accepting for TLS: who is one too many costs the others nothing, and a lack of handles is no flood of lines."""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from types import SimpleNamespace
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from node import tls_accepting
from node.server_tls import ServerTls
from node.tls_accepting import TlsAcceptor

PENDING = 20
TLS = cast(ServerTls, SimpleNamespace(context=ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)))


def test_refusing_many_leaves_the_event_loop_to_the_others() -> None:
    async def check() -> list[int]:
        loop, full, turns, seen = asyncio.get_running_loop(), asyncio.Event(), 0, list[int]()

        def turn() -> None:
            nonlocal turns
            turns += 1
            loop.call_soon(turn)

        def connections() -> int:
            seen.append(turns)
            if len(seen) == PENDING:
                full.set()
            return 1

        with socket.create_server(("127.0.0.1", 0)) as listening:
            listening.setblocking(False)
            clients = [socket.create_connection(listening.getsockname()) for _ in range(PENDING)]
            turn()
            accepting = asyncio.create_task(
                TlsAcceptor(listening, TLS, asyncio.Protocol, connections, 1).run()
            )
            await asyncio.wait_for(full.wait(), 10)
            accepting.cancel()
            await asyncio.gather(accepting, return_exceptions=True)
            for client in clients:
                client.close()
        return seen

    assert len(set(asyncio.run(check()))) == PENDING


class WithoutHandles(socket.socket):
    """A listening socket that finds no file handle the first two times."""

    lacking = 2

    def accept(self) -> Any:
        if self.lacking:
            self.lacking -= 1
            raise OSError(errno.EMFILE, "Too many open files")
        return super().accept()


def test_a_lack_of_handles_is_one_line_for_each_wait_and_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    assert tls_accepting.NO_HANDLES_S >= 3
    monkeypatch.setattr(tls_accepting, "NO_HANDLES_S", 0.01)

    async def check() -> None:
        reached = asyncio.Event()

        def connections() -> int:
            reached.set()
            return 1

        with WithoutHandles(socket.AF_INET, socket.SOCK_STREAM) as listening:
            listening.bind(("127.0.0.1", 0))
            listening.listen()
            listening.setblocking(False)
            accepting = asyncio.create_task(
                TlsAcceptor(listening, TLS, asyncio.Protocol, connections, 1).run()
            )
            with socket.create_connection(listening.getsockname()):
                await asyncio.wait_for(reached.wait(), 10)
            accepting.cancel()
            await asyncio.gather(accepting, return_exceptions=True)

    with capture_logs() as lines:
        asyncio.run(check())
    assert [line["event"] for line in lines] == ["cannot_accept"] * 2
