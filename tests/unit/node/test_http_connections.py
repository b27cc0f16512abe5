"""Connections of the HTTP surfaces: bounded in number and size, and closed when nothing comes or is read."""

from __future__ import annotations

import asyncio
import contextlib
import json
import resource
import socket
from collections.abc import AsyncIterator
from typing import Any

import pytest
import uvicorn

from node import http_connections
from node.http_connections import BoundedConnection, bounded, connection_limit

REQUEST = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"


async def app(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body"})


async def reading_app(scope: Any, receive: Any, send: Any) -> None:
    """Answer when the whole body is there."""
    message = await receive()
    while message["type"] == "http.request" and message["more_body"]:
        message = await receive()
    if message["type"] == "http.request":
        await app(scope, receive, send)


@contextlib.asynccontextmanager
async def serving(limit: int, app: Any = app) -> AsyncIterator[int]:
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


async def told(sent: bytes, app: Any = app) -> bytes:
    """Return all that comes back on a connection until its end."""
    async with serving(3, app) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(sent)
        try:
            return await asyncio.wait_for(reader.read(), 10)
        finally:
            writer.close()


def split(answer: bytes) -> tuple[int, dict[str, str], Any]:
    """Return status, headers and JSON of one answer."""
    head, _, body = answer.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    headers = dict(line.split(": ", 1) for line in lines)
    return int(first.split()[1]), headers, json.loads(body)


def head(*lines: str) -> bytes:
    return "\r\n".join([*lines, "", ""]).encode()


HOST = "Host: localhost"
POST = "POST /mcp HTTP/1.1"


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"hello\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 a TLS hello", 400),
        (head("GET http://[ HTTP/1.1", HOST), 400),
        (head("CONNECT evil.example:443 HTTP/1.1", HOST), 400),
        (head("GET /a b HTTP/1.1", HOST), 400),
        (head("GET /mcp HTTP/1.1", "Host : localhost"), 400),
        (head(POST, HOST, "Content-Length: 4", "Content-Length: 5") + b"abcde", 400),
        (head(POST, HOST, "Content-Length: -1"), 400),
        (head(POST, HOST, "Content-Length: 4", "Transfer-Encoding: chunked") + b"0\r\n\r\n", 400),
        (head(POST, HOST, "Transfer-Encoding: chunked", "Content-Length: 4") + b"0\r\n\r\n", 400),
        (head(POST, HOST, "Transfer-Encoding: chunked, identity") + b"0\r\n\r\n", 400),
        (head(POST, HOST, "Transfer-Encoding: xchunked") + b"0\r\n\r\n", 400),
        (head(f"GET /{'a' * 8192} HTTP/1.1", HOST), 414),
        (head("GET / HTTP/1.1", HOST, *[f"x-{n}: 1" for n in range(100)]), 431),
        (head("GET / HTTP/1.1", HOST, f"x-long: {'a' * 32 * 1024}"), 431),
        (b"GET / HTTP/1.1\r\nx-endless: " + b"a" * 600_000, 431),
    ],
    ids=range(16),
)
def test_what_is_no_request_is_refused_as_json_and_hung_up_on(sent: bytes, status: int) -> None:
    found, headers, body = split(asyncio.run(told(sent)))
    assert found == status
    assert body["error"]["code"] == "invalid"
    assert headers["content-type"] == "application/json"
    assert headers["connection"] == "close"
    assert headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    "sent",
    [
        head(f"GET /{'a' * 8191} HTTP/1.1", HOST, "Connection: close"),
        head("GET / HTTP/1.1", HOST, "Connection: close", *[f"x-{n}: 1" for n in range(98)]),
        head("GET / HTTP/1.1", HOST, "Connection: close", f"x-long: {'a' * 32_000}"),
        head("GET / HTTP/1.0"),
        head("GET / HTTP/1.1", HOST, "Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c"),
        head(POST, HOST, "Connection: Upgrade", "Upgrade: h2c", "Content-Length: 3") + b"abc",
        head("GET / HTTP/1.1", HOST, "Connection: Upgrade", "Upgrade: websocket"),
        head("HEAD / HTTP/1.1", HOST, "Connection: close"),
    ],
    ids=range(8),
)
def test_what_is_within_the_limits_is_answered(sent: bytes) -> None:
    answer = asyncio.run(told(sent, reading_app))
    assert answer.startswith(b"HTTP/1.1 204")
    assert answer.count(b"HTTP/1.1") == 1


