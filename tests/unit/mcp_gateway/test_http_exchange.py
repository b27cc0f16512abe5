"""One request over ASGI, without a server: what servers rarely do and clients sometimes cause."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from mcp_gateway.http_app import build_app
from mcp_gateway.http_exchange import Exchange, Gone, TooLarge
from tests.support.recording_requester import RecordingRequester

Event = dict[str, Any]


class Connection:
    """An ASGI connection that gives the events listed, then waits, and keeps what is sent."""

    def __init__(self, *events: Event, headers: tuple[tuple[bytes, bytes], ...] = ()) -> None:
        self.events = list(events)
        self.sent: list[Event] = []
        self.scope = {
            "type": "http",
            "method": "POST",
            "path": "/mcp",
            "query_string": b"",
            "headers": [(b"host", b"localhost"), *headers],
        }

    async def receive(self) -> Event:
        if self.events:
            return self.events.pop(0)
        await asyncio.Event().wait()
        raise AssertionError

    async def send(self, event: Any) -> None:
        self.sent.append(event)

    def exchange(self) -> Exchange:
        return Exchange(self.scope, self.receive, self.send)


def chunk(body: bytes, *, more: bool = False) -> Event:
    return {"type": "http.request", "body": body, "more_body": more}


GONE = {"type": "http.disconnect"}


def body_of(connection: Connection, limit: int = 10) -> bytes:
    return asyncio.run(connection.exchange().body(limit))


def test_a_body_is_joined_from_its_pieces() -> None:
    assert body_of(Connection(chunk(b"ab", more=True), chunk(b"", more=True), chunk(b"c"))) == b"abc"
    assert body_of(Connection(chunk(b""))) == b""


@pytest.mark.parametrize(
    "connection",
    [
        Connection(headers=((b"content-length", b"11"),)),
        Connection(headers=((b"content-length", b"9" * 5000),)),
        Connection(chunk(b"a" * 11)),
        Connection(chunk(b"a" * 6, more=True), chunk(b"a" * 5, more=True)),
    ],
    ids=range(4),
)
def test_a_body_beyond_the_limit_is_refused_as_early_as_it_is_known(connection: Connection) -> None:
    with pytest.raises(TooLarge):
        body_of(connection)


@pytest.mark.parametrize(
    "connection", [Connection(GONE), Connection(chunk(b"a", more=True), GONE)], ids=range(2)
)
def test_a_client_that_leaves_before_its_body_ends_is_gone(connection: Connection) -> None:
    with pytest.raises(Gone):
        body_of(connection)


def test_work_for_a_client_that_leaves_is_cancelled() -> None:
    cancelled: list[bool] = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(True)
            raise

    async def run() -> None:
        exchange = Connection(GONE).exchange()
        with pytest.raises(Gone):
            await exchange.while_connected(work())
        await asyncio.sleep(0)
        assert not await exchange.respond(200, b"{}")

    asyncio.run(run())
    assert cancelled == [True]


def test_an_error_of_the_work_comes_through() -> None:
    async def work() -> None:
        raise KeyError("x")

    async def run() -> None:
        with pytest.raises(KeyError):
            await Connection().exchange().while_connected(work())

    asyncio.run(run())


def test_one_request_has_one_response() -> None:
    async def run() -> None:
        connection = Connection()
        exchange = connection.exchange()
        assert await exchange.respond(200, b"{}")
        assert not await exchange.respond(500, b"{}")
        assert [event.get("status") for event in connection.sent] == [200, None]

    asyncio.run(run())


def test_a_send_that_fails_is_no_response() -> None:
    async def broken(event: Any) -> None:
        raise BrokenPipeError

    connection = Connection()
    assert not asyncio.run(Exchange(connection.scope, connection.receive, broken).respond(200, b"{}"))


def app(ready: Callable[[], dict[str, Any]] = dict) -> Any:
    return build_app(RecordingRequester(), ready=ready, metrics=lambda: b"")


def test_a_lifespan_is_begun_and_ended() -> None:
    connection = Connection({"type": "lifespan.startup"}, {"type": "lifespan.shutdown"})
    asyncio.run(app()({"type": "lifespan"}, connection.receive, connection.send))
    assert [event["type"] for event in connection.sent] == [
        "lifespan.startup.complete",
        "lifespan.shutdown.complete",
    ]


def test_a_websocket_is_closed() -> None:
    connection = Connection()
    asyncio.run(app()({"type": "websocket"}, connection.receive, connection.send))
    assert connection.sent == [{"type": "websocket.close", "code": 1000}]
