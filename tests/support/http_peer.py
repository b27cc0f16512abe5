"""The HTTP surface on a real server: uvicorn on a loopback port or a Unix socket, a fake peer behind it."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import uvicorn

from mcp_gateway.http_app import build_app
from tests.support.recording_requester import KEY, RecordingRequester

ANSWER_S = 20.0
JSON_HEADERS = {"content-type": "application/json", "x-hyphae-key": KEY}


class Response:
    """What came back.

    Args:
        status: of HTTP.
        headers: by lower-case name.
        body: the bytes.
    """

    def __init__(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.status = status
        self.headers = headers
        self.body = body

    @property
    def json(self) -> Any:
        assert self.headers["content-type"] == "application/json"
        return json.loads(self.body)


class HttpPeer:
    """A running server.  Use as a context manager.

    Args:
        requester: the fake peer; a new one if None.
        socket_path: serve on this Unix socket, as the peer's own, instead of a loopback port.
        options: for `build_app`.
    """

    def __init__(
        self, requester: RecordingRequester | None = None, socket_path: Path | None = None, **options: Any
    ) -> None:
        self.requester = requester or RecordingRequester()
        self.state: dict[str, Any] = {"ready": True}
        self._socket_path = socket_path
        app = build_app(
            self.requester,
            local_user=socket_path is not None,
            ready=lambda: self.state,
            metrics=lambda: b"hyphae_up 1\n",
            version="9.9",
            **options,
        )
        if socket_path is None:  # named as TCP, or the event loop leaves Nagle's algorithm on: 40 ms a call
            self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
            self._socket.bind(("127.0.0.1", 0))
        else:
            self._socket = socket.socket(socket.AF_UNIX)
            self._socket.bind(str(socket_path))
        self.port: int = 0 if socket_path is not None else self._socket.getsockname()[1]
        self._server = uvicorn.Server(
            uvicorn.Config(app, lifespan="off", access_log=False, log_config=None, http="httptools")
        )
        self._thread = threading.Thread(target=self._server.run, args=([self._socket],), daemon=True)

    def __enter__(self) -> HttpPeer:
        self._socket.listen()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = True
        self._server.force_exit = True
        self._thread.join(ANSWER_S)
        self._socket.close()

    def connect(self) -> http.client.HTTPConnection:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=ANSWER_S)
        if self._socket_path is not None:
            connection.sock = socket.socket(socket.AF_UNIX)
            connection.sock.settimeout(ANSWER_S)
            connection.sock.connect(str(self._socket_path))
        return connection

    def request(
        self,
        method: str,
        path: str,
        body: bytes | str | None = None,
        headers: Mapping[str, str] | list[tuple[str, str]] = JSON_HEADERS,
    ) -> Response:
        """Make one request; headers are sent as given, also twice."""
        connection = self.connect()
        try:
            pairs = list(headers.items()) if isinstance(headers, Mapping) else headers
            given = {name.lower() for name, _ in pairs}
            connection.putrequest(method, path, skip_host="host" in given, skip_accept_encoding=True)
            for name, value in pairs:
                connection.putheader(name, value)
            data = body.encode() if isinstance(body, str) else body
            if data is not None and not given & {"content-length", "transfer-encoding"}:
                connection.putheader("content-length", str(len(data)))
            connection.endheaders(data)
            answer = connection.getresponse()
            names = {name.lower(): value for name, value in answer.getheaders()}
            return Response(answer.status, names, answer.read())
        finally:
            connection.close()

    def rest(self, method: str, path: str, value: Any = None, **headers: str) -> Response:
        body = None if value is None else json.dumps(value)
        return self.request(method, path, body, {**JSON_HEADERS, **headers})

    def rpc(self, method: str, params: Any = None, id: Any = 1, **headers: str) -> Response:
        message = {"jsonrpc": "2.0", "id": id, "method": method, "params": params}
        return self.rest("POST", "/mcp", message, **headers)

    def call(self, tool: str, **arguments: Any) -> Response:
        return self.rpc("tools/call", {"name": tool, "arguments": arguments})
