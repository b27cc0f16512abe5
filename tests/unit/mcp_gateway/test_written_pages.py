"""What counts as written, also while it is being written."""

from __future__ import annotations

import asyncio

from mcp_gateway import written_pages
from mcp_gateway.written_pages import WrittenPages, reader_of


def test_only_a_page_that_went_out_counts() -> None:
    async def run() -> None:
        pages = WrittenPages()
        assert await pages.last("") == ""
        pages.end("", pages.begin(""), "p1")
        assert await pages.last("") == "p1"
        pages.end("", pages.begin(""), None)
        assert await pages.last("") == "p1"
        assert await pages.last("session") == ""

    asyncio.run(run())


def test_a_page_that_is_being_written_is_waited_for() -> None:
    async def run() -> None:
        pages = WrittenPages()
        first, second = pages.begin(""), pages.begin("")
        asked = asyncio.create_task(pages.last(""))
        await asyncio.sleep(0)
        pages.end("", first, "p1")
        await asyncio.sleep(0)
        assert not asked.done()
        assert await pages.last("other") == ""
        pages.end("", second, "p2")
        assert await asked == "p2"

    asyncio.run(run())


def test_readers_are_bounded() -> None:
    async def run() -> None:
        pages = WrittenPages()
        for number in range(written_pages.READERS + 1):
            pages.end(str(number), pages.begin(str(number)), "p")
        assert await pages.last("0") == ""
        assert await pages.last("1") == "p"

    asyncio.run(run())


def test_a_reader_is_a_session_however_its_id_is_written_or_the_agent() -> None:
    assert reader_of({}) == ""
    assert reader_of({"session_id": "ABCD-ef"}) == reader_of({"session_id": "abcdEF"}) == "abcdef"
