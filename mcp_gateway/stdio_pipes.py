"""The two pipes of a stdio server: blocking reads and writes on threads, seen from an event loop.

The duty: bytes in as lines, bytes out as whole messages, both bounded.  Threads, because a pipe may also be a
file, a terminal or /dev/null, which event loops refuse, and because making a shared descriptor non-blocking
would change it for its other owners.  It knows no JSON.
"""

from __future__ import annotations

import asyncio
import os
import queue
import sys
import threading
from collections.abc import Callable
from functools import partial

from mcp_gateway.lines import LineSplitter, Oversized

CHUNK_BYTES = 64 * 1024
CHUNKS_AHEAD = 8  # read but not yet handled
BACKLOG_BYTES = 4 * 1024 * 1024  # answers that the client has not taken yet: then reading pauses

Lines = list[bytes | Oversized]


def take_over() -> tuple[int, int]:
    """Keep the real stdin and stdout for the protocol, and put harmless ones in their place.

    Afterwards whatever prints goes to stderr, and no child process inherits the pipes of the client.

    Returns:
        Descriptors of the pipe to read and the pipe to write, closed on exec.
    """
    sys.stdout.flush()
    null = os.open(os.devnull, os.O_RDWR)
    read_fd = _copy(0, null)
    write_fd = _copy(1, null)
    os.dup2(null, 0)
    try:
        os.dup2(2, 1)
    except OSError:  # the client closed stderr
        os.dup2(null, 1)
    os.close(null)
    return read_fd, write_fd


def _copy(fd: int, otherwise: int) -> int:
    try:
        return os.dup(fd)
    except OSError:  # started without this descriptor
        return os.dup(otherwise)


class LineReader:
    """Reads lines on a thread.  After `start`, `next` must be called until it returns None.

    Args:
        fd: to read from; closed by nobody here.
        loop: on which `next` is awaited.

    `ended` is done once the input has ended or `stop` was called, even while lines wait to be fetched.
    """

    def __init__(self, fd: int, loop: asyncio.AbstractEventLoop) -> None:
        self._fd = fd
        self._loop = loop
        self.ended: asyncio.Future[bool] = loop.create_future()
        self._queue: asyncio.Queue[Lines | None] = asyncio.Queue()
        self._room = threading.Semaphore(CHUNKS_AHEAD)
        self._thread = threading.Thread(target=self._run, name="stdin", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Make `next` return None, as at the end of the input.  Called on the loop."""
        self._queue.put_nowait(None)
        if not self.ended.done():
            self.ended.set_result(True)

    async def next(self) -> Lines | None:
        """Return the lines of one chunk, or None at the end of the input."""
        lines = await self._queue.get()
        self._room.release()
        return lines

    def _run(self) -> None:
        splitter = LineSplitter()
        while True:
            self._room.acquire()
            try:
                chunk = os.read(self._fd, CHUNK_BYTES)
            except OSError:
                chunk = b""
            if not chunk:
                break
            self._post(splitter.feed(chunk))
        self._post(splitter.finish())
        _on_loop(self._loop, self.stop)

    def _post(self, lines: Lines) -> None:
        _on_loop(self._loop, partial(self._queue.put_nowait, lines))


class MessageWriter:
    """Writes messages on a thread, each whole and in order.

    Args:
        fd: to write to; closed by nobody here.
        loop: on which the methods are called.
        broken: called once, on the loop, when the client no longer reads.
    """

    def __init__(self, fd: int, loop: asyncio.AbstractEventLoop, broken: Callable[[], None]) -> None:
        self._fd = fd
        self._loop = loop
        self._on_broken = broken
        self._queue: queue.SimpleQueue[tuple[bytes, asyncio.Future[bool]]] = queue.SimpleQueue()
        self._broken = False
        self._backlog_bytes = 0
        self._waiting: set[asyncio.Future[bool]] = set()
        self._thread = threading.Thread(target=self._run, name="stdout", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def write(self, message: bytes) -> asyncio.Future[bool]:
        """Queue one message and its newline; the result tells whether all of it went out."""
        done: asyncio.Future[bool] = self._loop.create_future()
        self._waiting.add(done)
        self._backlog_bytes += len(message)
        self._queue.put((message + b"\n", done))
        return done

    async def room(self, ended: asyncio.Future[bool]) -> None:
        """Wait until the client has taken enough of what was written, or the end has come."""
        while self._backlog_bytes > BACKLOG_BYTES and not self._broken and not ended.done():
            await asyncio.wait({*self._waiting, ended}, return_when=asyncio.FIRST_COMPLETED)

    async def flush(self, timeout_s: float) -> None:
        """Wait until everything is written, or the time is over."""
        if self._waiting:
            await asyncio.wait(set(self._waiting), timeout=timeout_s)

    def _run(self) -> None:
        while True:
            data, done = self._queue.get()
            written = self._write_all(data)
            _on_loop(self._loop, partial(self._settle, len(data) - 1, done, written))

    def _write_all(self, data: bytes) -> bool:
        if self._broken:
            return False
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self._fd, view) :]
        except OSError:
            return False
        return True

    def _settle(self, size: int, done: asyncio.Future[bool], written: bool) -> None:
        self._backlog_bytes -= size
        self._waiting.discard(done)
        if not done.done():
            done.set_result(written)
        if not written and not self._broken:
            self._broken = True
            self._on_broken()


def _on_loop(loop: asyncio.AbstractEventLoop, call: Callable[[], None]) -> None:
    try:
        loop.call_soon_threadsafe(call)
    except RuntimeError:  # the loop has been closed: the process is ending
        return
