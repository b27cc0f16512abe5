"""Connections of the HTTP surfaces: bounded in number, and closed when no request comes."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import socket
from collections.abc import AsyncIterator
from typing import Any

import pytest
import uvicorn

from node import http_connections
from node.http_connections import bounded, connection_limit

REQUEST = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"


async def app(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body"})


@contextlib.asynccontextmanager
async def serving(limit: int) -> AsyncIterator[int]:
    """Serve on a free port for the block."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        config = uvicorn.Config(app, http=bounded(limit), lifespan="off", log_config=None, ws="none")
        server = uvicorn.Server(config)
        task = asyncio.create_task(server._serve(sockets=[listening]))
        try:
            yield listening.getsockname()[1]
        finally:
            server.should_exit = True
            await task


async def answered(port: int) -> bool:
    """Return whether a new connection gets an answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(REQUEST)
        return (await reader.read(12)) == b"HTTP/1.1 204"
    except ConnectionError:
        return False
    finally:
        writer.close()


async def is_closed(reader: asyncio.StreamReader) -> bool:
    """Wait until the other side has closed; an abort is a reset or an end."""
    try:
        return await asyncio.wait_for(reader.read(), 5) == b""
    except ConnectionError:
        return True


def test_one_beyond_the_limit_is_closed_and_the_place_of_one_that_left_is_free() -> None:
    async def check() -> None:
        async with serving(3) as port:
            held = [await asyncio.open_connection("127.0.0.1", port) for _ in range(3)]
            assert not await answered(port)
            held[0][1].close()
            await asyncio.sleep(0.1)
            assert await answered(port)
            for _, writer in held:
                writer.close()

    asyncio.run(check())


@pytest.mark.parametrize("sent", [b"", REQUEST[:10], REQUEST + REQUEST[:10]])
def test_one_whose_headers_do_not_come_is_closed(sent: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_connections, "HEAD_S", 0.3)

    async def check() -> None:
        async with serving(3) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(sent[: len(REQUEST)])
            if len(sent) > len(REQUEST):
                await reader.readuntil(b"\r\n\r\n")
                writer.write(sent[len(REQUEST) :])
            assert await is_closed(reader)
            writer.close()

    asyncio.run(check())


def test_the_limit_leaves_handles_for_everything_else() -> None:
    limit = connection_limit()
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    assert soft == resource.RLIM_INFINITY or 2 * limit < soft
