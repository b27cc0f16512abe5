"""The official Python MCP client, as agents run it, over both transports, on a fake peer.

In all modes of the client: `legacy` starts with `initialize`; `auto` asks `server/discover` first and would fall
back; a pinned revision asks nothing beforehand.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator
from typing import Any, Literal

import httpx2
import pytest
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from tests.support.http_peer import HttpPeer
from tests.support.recording_requester import KEY, UNKNOWN_KEY, Gate
from tests.support.stdio_process import FAKE_PEER
from tests.support.waiting import until

Mode = Literal["legacy", "auto", "2026-07-28"]
MODES: list[Mode] = ["legacy", "auto", "2026-07-28"]
SPOKEN = {"legacy": "2025-11-25", "auto": "2026-07-28", "2026-07-28": "2026-07-28"}
STORE = {"content": "we retry payments ブ 👩‍👩‍👧", "cell_type": "Decision"}


@contextlib.asynccontextmanager
async def over_stdio(mode: Mode, key: str = KEY) -> AsyncIterator[Client]:
    server = StdioServerParameters(command=sys.executable, args=[str(FAKE_PEER)], env={"HYPHAE_API_KEY": key})
    async with Client(server, mode=mode) as client:
        yield client


@contextlib.asynccontextmanager
async def to(peer: HttpPeer, mode: Mode, key: str = KEY) -> AsyncIterator[Client]:
    async with httpx2.AsyncClient(headers={"x-hyphae-key": key}) as http:
        transport = streamable_http_client(f"http://127.0.0.1:{peer.port}/mcp", http_client=http)
        async with Client(transport, mode=mode) as client:
            yield client


@contextlib.asynccontextmanager
async def over_http(mode: Mode, key: str = KEY) -> AsyncIterator[Client]:
    with HttpPeer() as peer:
        async with to(peer, mode, key) as client:
            yield client


TRANSPORTS = [over_stdio, over_http]


@pytest.mark.parametrize("transport", TRANSPORTS, ids=["stdio", "http"])
@pytest.mark.parametrize("mode", MODES)
def test_an_agent_lists_stores_recalls_and_reads_its_errors(transport: Any, mode: Mode) -> None:
    async def run() -> None:
        async with transport(mode) as client:
            assert client.protocol_version == SPOKEN[mode]
            if mode != "2026-07-28":  # pinned, the client learns these from nowhere
                assert client.server_info.version == "9.9"
                assert "drain_inbox" in (client.instructions or "")
            listed = await client.list_tools()
            assert listed.tools[0].name == "store"
            assert len(listed.tools) == 11
            assert all(tool.annotations is not None for tool in listed.tools)

            stored = await client.call_tool("store", STORE)
            assert not stored.is_error
            node_id = stored.structured_content["node_id"]
            assert json.loads(stored.content[0].text) == {"node_id": node_id}

            found = await client.call_tool("recall", {"query": "payments", "k": "5", "include_content": True})
            hit = found.structured_content["results"][0]
            assert (hit["node_id"], hit["content"]) == (node_id, STORE["content"])

            refused = await client.call_tool("store", {"content": "x"})
            assert refused.is_error
            assert refused.content[0].text.startswith("invalid: cell_type is missing")

            with pytest.raises(MCPError) as caught:
                await client.call_tool("get_scene", {"scene_id": "6f9619ff-8b86-d011-b42d-00cf4fc964ff"})
            assert caught.value.error.code == 4040
            assert caught.value.error.message.startswith("not_found: ")
            assert caught.value.error.data == {"code": "not_found", "definite": True}

            again = await client.call_tool("list_beacons", {})
            assert again.structured_content == {"agent": "alice", "beacons": []}

    asyncio.run(asyncio.wait_for(run(), 60))


@pytest.mark.parametrize("mode", MODES)
def test_fifty_calls_at_once_are_all_answered(mode: Mode) -> None:
    async def run() -> None:
        async with over_stdio(mode) as client:
            calls = [client.call_tool("store", {**STORE, "content": f"cell {n}"}) for n in range(50)]
            results = await asyncio.gather(*calls)
            assert len({result.structured_content["node_id"] for result in results}) == 50

    asyncio.run(asyncio.wait_for(run(), 60))


@pytest.mark.parametrize("mode", ["auto", "2026-07-28"])
def test_a_call_that_the_client_gives_up_over_http_is_cancelled(mode: Mode) -> None:
    async def run(peer: HttpPeer) -> None:
        async with to(peer, mode) as client:
            slow = asyncio.create_task(client.call_tool("recall", {"query": "x"}))
            await until(lambda: bool(peer.requester.asked("recall")), "the call has arrived")
            assert len((await client.list_tools()).tools) == 11
            slow.cancel()
            await until(lambda: peer.requester.cancelled == ["recall"], "the call is cancelled")
            assert not (await client.call_tool("list_beacons", {})).is_error

    with HttpPeer() as peer:
        peer.requester.plan("recall", Gate())
        asyncio.run(asyncio.wait_for(run(peer), 60))


@pytest.mark.parametrize("mode", MODES)
def test_calls_that_the_client_gives_up_over_stdio_leave_their_places(mode: Mode) -> None:
    async def run() -> None:
        server = StdioServerParameters(
            command=sys.executable, args=[str(FAKE_PEER)], env={"HYPHAE_API_KEY": KEY, "FAKE_HANG": "1"}
        )
        async with Client(server, mode=mode) as client:

            async def is_full() -> bool:
                try:
                    return bool((await client.call_tool("list_beacons", {})).is_error)
                except MCPError as refused:
                    return refused.error.message.startswith("overloaded: ")

            slow = [asyncio.create_task(client.call_tool("store", STORE)) for _ in range(64)]
            while not await is_full():
                pass
            for call in slow:
                call.cancel()
            await asyncio.gather(*slow, return_exceptions=True)
            while await is_full():
                pass

    asyncio.run(asyncio.wait_for(run(), 60))


def test_a_key_that_nobody_knows_is_an_error_that_says_so_over_stdio() -> None:
    async def run() -> None:
        async with over_stdio("legacy", UNKNOWN_KEY) as client:
            assert len((await client.list_tools()).tools) == 11
            with pytest.raises(MCPError, match=r"^unauthenticated: "):
                await client.call_tool("list_beacons", {})

    asyncio.run(asyncio.wait_for(run(), 60))
