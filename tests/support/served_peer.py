"""A peer's service in this process behind its real HTTP surface: uvicorn on a loopback port, no model."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import uvicorn

from mcp_gateway.http_app import build_app
from node.http_connections import http_protocol
from tests.support.open_service import open_peer

READY_S = 30.0


@dataclass(frozen=True, slots=True)
class ServedPeer:
    """Where a peer is reached, and keys of it.

    Args:
        keys: by the agent that was asked for.
    """

    url: str
    keys: dict[str, str]
