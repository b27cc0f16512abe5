"""One HTTP/1.1 connection to a peer: a request out, a response in, again.  The only module that knows httptools.

It says of a failure whether any byte of a response had arrived, and leaves to the caller what that means.
Light to import: the stdio gateway lives on this.
"""

from __future__ import annotations

import asyncio
import re
import ssl
import time
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

import httptools

from proto.errors import Invalid

_CHUNK: Final = 64 * 1024
_HEAD_MAX: Final = 64 * 1024  # bytes of the headers of a response
_PLAIN: Final = re.compile(r"[!-~]+")


@dataclass(frozen=True, slots=True)
class HttpTarget:
    """Where a peer listens.

    Args:
        shown: for messages.
        socket: path of a Unix socket, or "" for TCP.
        host, port, tls: for TCP; host also goes into the Host header.
        prefix: path before `/v1/...`.
    """

    shown: str
    socket: str = ""
    host: str = "localhost"
    port: int = 80
    tls: bool = False
    prefix: str = ""

    @property
    def authority(self) -> str:
        """The value of the Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        default = self.socket or self.port == (443 if self.tls else 80)
        return host if default else f"{host}:{self.port}"


def parse_target(text: str) -> HttpTarget:
    """Return the target that `http://...`, `https://...` or the path of a Unix socket names.

    Raises:
        Invalid: none of these.
    """
    if text.startswith("/"):
        return HttpTarget(shown=text, socket=text)
    parts = urlsplit(text)
    try:
        port = parts.port
    except ValueError:
        port = -1
    tls = parts.scheme == "https"
    proper = parts.scheme in ("http", "https") and parts.hostname and port != -1 and _PLAIN.fullmatch(text)
    if not proper or parts.username is not None or parts.query or parts.fragment:
        shown = text.rpartition("@")[2][:80]
        raise Invalid(
            f'"{shown}" is no address of a peer; give http://host:port, https://host or the path of its socket.'
        )
    shown = f"{parts.scheme}://{parts.netloc}"
    host = parts.hostname or ""
    return HttpTarget(
        shown, host=host, port=port or (443 if tls else 80), tls=tls, prefix=parts.path.rstrip("/")
    )


class ConnectionLost(Exception):
    """The exchange did not come to its end; the connection must be aborted.

    Args:
        answered: some byte of a response had arrived.
    """

    def __init__(self, reason: str, *, answered: bool) -> None:
        super().__init__(reason)
        self.answered = answered


@dataclass(frozen=True, slots=True)
class Answer:
    """A complete response."""

    status: int
    content_type: str
    body: bytes


class HttpConnection:
    """An open connection.  Not to be shared: one exchange at a time.

    Cancelling an exchange leaves the connection in no usable state; abort it.
    """

    def __init__(
        self, target: HttpTarget, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._target = target
        self._reader = reader
        self._writer = writer
        self._in_use = False
        self._used_s = time.monotonic()

    @classmethod
    async def open(cls, target: HttpTarget, tls: ssl.SSLContext | None = None) -> HttpConnection:
        """Connect.

        Args:
            target: where to.
            tls: needed where the target wants it.

        Raises:
            OSError: nobody listens there, or TLS failed; nothing was sent.
        """
        if target.socket:
            reader, writer = await asyncio.open_unix_connection(target.socket)
        else:
            tls = tls if target.tls else None
            reader, writer = await asyncio.open_connection(target.host, target.port, ssl=tls)
        return cls(target, reader, writer)

    @property
    def usable(self) -> bool:
        """Whether another exchange may be tried: the last was complete and the peer has not hung up."""
        return not (self._in_use or self._reader.at_eof() or self._writer.is_closing())

    @property
    def idle_s(self) -> float:
        """Seconds since the last exchange ended."""
        return time.monotonic() - self._used_s

    async def post(self, path: str, headers: list[tuple[str, str]], body: bytes, bytes_max: int) -> Answer:
        """Send a request and return its response.

        Args:
            bytes_max: of the body of the response.

        Raises:
            ConnectionLost: no complete response came, or one that is no HTTP or too large.
        """
        self._in_use = True
        response = _Response(bytes_max)
        try:
            self._writer.write(self._request(path, headers, body))
            while not response.complete:
                data = await self._reader.read(_CHUNK)
                response.feed(data)
        except (OSError, httptools.HttpParserError, httptools.HttpParserUpgrade, EOFError) as error:
            raise ConnectionLost(type(error).__name__, answered=response.began) from error
        finally:
            response.let_go()
        self._in_use = not response.keeps_alive
        self._used_s = time.monotonic()
        return Answer(response.status, response.content_type, bytes(response.body))

    def _request(self, path: str, headers: list[tuple[str, str]], body: bytes) -> bytes:
        head = [f"POST {self._target.prefix}{path} HTTP/1.1", f"Host: {self._target.authority}"]
        head += [f"{name}: {value}" for name, value in headers]
        return "\r\n".join((*head, f"Content-Length: {len(body)}", "", "")).encode("ascii") + body

    def abort(self) -> None:
        """Close at once, whatever is going on."""
        self._writer.transport.abort()


class _Response:
    """A response as it arrives.

    Args:
        bytes_max: of its body.
    """

    def __init__(self, bytes_max: int) -> None:
        self.began = False
        self.complete = False
        self.keeps_alive = False
        self.status = 0
        self.content_type = ""
        self.body = bytearray()
        self._bytes_max = bytes_max
        self._head_bytes = 0
        self._ends_with_connection = True
        self._parser = httptools.HttpResponseParser(self)

    def feed(self, data: bytes) -> None:
        """Take what came; nothing means that the peer hung up.

        Raises:
            EOFError: it hung up before the end.
            httptools.HttpParserError: this is no HTTP.
            ConnectionLost: it is too large.
        """
        if data:
            self.began = True
            self._parser.feed_data(data)
        elif self.status and self._ends_with_connection:
            self.complete = True
        else:
            raise EOFError
        if len(self.body) > self._bytes_max or self._head_bytes > _HEAD_MAX:
            raise ConnectionLost(f"a response exceeds {self._bytes_max} bytes", answered=True)

    def let_go(self) -> None:
        """Break the circle with the parser, so that both are freed at once."""
        del self._parser

    # Called by the parser.

    def on_header(self, name: bytes, value: bytes) -> None:
        self._head_bytes += len(name) + len(value)
        field = name.lower()
        if field == b"content-type":
            self.content_type = value.decode("latin-1").partition(";")[0].strip().lower()
        elif field in {b"content-length", b"transfer-encoding"}:
            self._ends_with_connection = False

    def on_headers_complete(self) -> None:
        self.status = self._parser.get_status_code()

    def on_body(self, data: bytes) -> None:
        self.body += data

    def on_message_complete(self) -> None:
        if self.status < 200:  # something to know while waiting for the answer itself
            self.status, self._ends_with_connection = 0, True
        else:
            self.complete, self.keeps_alive = True, self._parser.should_keep_alive()
