"""The room for unfinished bodies: bounded for all of a surface, and given back however a body ends."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mcp_gateway import http_exchange
from mcp_gateway.body_room import BodyRoom
from mcp_gateway.http_exchange import Exchange, Gone, TooLarge, TooSlow
from proto.errors import Overloaded

Event = dict[str, Any]
GONE: Event = {"type": "http.disconnect"}


def piece(body: bytes, *, more: bool = True) -> Event:
    return {"type": "http.request", "body": body, "more_body": more}


def exchange(room: BodyRoom, *events: Event) -> Exchange:
    """Return a request whose body arrives as these events, and then not at all."""
    waiting = list(events)

    async def receive() -> Event:
        if not waiting:
            await asyncio.Event().wait()
        return waiting.pop(0)

    async def send(event: Any) -> None:
        raise AssertionError(event)

    scope = {"type": "http", "method": "POST", "path": "/mcp", "query_string": b"", "headers": []}
    return Exchange(scope, receive, send, room)


def test_a_body_at_the_room_is_read_and_one_beyond_is_refused_with_a_hint() -> None:
    room = BodyRoom(4)
    full = exchange(room, piece(b"ab"), piece(b"cd", more=False))
    assert asyncio.run(full.body(10)) == b"abcd"
    with pytest.raises(Overloaded) as refused:
        asyncio.run(exchange(room, piece(b"ab"), piece(b"cde", more=False)).body(10))
    assert refused.value.retry_after_ms
    assert room.taken == 0


def test_a_body_in_one_piece_needs_no_room() -> None:
    assert asyncio.run(exchange(BodyRoom(0), piece(b"ab", more=False)).body(10)) == b"ab"


@pytest.mark.parametrize(
    ("events", "error"),
    [
        ((piece(b"abc"), piece(b"d")), TooLarge),
        ((piece(b"a"), GONE), Gone),
        ((piece(b"a"),), TooSlow),
        ((), TooSlow),
    ],
    ids=["too large", "gone", "stops", "never begins"],
)
def test_room_is_given_back_however_a_body_ends(
    events: tuple[Event, ...], error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_exchange, "BODY_S", 0.05)
    room = BodyRoom(100)
    with pytest.raises(error):
        asyncio.run(exchange(room, *events).body(3))
    assert room.taken == 0
