"""One HTTP/1.1 connection to a peer: a request out, a response in, again.  The only module that knows h11.

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

import h11

from proto.errors import Invalid

_CHUNK: Final = 64 * 1024
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
        self._http = h11.Connection(h11.CLIENT)
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
        return (
            self._http.our_state is h11.IDLE and not self._reader.at_eof() and not self._writer.is_closing()
        )

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
        answered = False
        head = [("Host", self._target.authority), *headers, ("Content-Length", str(len(body)))]
        request = h11.Request(method="POST", target=self._target.prefix + path, headers=head)
        try:
            events = (request, h11.Data(data=body), h11.EndOfMessage())
            self._writer.write(b"".join(self._http.send(event) or b"" for event in events))
            status, content_type, received = 0, "", bytearray()
            while True:
                event = self._http.next_event()
                if event is h11.NEED_DATA:
                    data = await self._reader.read(_CHUNK)
                    answered = answered or bool(data)
                    self._http.receive_data(data)
                elif isinstance(event, h11.Response):
                    status, content_type = event.status_code, _content_type(event)
                elif isinstance(event, h11.Data):
                    received += event.data
                    if len(received) > bytes_max:
                        raise ConnectionLost(f"a response exceeds {bytes_max} bytes", answered=True)
                elif isinstance(event, h11.EndOfMessage):
                    break
                elif not isinstance(event, h11.InformationalResponse):
                    raise ConnectionLost(
                        "the connection was closed or changed its protocol", answered=answered
                    )
            if self._http.our_state is h11.DONE and self._http.their_state is h11.DONE:
                self._http.start_next_cycle()
        except (OSError, h11.ProtocolError, EOFError) as error:
            raise ConnectionLost(type(error).__name__, answered=answered) from error
        self._used_s = time.monotonic()
        return Answer(status, content_type, bytes(received))

    def abort(self) -> None:
        """Close at once, whatever is going on."""
        self._writer.transport.abort()


def _content_type(response: h11.Response) -> str:
    value = next((v for name, v in response.headers if name == b"content-type"), b"")
    return bytes(value).decode("latin-1").partition(";")[0].strip().lower()
