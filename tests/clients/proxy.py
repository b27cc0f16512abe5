"""A proxy that puts the key into every request, for a suite that cannot send one.

The duty: bytes in both directions, and one header more.  It must not know HTTP beyond the head of a request,
so that what the suite sends arrives as it was sent.  One request per connection: `Connection: close` goes
with the key, so no second head ever has to be found in a stream.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

HEAD_BYTES_MAX = 64 * 1024
_CONNECTION = re.compile(rb"\r\nConnection:[^\r\n]*", re.IGNORECASE)


@contextlib.asynccontextmanager
async def key_injecting_proxy(url: str, key: str) -> AsyncIterator[str]:
    """Yield the address of a proxy in front of `url` that presents `key`; closed at the end.

    Args:
        url: `http://HOST:PORT/PATH`, of which the path is kept.
        key: sent as `x-hyphae-key`.
    """
    target = urlsplit(url)
    added = f"\r\nx-hyphae-key: {key}\r\nConnection: close\r\n\r\n".encode()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, EOFError, asyncio.LimitOverrunError):
            head = await reader.readuntil(b"\r\n\r\n")
            up_reader, up_writer = await asyncio.open_connection(target.hostname, target.port)
            up_writer.write(_CONNECTION.sub(b"", head.removesuffix(b"\r\n\r\n")) + added)
            upwards = asyncio.create_task(_copy(reader, up_writer))
            await _copy(up_reader, writer)
            upwards.cancel()
            up_writer.close()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=HEAD_BYTES_MAX)
    async with server:
        port = server.sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}{target.path}"


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(HEAD_BYTES_MAX):
            writer.write(data)
            await writer.drain()
