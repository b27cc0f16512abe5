"""A peer without a model in this process, behind its real HTTP surface on a loopback port."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path

from node.data_directory import PeerDirectory
from node.peer_config import PeerConfig
from node.surfaces import Surfaces
from tests.support.open_service import OpenPeer, open_peer

READY_S = 30.0


@contextmanager
def served_peer(data_dir: Path, keys: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, dict[str, str]]]:
    """Serve a peer for the block; give its URL and keys.

    Args:
        data_dir: a short path: its socket lies there.
        keys: scopes by agent, for each of which a key is issued.
    """
    ready: Future[tuple[str, dict[str, str]]] = Future()
    stop = threading.Event()

    async def serve() -> None:
        async with open_peer(data_dir) as peer:
            config = PeerConfig(data_dir, use_nats=False, embedder="hash", http_port=0)
            surfaces = Surfaces(peer.core, PeerDirectory(data_dir), config, None)
            async with surfaces.serving():
                ready.set_result((surfaces.http_url, await _issue(peer, keys)))
                await asyncio.to_thread(stop.wait)

    def run() -> None:
        try:
            asyncio.run(serve())
        except BaseException as error:
            if not ready.done():
                ready.set_exception(error)
            raise

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield ready.result(READY_S)
    finally:
        stop.set()
        thread.join(READY_S)


async def _issue(peer: OpenPeer, keys: Mapping[str, Sequence[str]]) -> dict[str, str]:
    return {agent: await peer.key(agent, scopes=list(scopes)) for agent, scopes in keys.items()}
