"""A peer that also measures itself: surfaces as in the product, and the bare request timed inside the process.

`python -m tests.benchmarks.overhead_peer DIRECTORY` prints `{"url", "key"}` when ready, then answers each
line `{"method", "args": [...]}` on stdin with the milliseconds of one bare `service.request` for each of the
arguments.  Ends when stdin does.  The embedder is the one without a model.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from node.data_directory import PeerDirectory, RunFile
from node.directory_lock import DirectoryLock, boot_id, now_text
from node.identity import load_identity
from node.joining import create_or_join
from node.peer_config import PeerConfig
from node.peer_core import PeerCore
from node.service.bounds import Bounds
from node.surfaces import Surfaces
from proto.ids import format_base32
from proto.messages import KeyCredential, LocalUser, Request

CALL_MS = 20_000
ENOUGH = Bounds(rate_per_key=100_000, rate_burst=1_000_000)


async def serve(directory: PeerDirectory) -> None:
    """Run the peer until stdin ends."""
    directory.prepare()
    config = PeerConfig(directory.path, use_nats=False, embedder="hash", bounds=ENOUGH)
    async with AsyncExitStack() as stack:
        stack.enter_context(DirectoryLock.acquire(directory.lock, "peer"))
        identity = await create_or_join(config, directory, load_identity(directory, config.name))
        core = await PeerCore.open(config, directory, identity, lambda: None)
        stack.push_async_callback(core.close)
        surfaces = Surfaces(core, directory, config, None)
        await stack.enter_async_context(surfaces.serving())
        issued = await core.service.request(
            Request("issue_key", {"agent": "bench"}, _deadline_ms(), LocalUser())
        )
        key = str(issued.unwrap()["key"])
        directory.write_run_file(_run_file(directory, surfaces.http_url, format_base32(identity.peer)))
        _say({"url": surfaces.http_url, "key": key})
        reader = asyncio.StreamReader(limit=1 << 20)
        await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
        )
        while line := await reader.readline():
            asked = json.loads(line)
            _say([await _bare_ms(core, key, asked["method"], args) for args in asked["args"]])


async def _bare_ms(core: PeerCore, key: str, method: str, args: dict[str, Any]) -> float:
    request = Request(method, args, _deadline_ms(), KeyCredential(key))
    began = time.perf_counter()
    reply = await core.service.request(request)
    spent = (time.perf_counter() - began) * 1000
    reply.unwrap()
    return spent


def _run_file(directory: PeerDirectory, url: str, peer: str) -> RunFile:
    return RunFile(os.getpid(), boot_id(), peer, "bench", "mesh", str(directory.socket()), url, now_text())


def _deadline_ms() -> int:
    return time.time_ns() // 1_000_000 + CALL_MS


def _say(value: Any) -> None:
    print(json.dumps(value), flush=True)


if __name__ == "__main__":
    asyncio.run(serve(PeerDirectory(Path(sys.argv[1]))))
