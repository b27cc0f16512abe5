"""A peer's HTTP side reduced to a script: answers well, hangs up, stays silent, as a test asks."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

import h11

from proto.messages import Reply, Request, decode_request, encode_reply

MSGPACK = "application/msgpack"


@dataclass
class Script:
    """What happens to a request.

    Args:
        status, content_type, body: of the response; body None encodes `reply`.
        hang_up: close instead of answering, after the request was read.
        partial: send half of the response, then close.
        silent: never answer.
        close_after: close the connection after the response, without having said so.
        early: send 100 Continue first.
    """

    status: int = 200
    content_type: str = MSGPACK
    body: bytes | None = None
    reply: Callable[[Request], Awaitable[Reply]] | None = None
    hang_up: bool = False
    partial: bool = False
    silent: bool = False
    close_after: bool = False
    early: bool = False


@dataclass
class ScriptedPeer:
    """Serves on a Unix socket, or on TCP for `socket=None`.

    `scripts` are used one per request; the last stays.  `requests` are (headers, request) as they came.
    """

    socket: Path | None
    scripts: list[Script] = field(default_factory=lambda: [Script()])
    requests: list[tuple[dict[str, str], Request]] = field(default_factory=list)
    targets: list[str] = field(default_factory=list)
    connections: int = 0
    port: int = 0
    _server: asyncio.Server | None = None
    _open: set[asyncio.StreamWriter] = field(default_factory=set)

    @property
    def target(self) -> str:
        return str(self.socket) if self.socket else f"http://127.0.0.1:{self.port}"

    async def start(self) -> None:
        if self.socket:
            self._server = await asyncio.start_unix_server(self._serve, str(self.socket))
        else:
            self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
            self.port = self._server.sockets[0].getsockname()[1]

    def hang_up(self) -> None:
        """Close every connection, as a server does after its keep-alive time."""
        for writer in self._open:
            writer.close()

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for writer in list(self._open):
            writer.transport.abort()
        if self.socket:
            self.socket.unlink(missing_ok=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._open.add(writer)
        http = h11.Connection(h11.SERVER)
        with contextlib.suppress(h11.ProtocolError, OSError):
            while await self._one(http, reader, writer):
                http.start_next_cycle()
        self._open.discard(writer)
        writer.close()

    async def _one(
        self, http: h11.Connection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        head, body = None, b""
        while True:
            event = http.next_event()
            if event is h11.NEED_DATA:
                http.receive_data(await reader.read(65_536))
            elif isinstance(event, h11.Request):
                head = event
            elif isinstance(event, h11.Data):
                body += bytes(event.data)
            elif isinstance(event, h11.EndOfMessage):
                break
            else:
                return False
        assert head is not None
        request, _ = decode_request(body)
        self.requests.append(({k.decode(): v.decode() for k, v in head.headers}, request))
        self.targets.append(head.target.decode())
        script = self.scripts.pop(0) if len(self.scripts) > 1 else self.scripts[0]
        return await self._act(script, request, http, writer)

    async def _act(
        self, script: Script, request: Request, http: h11.Connection, writer: asyncio.StreamWriter
    ) -> bool:
        if script.silent:
            await asyncio.Event().wait()
        if script.hang_up:
            return False
        if script.early:
            writer.write(b"HTTP/1.1 103 Early Hints\r\n\r\n")
        body = script.body
        if body is None:
            reply = await script.reply(request) if script.reply else Reply(result={"method": request.method})
            body = encode_reply(reply)
        head = [("content-type", script.content_type), ("content-length", str(len(body)))]
        events = (
            h11.Response(status_code=script.status, headers=head),
            h11.Data(data=body),
            h11.EndOfMessage(),
        )
        wire = b"".join(http.send(event) or b"" for event in events)
        writer.write(wire[: len(wire) // 2] if script.partial else wire)
        await writer.drain()
        return not (script.partial or script.close_after)
