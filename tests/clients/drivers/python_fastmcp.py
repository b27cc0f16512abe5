"""Driver of the FastMCP client.  Reads a job from stdin, prints one JSON line per step."""

# FastMCP is no package of the project's environment:
# mypy: disable-error-code="import-not-found"

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping
from typing import Any

from fastmcp import Client
from fastmcp.client.transports import StdioTransport, StreamableHttpTransport
from mcp import MCPError

MODES = {"legacy": "legacy", "auto": "auto", "modern": "2026-07-28"}
TRANSPORTS = {"stdio": StdioTransport, "http": StreamableHttpTransport}


async def outcome(client: Any, step: Mapping[str, Any]) -> dict[str, Any]:
    if "tool" not in step:
        return {"tools": [tool.name for tool in await client.list_tools()]}
    try:
        result = await client.call_tool_mcp(step["tool"], step["arguments"])
    except MCPError as refusal:
        error = refusal.error
        return {"error": {"code": error.code, "message": error.message, "data": error.data}}
    texts = [part.text for part in result.content if part.type == "text"]
    return {"is_error": result.is_error, "texts": texts, "structured": result.structured_content}


async def main() -> None:
    job = json.load(sys.stdin)
    transport = TRANSPORTS[job["transport"]](**job["server"])
    async with Client(transport, mode=MODES[job["era"]]) as client:
        print(json.dumps({"step": "connect", "revision": client.protocol_version}))
        for step in job["steps"]:
            print(json.dumps({"step": step["name"], **await outcome(client, step)}))


asyncio.run(main())
