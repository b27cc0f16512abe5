"""How a stdio process finds its key and its peer, and what its requests say."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from mcp_gateway.peer_door import PeerDoor
from mcp_gateway.written_pages import WrittenPages
from mesh import wall_clock
from mesh.ports import Requester
from proto.errors import Unauthenticated, Unavailable
from proto.messages import OWN_STORES, KeyCredential
from tests.support.recording_requester import KEY, OTHER_KEY, UNKNOWN_KEY, RecordingRequester

MARK = b"12345678"


class Site:
    """A door with everything around it."""

    def __init__(self, key: Callable[[], str] = lambda: KEY) -> None:
        self.peer = RecordingRequester()
        self.pages = WrittenPages()
        self.failures: list[Exception] = []
        self.connected = 0
        self.gate = asyncio.Event()
        self.gate.set()
        self.door = PeerDoor(self.connect, key, "billing", MARK, self.pages)

    async def connect(self) -> Requester:
        self.connected += 1
        await self.gate.wait()
        if self.failures:
            raise self.failures.pop(0)
        return self.peer

    async def ask(self, method: str = "list_beacons", within_ms: int = 5_000, **args: Any) -> Any:
        return await self.door(method, args, wall_clock.now_ms() + within_ms)


def test_a_request_carries_key_mark_and_project() -> None:
    async def run() -> None:
        site = Site()
        await site.ask("recall", query="x")
        request = site.peer.requests[0]
        assert request.credential == KeyCredential(KEY)
        assert (request.mark, request.default_project, request.wrote) == (MARK, "billing", None)

    asyncio.run(run())


def test_a_drain_names_the_last_page_that_was_written_to_its_reader() -> None:
    async def run() -> None:
        site = Site()
        await site.ask("drain_inbox")
        site.pages.end("", site.pages.begin(""), "p1")
        site.pages.end("ab", site.pages.begin("ab"), "p2")
        await site.ask("drain_inbox")
        await site.ask("drain_inbox", session_id="A-B")
        await site.ask("close_session", session_id="AB")
        assert [request.wrote for request in site.peer.requests] == ["", "p1", "p2", "p2"]

    asyncio.run(run())


def test_a_search_names_the_memories_that_this_process_stored_last_and_nothing_else_does() -> None:
    async def run() -> None:
        site = Site()
        stored = [
            (await site.ask("store", content=f"c{n}", cell_type="Fact", idempotency_key=f"k{n}")).result[
                "node_id"
            ]
            for n in range(OWN_STORES + 2)
        ]
        for method in ("recall", "query", "list_beacons", "drain_inbox"):
            await site.ask(method, query="x")
        named = [request.wrote for request in site.peer.requests[len(stored) :]]
        last = ",".join(stored[-OWN_STORES:])
        assert named == [last, last, None, ""]
        assert {request.wrote for request in site.peer.requests[: len(stored)]} == {None}

    asyncio.run(run())


def test_concurrent_first_calls_share_one_connection() -> None:
    async def run() -> None:
        site = Site()
        replies = await asyncio.gather(*(site.ask() for _ in range(10)))
        assert all(reply.error is None for reply in replies)
        assert site.connected == 1

    asyncio.run(run())


@pytest.mark.parametrize(
    "failure", [Unavailable("no peer could be reached within 5 s."), ConnectionRefusedError()]
)
def test_a_failed_connection_is_an_error_of_the_call_and_tried_again(failure: Exception) -> None:
    async def run() -> None:
        site = Site()
        site.failures.append(failure)
        first = await site.ask()
        assert (first.error.code, first.error.definite) == ("unavailable", True)
        assert (await site.ask()).error is None
        assert site.connected == 2

    asyncio.run(run())


def test_a_connection_that_takes_long_outlives_the_call_that_began_it() -> None:
    async def run() -> None:
        site = Site()
        site.gate.clear()
        assert (await site.ask(within_ms=0)).error.code == "unavailable"
        site.gate.set()
        assert (await site.ask()).error is None
        assert site.connected == 1

    asyncio.run(run())


def test_a_missing_key_is_an_error_of_the_call_and_looked_for_again() -> None:
    async def run() -> None:
        found: list[str] = []

        def key() -> str:
            if not found:
                raise Unauthenticated("no key.")
            return found[0]

        site = Site(key)
        assert (await site.ask()).error.code == "unauthenticated"
        assert site.connected == 0
        found.append(KEY)
        assert (await site.ask()).error is None

    asyncio.run(run())


def test_a_refused_key_is_looked_up_again_at_the_next_call() -> None:
    async def run() -> None:
        keys = [UNKNOWN_KEY, OTHER_KEY]
        site = Site(lambda: keys.pop(0))
        assert (await site.ask()).error.code == "unauthenticated"
        assert (await site.ask()).error is None
        assert (await site.ask()).error is None
        assert keys == []

    asyncio.run(run())


@pytest.mark.parametrize(("key_after", "named"), [(KEY, True), (OTHER_KEY, False)])
def test_a_refusal_forgets_what_was_stored_only_if_the_key_is_another_one_then(
    key_after: str, named: bool
) -> None:
    """A peer that lost its disk does not know the key yet, and lacks what was stored at it."""

    async def run() -> None:
        keys = [KEY, key_after]
        site = Site(lambda: keys.pop(0))
        stored = await site.ask("store", content="c", cell_type="Fact", idempotency_key="k")
        site.peer.plan("recall", Unauthenticated("the key is not known here."))
        assert (await site.ask("recall", query="x")).error.code == "unauthenticated"
        await site.ask("recall", query="x")
        assert site.peer.requests[-1].wrote == (stored.result["node_id"] if named else None)

    asyncio.run(run())


def test_closing_releases_the_connection_or_stops_looking_for_one() -> None:
    async def run() -> None:
        site = Site()
        await site.ask()
        await site.door.close()
        assert site.peer.closed
        waiting = Site()
        waiting.gate.clear()
        asked = asyncio.create_task(waiting.ask())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        await waiting.door.close()
        with pytest.raises(asyncio.CancelledError):
            await asked

    asyncio.run(run())
