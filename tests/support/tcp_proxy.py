"""A TCP proxy that can go silent, slow or away: what a dropped route or a sleeping laptop looks like from outside."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final

OUT: Final = "out"  # what the client sends to the target
IN: Final = "in"  # what the target sends to the client
BEAT_S: Final = 0.05  # of a slow way


class TcpProxy:
    """Forwards 127.0.0.1:`port` to another port of this machine.

    `stall` keeps all connections open and forwards nothing (a black hole), or nothing in one direction; `slow` lets
    what comes in only trickle; `resume` forwards what was held back and goes on as before; `cut` resets every
    connection, `refuse` those to come as well, until `resume`.
    """

    def __init__(self, target_port: int) -> None:
        self.port = 0
        self._target_port = target_port
        self._flowing = {OUT: asyncio.Event(), IN: asyncio.Event()}
        self._bytes_per_s = 0  # of what comes in; 0 for no limit
        self._refusing = False
        self.resume()
        self._server: asyncio.Server | None = None
        self._writers: list[asyncio.StreamWriter] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    def stall(self, *directions: str) -> None:
        for direction in directions or (OUT, IN):
            self._flowing[direction].clear()

    def slow(self, bytes_per_s: int) -> None:
        self._bytes_per_s = bytes_per_s

    def refuse(self) -> None:
        self._refusing = True
        self.cut()

    def resume(self) -> None:
        self._bytes_per_s, self._refusing = 0, False
        for flowing in self._flowing.values():
            flowing.set()

    def cut(self) -> None:
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        self.cut()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._refusing:
            writer.transport.abort()
            return
        self._writers.append(writer)
        try:
            onward = await asyncio.open_connection("127.0.0.1", self._target_port)
        except OSError:
            writer.transport.abort()
            return
        self._writers.append(onward[1])
        for source, sink, direction in ((reader, onward[1], OUT), (onward[0], writer, IN)):
            task = asyncio.create_task(self._pump(source, sink, direction))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, direction: str) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(self._portion(direction)):
                await self._flowing[direction].wait()
                writer.write(data)
                await writer.drain()
                if direction == IN and self._bytes_per_s:
                    await asyncio.sleep(BEAT_S)
        await self._flowing[direction].wait()  # in a black hole nobody hears that the other side has gone
        writer.transport.abort()

    def _portion(self, direction: str) -> int:
        slow = direction == IN and self._bytes_per_s
        return max(1, round(self._bytes_per_s * BEAT_S)) if slow else 64 * 1024