def test_a_chunked_body_and_a_client_that_asks_first_are_served() -> None:
    chunked = head(POST, HOST, "Transfer-Encoding: chunked") + b"3\r\nabc\r\n0\r\n\r\n"
    asking = head(POST, HOST, "Expect: 100-continue", "Content-Length: 3", "Connection: close") + b"abc"
    answer = asyncio.run(told(chunked + asking, reading_app))
    assert [line for line in answer.split(b"\r\n") if line.startswith(b"HTTP/1.1")] == [
        b"HTTP/1.1 204 No Content",
        b"HTTP/1.1 100 Continue",
        b"HTTP/1.1 204 No Content",
    ]


def test_requests_sent_ahead_are_answered_in_their_order() -> None:
    sent = REQUEST * 3 + head("GET / HTTP/1.1", HOST, "Connection: close")
    assert asyncio.run(told(sent)).count(b"HTTP/1.1 204") == 4


def test_a_request_that_is_being_answered_never_gets_the_refusal_of_the_next() -> None:
    async def check() -> bytes:
        inside, leave = asyncio.Event(), asyncio.Event()

        async def slow(scope: Any, receive: Any, send: Any) -> None:
            inside.set()
            await leave.wait()

        async with serving(3, slow) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(REQUEST)
            await inside.wait()
            writer.write(b"no request\r\n\r\n")
            try:
                return await asyncio.wait_for(reader.read(), 10)
            except ConnectionError:
                return b""
            finally:
                leave.set()
                writer.close()

    assert asyncio.run(check()) == b""


def test_a_body_that_breaks_off_being_chunked_is_refused_as_json() -> None:
    sent = head(POST, HOST, "Transfer-Encoding: chunked") + b"zz\r\n"
    assert split(asyncio.run(told(sent, reading_app)))[0] == 400


def test_a_client_that_does_not_read_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_connections, "READ_S", 0.3)
    body = b"a" * 64 * 1024 * 1024  # more than any socket buffers

    async def large(scope: Any, receive: Any, send: Any) -> None:
        length = str(len(body)).encode()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", length)]})
        await send({"type": "http.response.body", "body": body})

    async def check() -> None:
        lost, losing = asyncio.Event(), BoundedConnection.connection_lost

        def noting(connection: BoundedConnection, error: Exception | None) -> None:
            losing(connection, error)
            lost.set()

        monkeypatch.setattr(BoundedConnection, "connection_lost", noting)
        async with serving(3, large) as port:
            loop = asyncio.get_running_loop()
            with socket.create_connection(("127.0.0.1", port)) as client:
                client.setblocking(False)
                await loop.sock_sendall(client, REQUEST)
                assert await loop.sock_recv(client, 8) == b"HTTP/1.1"
                await asyncio.wait_for(lost.wait(), 10)

    asyncio.run(check())


def test_one_beyond_the_limit_is_told_to_come_back() -> None:
    async def check() -> bytes:
        async with serving(1) as port:
            _, held = await asyncio.open_connection("127.0.0.1", port)
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            answer = await asyncio.wait_for(reader.read(), 10)
            held.close()
            writer.close()
            return answer

    status, headers, body = split(asyncio.run(check()))
    assert (status, headers["retry-after"]) == (503, "1")
    assert body["error"]["code"] == "overloaded"


def test_a_setting_lowers_the_number_of_connections_and_never_raises_it_beyond_the_handles() -> None:
    possible = connection_limit()
    assert connection_limit(20) == 20
    assert connection_limit(possible + 1) == possible
