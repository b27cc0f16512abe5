"""Which embedder a peer uses, and what it does while there is none."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import structlog

from node.embedding import Embedder, Embedding
from node.peer_config import PeerConfig
from proto.errors import HyphaeError, Invalid, Unavailable

_log = structlog.get_logger(__name__)

RETRY_MS = 60_000  # somebody has to bring the model: no call should wait for that


class MissingEmbedder:
    """Stands where a model should be: nothing can be embedded, everything else works.

    Args:
        problem: what is wrong, with path and hash; every call answers it.
    """

    space = "none"
    dimensions = 384

    def __init__(self, problem: str) -> None:
        self.problem = problem

    async def query(self, text: str) -> Embedding:
        raise Unavailable(self.problem, retry_after_ms=RETRY_MS)

    async def store(self, text: str) -> Embedding:
        raise Unavailable(f"{self.problem} Nothing was stored.", retry_after_ms=RETRY_MS)

    async def bulk(self, texts: Sequence[str]) -> list[Embedding]:
        raise Unavailable(f"{self.problem} Nothing was stored.", retry_after_ms=RETRY_MS)

    def close(self) -> None:
        """Nothing to stop."""


def choose_embedder(config: PeerConfig) -> Embedder:
    """Return the embedder of a peer.

    Blocks while a model of one's own is read, to learn its space; not to be called on an event loop.
    """
    if config.embedder == "hash":
        from node.hash_embedder import HashEmbedder

        return HashEmbedder()
    if config.embedder not in ("onnx", "none"):
        raise Invalid(f'the embedder "{config.embedder}" is not known; give onnx or hash.')
    from node.onnx_embedder import OnnxEmbedder

    try:
        embedder = OnnxEmbedder(
            config.model_dir, threads=config.embed_threads or None, spinning=config.embed_spinning
        )
        if config.model_dir is not None:
            asyncio.run(embedder.load())
        return embedder
    except HyphaeError as error:
        _log.error("model_unavailable", reason=error.message)
        return MissingEmbedder(error.message)
