"""Driver of the official Python SDK, series 2.  Reads a job from stdin, prints one JSON line per step."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator, Mapping
from typing import Any

import httpx2
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

MODES: Mapping[str, Any] = {"legacy": "legacy", "auto": "auto", "modern": "2026-07-28"}


@contextlib.asynccontextmanager
async def connected(job: Mapping[str, Any]) -> AsyncIterator[Client]:
    mode = MODES[job["era"]]
    if job["transport"] == "stdio":
        async with Client(StdioServerParameters(**job["server"]), mode=mode) as client:
            yield client
        return
    async with httpx2.AsyncClient(headers=job["server"]["headers"]) as http:
        transport = streamable_http_client(job["server"]["url"], http_client=http)
        async with Client(transport, mode=mode) as client:
            yield client


async def outcome(client: Client, step: Mapping[str, Any]) -> dict[str, Any]:
    if "tool" not in step:
        return {"tools": [tool.name for tool in (await client.list_tools()).tools]}
    try:
        result = await client.call_tool(step["tool"], step["arguments"])
    except MCPError as refusal:
        error = refusal.error
        return {"error": {"code": error.code, "message": error.message, "data": error.data}}
    texts = [part.text for part in result.content if part.type == "text"]
    return {"is_error": result.is_error, "texts": texts, "structured": result.structured_content}


async def main() -> None:
    job = json.load(sys.stdin)
    async with connected(job) as client:
        print(json.dumps({"step": "connect", "revision": client.protocol_version}))
        for step in job["steps"]:
            print(json.dumps({"step": step["name"], **await outcome(client, step)}))


asyncio.run(main())
