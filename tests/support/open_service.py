"""A peer's service in this process, with real files and the embedder without a model."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from node.data_directory import PeerDirectory
from node.identity import load_identity
from node.joining import create_or_join
from node.peer_config import PeerConfig
from node.peer_core import PeerCore
from proto.messages import Credential, KeyCredential, LocalUser, Reply, Request


@dataclass(frozen=True, slots=True)
class OpenPeer:
    """A running peer without surfaces."""

    core: PeerCore

    async def ask(self, method: str, args: Mapping[str, Any], key: str | None = None, **more: Any) -> Reply:
        """Make a call with a key, or as the local user."""
        credential: Credential = LocalUser() if key is None else KeyCredential(key)
        deadline_ms = time.time_ns() // 1_000_000 + 20_000
        return await self.core.service.request(Request(method, args, deadline_ms, credential, **more))

    async def call(
        self, method: str, args: Mapping[str, Any], key: str | None = None, **more: Any
    ) -> Mapping[str, Any]:
        """Make a call and return its result, or raise its error."""
        return (await self.ask(method, args, key, **more)).unwrap()

    async def key(self, agent: str, **rights: Any) -> str:
        """Issue a key and return its text."""
        return str((await self.call("issue_key", {"agent": agent, **rights}))["key"])


@asynccontextmanager
async def open_peer(data_dir: Path, **config_of_peer: Any) -> AsyncIterator[OpenPeer]:
    """Open a peer for the block and close it cleanly.

    Args:
        config_of_peer: fields of `PeerConfig`, such as `embedder="onnx"` for the real model.
    """
    config = PeerConfig(data_dir, use_nats=False, **{"embedder": "hash", **config_of_peer})
    directory = PeerDirectory(data_dir)
    directory.prepare()
    identity = await create_or_join(config, directory, load_identity(directory, config.name))
    core = await PeerCore.open(config, directory, identity, lambda: None)
    try:
        yield OpenPeer(core)
    finally:
        await core.close()
