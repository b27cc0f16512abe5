"""Requests that name their revision themselves: the envelope, and the headers that repeat it over HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcp_gateway.ladder import CAPABILITIES_KEY, NAMED, VERSION_KEY

MODERN = "2026-07-28"


def enveloped(params: Mapping[str, Any] | None = None, version: str = MODERN) -> dict[str, Any]:
    """Return params with an envelope of this revision."""
    return {**(params or {}), "_meta": {VERSION_KEY: version, CAPABILITIES_KEY: {}}}


def repeated(method: str, params: Mapping[str, Any] | None = None, version: str = MODERN) -> dict[str, str]:
    """Return the headers that a request needs over HTTP."""
    name = (params or {}).get(NAMED.get(method, ""))
    return {
        "MCP-Protocol-Version": version,
        "Mcp-Method": method,
        **({} if name is None else {"Mcp-Name": str(name)}),
    }
