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
from node.lexical_index import LexicalIndex
from node.ranking import distance
from node.reading import ReadPool
from node.vector_index import VectorIndexes
from proto.ids import TenantId

SEARCH_THREADS = 2
CANDIDATES = 2  # of each arm per result wanted: what one arm ranks low the other may lift
CANDIDATES_MIN = 30

Found = list[tuple[int, float]]


class Retrieval:
    """Reads the derived indexes of a peer."""

    def __init__(
        self,
        indexes: VectorIndexes,
        columns: CellColumns,
        lexical: LexicalIndex,
        embedder: Embedder,
        pool: ReadPool,
    ) -> None:
        self._indexes, self._columns, self._lexical = indexes, columns, lexical
        self._embedder, self._pool = embedder, pool
        self._executor = ThreadPoolExecutor(SEARCH_THREADS, thread_name_prefix="search")

    async def search(self, tenant: TenantId, text: str, wanted: CellFilter, k: int, mode: str) -> Found:
        """Return up to k (cell_no, distance), nearest first; ties by the newer cell."""
        allowed = self._columns.passing(tenant, wanted)
        if allowed is not None and len(allowed) == 0:
            return []
        words = None
        if mode != "vector":
            words = asyncio.ensure_future(self._pool.read(lambda db: self._lexical.shares(db, tenant, text)))
        try:
            embedding = None if mode == "lexical" else await self._embedder.query(text)
            shares = {} if words is None else await words
        except BaseException:
            if words is not None:
                words.cancel()
            raise
        return await asyncio.get_running_loop().run_in_executor(
            self._executor, self._rank, tenant, wanted, embedding, shares, allowed, k, mode
        )

    def _rank(
        self,
        tenant: TenantId,
        wanted: CellFilter,
        embedding: Embedding | None,
        shares: dict[int, float],
        allowed: Ids | None,
        k: int,
        mode: str,
    ) -> Found:
        many = max(CANDIDATES * k, CANDIDATES_MIN)
        lexical = self._best(tenant, wanted.layer, shares, allowed, many)
        if embedding is None:
            cosines = dict.fromkeys(lexical, 0.0)
        else:
            key = (tenant, wanted.layer)
            ids, near = self._indexes.search(key, embedding.vector, many, allowed)
            cosines = dict(zip(ids.tolist(), near.tolist(), strict=True))
            missing = np.array([n for n in lexical if n not in cosines], dtype=np.int64)
            more = self._indexes.cosines(key, embedding.vector, missing)
            cosines.update(zip(missing.tolist(), more.tolist(), strict=True))
        ranked = [(distance(mode, cosine, shares.get(n, 0.0)), -n) for n, cosine in cosines.items()]
        ranked.sort()
        return [(-n, d) for d, n in ranked[:k]]

    def _best(
        self, tenant: TenantId, layer: int, shares: dict[int, float], allowed: Ids | None, many: int
    ) -> list[int]:
        """Return the cells with the highest shares that pass the filter."""
        if not shares:
            return []
        numbers = np.fromiter(shares.keys(), dtype=np.int64, count=len(shares))
        values = np.fromiter(shares.values(), dtype=np.float64, count=len(shares))
        passing = self._columns.numbers(tenant, layer) if allowed is None else allowed
        places = np.searchsorted(passing, numbers).clip(max=len(passing) - 1)
        mask = passing[places] == numbers if len(passing) else np.zeros(len(numbers), dtype=np.bool_)
        numbers, values = numbers[mask], values[mask]
        best = np.argsort(-values, kind="stable")[:many]
        return [int(n) for n in numbers[best]]

    async def near(self, tenant: TenantId, embedding: Embedding | None, wanted: CellFilter, k: int) -> Found:
        """Return up to k (cell_no, cosine) that pass a filter, nearest first; newest first without a vector."""
        allowed = self._columns.passing(tenant, wanted)
        if embedding is None:
            numbers = self._columns.numbers(tenant, wanted.layer) if allowed is None else allowed
            return [(int(n), 1.0) for n in numbers[::-1][:k]]
        ids, cosines = await asyncio.get_running_loop().run_in_executor(
            self._executor, self._indexes.search, (tenant, wanted.layer), embedding.vector, k, allowed
        )
        return list(zip(ids.tolist(), cosines.tolist(), strict=True))

    def close(self) -> None:
        """Wait for searches under way."""
        self._executor.shutdown(wait=True)
