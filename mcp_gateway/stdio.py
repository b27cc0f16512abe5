"""MCP over stdin and stdout: one process per agent, alive exactly as long as its client.

The duty: lines to messages, calls side by side, answers out, and a prompt end on end of input, a broken pipe
or a signal.  `initialize`, `ping` and `tools/list` are answered without a key and without a peer.
Source: MCP specification, transports, stdio.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import signal
import threading
from collections.abc import Awaitable, Callable

import structlog

from mcp_gateway import jsonrpc
from mcp_gateway.calling import Calls
from mcp_gateway.dispatcher import Answer, Dispatcher, is_call, service_error
from mcp_gateway.intake import Asked, Call, Together, classify
from mcp_gateway.lines import Oversized
from mcp_gateway.peer_door import PeerDoor
from mcp_gateway.stdio_pipes import LineReader, MessageWriter, take_over
from mcp_gateway.written_pages import WrittenPages
from mesh.ports import Requester
from proto.errors import HyphaeError, Overloaded
from proto.limits import CONTENT_BYTES, STDIO_LINE_BYTES

CALLS_AT_ONCE = 64
FINISH_S = 1.2  # clients wait 2 s after closing stdin before they kill
HURRY_S = 0.3
CLOSE_S = 0.2
EXIT_AT_LATEST_S = 1.8

_log = structlog.get_logger(__name__)


def serve_stdio(
    make_requester: Callable[[], Awaitable[Requester]],
    key: Callable[[], str],
    default_project: str | None = None,
    *,
    version: str = "0",
    calls: Calls | None = None,
) -> int:
    """Serve one client until its input ends, its output breaks, or SIGTERM or SIGINT arrives.

    Takes over file descriptors 0 and 1: whatever is printed afterwards goes to stderr.  Call it from the main
    thread of a process of its own, after logging has been sent to stderr.

    Args:
        make_requester: connects to a peer.  Called on the first `tools/call`, and again while it fails with
            `HyphaeError` or `OSError`, which that call answers.
        key: returns the key, for instance `lambda: authentication.find_key(os.environ, config_dir)`.  Called
            at the start, and for each call while it raises `Unauthenticated`.
        default_project: of calls that name none (`HYPHAE_PROJECT`).
        version: of the server, as `initialize` tells it.
        calls: makes the calls; None for one with the usual deadlines.

    Returns:
        The exit status of the process, always 0.
    """
    read_fd, write_fd = take_over()
    pages = WrittenPages()
    door = PeerDoor(make_requester, key, default_project, secrets.token_bytes(8), pages)
    dispatcher = Dispatcher(version, calls or Calls())
    server = StdioServer(dispatcher, door, pages, read_fd, write_fd, _exit_at_latest)
    asyncio.run(server.run())
    return 0


class StdioServer:
    """One connection.

    Args:
        dispatcher: answers messages.
        door: to the peer; closed at the end.
        pages: told of each inbox page that went out.
        read_fd: descriptor of the client's messages.
        write_fd: descriptor for the answers.
        ending: called once when the end begins.
    """

    def __init__(
        self,
        dispatcher: Dispatcher,
        door: PeerDoor,
        pages: WrittenPages,
        read_fd: int,
        write_fd: int,
        ending: Callable[[], None],
    ) -> None:
        self._dispatcher = dispatcher
        self._door = door
        self._pages = pages
        self._fds = read_fd, write_fd
        self._ending = ending
        self._agreed = dispatcher.revisions.agreed
        self._tasks: set[asyncio.Task[None]] = set()
        self._running: dict[jsonrpc.Id, asyncio.Task[None]] = {}
        self._hurry = False

    async def run(self) -> None:
        """Serve until the end; afterwards nothing of this connection is left running."""
        loop = asyncio.get_running_loop()
        read_fd, write_fd = self._fds
        self._reader = LineReader(read_fd, loop)
        self._writer = MessageWriter(write_fd, loop, self._stop)
        with contextlib.suppress(ValueError, RuntimeError):  # not on the main thread: no signals to handle
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(number, self._stop)
        self._writer.start()
        self._reader.start()
        loop.call_soon(self._look_for_key)
        while (lines := await self._reader.next()) is not None and not self._hurry:
            for line in lines:
                self._take(line)
            await self._writer.room(self._reader.ended)
        await self._finish()

    def _stop(self) -> None:
        """The client or the system wants no more of us."""
        self._hurry = True
        self._reader.stop()

    def _look_for_key(self) -> None:
        try:
            self._door.key()
        except HyphaeError as error:
            _log.warning("no_key", reason=error.message)

    def _take(self, line: bytes | Oversized) -> None:
        if isinstance(line, Oversized):
            text = (
                f"Invalid request: a message of {line.size} bytes; the limit is {STDIO_LINE_BYTES} bytes, "
                f"and {CONTENT_BYTES} for content. Nothing was stored. Shorten it or send it in parts."
            )
            self._send(Answer(jsonrpc.error(line.id, jsonrpc.INVALID_REQUEST, text)))
        elif line.strip():
            self._handle(jsonrpc.parse(line))

    def _handle(self, message: jsonrpc.Message | jsonrpc.Batch) -> None:
        if isinstance(message, jsonrpc.Notification) and message.method == "notifications/cancelled":
            self._cancel(message.params.get("requestId"))
            return
        asked = classify(message, self._dispatcher.revisions, agreed=self._agreed)
        if asked is None:
            return
        if isinstance(asked, Together) or is_call(asked):
            self._start(asked)
        else:
            answer = self._dispatcher.answer_now(asked)
            self._agreed = answer.revision or self._agreed
            self._send(answer)

    def _start(self, asked: Asked) -> None:
        id = asked.request.id if isinstance(asked, Call) else None
        if len(self._tasks) >= CALLS_AT_ONCE:
            text = f"{CALLS_AT_ONCE} calls are running already. Nothing was stored. Try again in 1 s."
            self._send(Answer(service_error(id, Overloaded(text, retry_after_ms=1000))))
            return
        task = asyncio.get_running_loop().create_task(self._answer(asked, id))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        if id is not None:
            self._running[id] = task

    async def _answer(self, asked: Asked, id: jsonrpc.Id | None) -> None:
        try:
            answer = await self._dispatcher.answer(asked, self._door)
        finally:
            if id is not None and self._running.get(id) is asyncio.current_task():
                del self._running[id]  # from here on it is too late to cancel
        await self._deliver(answer)

    async def _deliver(self, answer: Answer) -> None:
        """Write an answer and say which pages went out with it."""
        marks = [(reader, page, self._pages.begin(reader)) for reader, page in answer.pages]
        written = False
        try:
            written = await self._send(answer)
        finally:
            for reader, page, mark in marks:
                self._pages.end(reader, mark, page if written else None)

    def _send(self, answer: Answer) -> asyncio.Future[bool]:
        return self._writer.write(jsonrpc.encode(answer.body))

    def _cancel(self, id: object) -> None:
        """Stop a call, which is then not answered; what is unknown or over is ignored.

        A store that the peer has received may have been stored: nobody is left to be told.
        """
        if isinstance(id, (int, str)) and not isinstance(id, bool):
            task = self._running.pop(id, None)
            if task is not None:
                task.cancel()

    async def _finish(self) -> None:
        """Finish what was read, within the time that clients leave us, and let go of the peer."""
        self._ending()
        if self._tasks:
            await asyncio.wait(set(self._tasks), timeout=HURRY_S if self._hurry else FINISH_S)
        if self._tasks and not self._hurry:
            _log.warning(
                "calls_given_up", calls=len(self._tasks), reason="the input ended before they were done"
            )
        for task in self._tasks:
            task.cancel()
        await self._writer.flush(HURRY_S)
        with contextlib.suppress(Exception):
            await asyncio.wait_for(self._door.close(), CLOSE_S)


def _exit_at_latest() -> None:
    """End the process in time even if something hangs, such as a name look-up on another thread."""

    def wait() -> None:
        threading.Event().wait(EXIT_AT_LATEST_S)
        os._exit(0)

    threading.Thread(target=wait, name="exit", daemon=True).start()
