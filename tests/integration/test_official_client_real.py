"""The official Python MCP client, as agents run it, over both transports, on a real peer."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, Literal

import httpx2
import pytest
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from mcp_gateway.tools import TOOLS
from tests.support.gateways import SERVE
from tests.support.running_mesh import RunningPeer, running_peer

Mode = Literal["legacy", "auto", "2026-07-28"]
Open = Callable[[RunningPeer, str, Mode], contextlib.AbstractAsyncContextManager[Client]]
WAIT_S = 60


@pytest.fixture(scope="module")
def peer() -> Iterator[RunningPeer]:
    with running_peer() as peer:
        yield peer


@contextlib.asynccontextmanager
async def over_stdio(peer: RunningPeer, key: str, mode: Mode) -> AsyncIterator[Client]:
    environment = {
        "HYPHAE_DATA_DIR": str(peer.directory),
        "HYPHAE_CONFIG_DIR": str(peer.root / "editor"),
        "HYPHAE_API_KEY": key,
    }
    environment |= {n: os.environ[n] for n in ("PYTHONPATH",) if n in os.environ}
    server = StdioServerParameters(command=sys.executable, args=[*SERVE], env=environment)
    async with Client(server, mode=mode) as client:
        yield client


@contextlib.asynccontextmanager
async def over_http(peer: RunningPeer, key: str, mode: Mode) -> AsyncIterator[Client]:
    async with httpx2.AsyncClient(headers={"x-hyphae-key": key}) as http:
        transport = streamable_http_client(f"{peer.url}/mcp", http_client=http)
        async with Client(transport, mode=mode) as client:
            yield client


TRANSPORTS: dict[str, Open] = {"stdio": over_stdio, "http": over_http}
transports = pytest.mark.parametrize("transport", TRANSPORTS.values(), ids=TRANSPORTS.keys())
modes = pytest.mark.parametrize("mode", ["legacy", "auto", "2026-07-28"])


def content_of(result: Any) -> dict[str, Any]:
    """Return the structured content of a call, which its text says as well."""
    assert not result.is_error, result.content[0].text
    assert json.loads(result.content[0].text) == result.structured_content
    content: dict[str, Any] = result.structured_content
    return content


@transports
@modes
def test_an_agent_does_all_that_agents_do(peer: RunningPeer, transport: Open, mode: Mode) -> None:
    key, author = peer.issue(f"agent-{mode}-{transport.__name__}")["key"], peer.new_agent()
    project = f"{mode}-{transport.__name__}"

    async def run() -> None:
        async with transport(peer, key, mode) as client:
            if mode != "2026-07-28":  # pinned, the client asks for no instructions
                assert "drain_inbox" in (client.instructions or "")
            listed = (await client.list_tools()).tools
            assert [tool.name for tool in listed] == list(TOOLS)
            assert len(listed) == 11

            async def call(tool: str, **arguments: Any) -> dict[str, Any]:
                return content_of(await client.call_tool(tool, arguments))

            session = await call("open_session", project=project, title="a day's work")
            own = {"session_id": session["session_id"]}
            placed = await call("place_beacon", interest="*", project=project)
            assert (placed["created"], placed["would_match"]["count"]) == (True, 0)
            text = "we retry payments three times ブ 👩‍👩‍👧"
            stored = await call("store", content=text, cell_type="decision", **own)
            hit = (await call("recall", query="payments", k="5", include_content="true"))["results"][0]
            assert (hit["node_id"], hit["content"], hit["project"]) == (stored["node_id"], text, project)
            assert (await call("query", query="payments", layer=2))["results"] == []

            news = [
                author("store", content=f"news {n}", cell_type="Fact", project=project)["node_id"]
                for n in range(3)
            ]
            page = await call("drain_inbox", limit=2, **own)
            assert [d["node_id"] for d in page["diffs"]] == news[:2]
            assert page["remaining"] == 1
            rest = await call("drain_inbox", ack=page["cursor"], **own)
            assert [d["node_id"] for d in rest["diffs"]] == news[2:]
            assert (await call("drain_inbox", **own))["diffs"] == []
            again = await call("diffs_since", since="1h", project=project)
            assert [d["node_id"] for d in again["diffs"]] == [stored["node_id"], *news]
            assert [b["waiting"] for b in (await call("list_beacons"))["beacons"]] == [4], "until it closes"
            assert (await call("list_scenes"))["scenes"] == []
            assert (await call("close_session", **own))["closed_at"]
            assert [d["node_id"] for d in (await call("drain_inbox"))["diffs"]] == [stored["node_id"]]

    asyncio.run(asyncio.wait_for(run(), WAIT_S))


@transports
@modes
def test_an_agent_reads_what_it_did_wrong(peer: RunningPeer, transport: Open, mode: Mode) -> None:
    key = peer.issue(f"wrong-{mode}-{transport.__name__}", scopes=["read"])["key"]

    async def run() -> None:
        async with transport(peer, key, mode) as client:
            refused = await client.call_tool("store", {"content": "x"})
            assert refused.is_error
            (text,) = [part.text for part in refused.content if part.type == "text"]
            assert text.startswith("invalid: cell_type is missing; one of Decision, ")
            with pytest.raises(MCPError, match=r"^forbidden: this key has no scope write") as forbidden:
                await client.call_tool("store", {"content": "x", "cell_type": "Fact"})
            assert forbidden.value.error.data == {"code": "forbidden", "definite": True}
            with pytest.raises(MCPError, match=r"^not_found: ") as missing:
                await client.call_tool("get_scene", {"scene_id": "6f9619ff-8b86-d011-b42d-00cf4fc964ff"})
            assert missing.value.error.data == {"code": "not_found", "definite": True}
            with pytest.raises(MCPError):
                await client.call_tool("forget_everything", {})
            assert content_of(await client.call_tool("list_scenes", {}))["scenes"] == []

    asyncio.run(asyncio.wait_for(run(), WAIT_S))


def test_fifty_calls_at_once_over_one_pipe_are_fifty_memories(peer: RunningPeer) -> None:
    key = peer.issue("crowd")["key"]

    async def run() -> None:
        async with over_stdio(peer, key, "auto") as client:
            calls = [
                client.call_tool("store", {"content": f"crowd {n}", "cell_type": "Fact"}) for n in range(50)
            ]
            ids = {content_of(result)["node_id"] for result in await asyncio.gather(*calls)}
            assert len(ids) == 50
            search = {"query": "crowd", "k": 100, "from_agents": ["me"]}
            found = content_of(await client.call_tool("recall", search))["results"]
            assert {r["node_id"] for r in found} == ids

    asyncio.run(asyncio.wait_for(run(), WAIT_S))
    assert peer.operator()("verify_log")["ok"]


def test_a_key_that_was_revoked_while_connected_is_refused(peer: RunningPeer) -> None:
    issued = peer.issue("soon gone")

    async def run() -> None:
        async with over_stdio(peer, issued["key"], "auto") as client:
            content_of(await client.call_tool("list_beacons", {}))
            peer.operator()("revoke_key", id=issued["id"])
            with pytest.raises(MCPError, match=r"^unauthenticated: "):
                await client.call_tool("list_beacons", {})
            assert len((await client.list_tools()).tools) == 11

    asyncio.run(asyncio.wait_for(run(), WAIT_S))
