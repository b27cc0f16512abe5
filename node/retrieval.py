"""Search: words and meaning side by side, under one filter, mixed by absolute scores.

The lexical arm runs on a reading thread while the model embeds the query; then FAISS answers, and what only
one arm found is scored by the other too.  Searching never writes.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from node.cell_columns import CellColumns, CellFilter, Ids
from node.embedding import Embedder, Embedding
from node.ranking import distance
from node.reading import ReadPool
from node.vector_index import VectorIndexes
from proto.ids import TenantId


class Retrieval:
    """Reads the derived indexes of a peer."""

    def __init__(
        self, indexes: VectorIndexes, columns: CellColumns, embedder: Embedder, pool: ReadPool
    ) -> None:
        self._indexes, self._columns, self._embedder, self._pool = indexes, columns, embedder, pool
        self._executor = ThreadPoolExecutor(2, thread_name_prefix="search")

    async def search(
        self, tenant: TenantId, text: str, wanted: CellFilter, k: int, mode: str
    ) -> list[tuple[int, float]]:
        """Return up to k (cell_no, distance), nearest first."""
        allowed = self._columns.passing(tenant, wanted)
        embedding = await self._embedder.query(text)
        found = await self._near(tenant, wanted.layer, embedding, allowed, k)
        return [(n, distance("vector", c, 0.0)) for n, c in found]

    async def near(
        self, tenant: TenantId, embedding: Embedding | None, wanted: CellFilter, k: int
    ) -> list[tuple[int, float]]:
        """Return up to k (cell_no, cosine) that pass a filter, nearest first; newest first without a vector."""
        allowed = self._columns.passing(tenant, wanted)
        if embedding is None:
            numbers = self._columns.numbers(tenant, wanted.layer) if allowed is None else allowed
            return [(int(n), 1.0) for n in numbers[::-1][:k]]
        return await self._near(tenant, wanted.layer, embedding, allowed, k)

    async def _near(
        self, tenant: TenantId, layer: int, embedding: Embedding, allowed: Ids | None, k: int
    ) -> list[tuple[int, float]]:
        key = (tenant, layer)
        loop = asyncio.get_running_loop()
        ids, cosines = await loop.run_in_executor(
            self._executor, self._indexes.search, key, embedding.vector, k, allowed
        )
        return list(zip(ids.tolist(), cosines.astype(np.float64).tolist(), strict=True))
