"""Driver of the official Python SDK, series 1.  Reads a job from stdin, prints one JSON line per step."""

# Checked against the SDK of the project's environment, which is series 2:
# mypy: disable-error-code="attr-defined"

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator, Mapping
from typing import Any

from mcp import ClientSession, McpError, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamablehttp_client


@contextlib.asynccontextmanager
async def streams(job: Mapping[str, Any]) -> AsyncIterator[tuple[Any, Any]]:
    if job["transport"] == "stdio":
        async with stdio_client(StdioServerParameters(**job["server"])) as (reading, writing):
            yield reading, writing
        return
    async with streamablehttp_client(**job["server"]) as (reading, writing, _):
        yield reading, writing


async def outcome(session: Any, step: Mapping[str, Any]) -> dict[str, Any]:
    if "tool" not in step:
        return {"tools": [tool.name for tool in (await session.list_tools()).tools]}
    try:
        result = await session.call_tool(step["tool"], step["arguments"])
    except McpError as refusal:
        error = refusal.error
        return {"error": {"code": error.code, "message": error.message, "data": error.data}}
    texts = [part.text for part in result.content if part.type == "text"]
    return {"is_error": result.isError, "texts": texts, "structured": result.structuredContent}


async def main() -> None:
    job = json.load(sys.stdin)
    async with streams(job) as (reading, writing), ClientSession(reading, writing) as session:
        greeting = await session.initialize()
        print(json.dumps({"step": "connect", "revision": greeting.protocolVersion}))
        for step in job["steps"]:
            print(json.dumps({"step": step["name"], **await outcome(session, step)}))


asyncio.run(main())
