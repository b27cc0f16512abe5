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
from node.lexical_index import LexicalIndex, LexicalMatches
from node.ranking import distance
from node.reading import ReadPool
from node.vector_index import IndexKey, VectorIndexes
from proto.ids import TenantId

SEARCH_THREADS = 2
CANDIDATES = 2  # of each arm per result wanted: what one arm ranks low the other may lift
CANDIDATES_MIN = 30

Found = list[tuple[int, float]]

_NOTHING: Ids = np.zeros(0, dtype=np.int64)


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
            words = asyncio.ensure_future(self._pool.read(lambda db: self._lexical.match(db, tenant, text)))
        try:
            embedding = None if mode == "lexical" else await self._embedder.query(text)
            matches = None if words is None else await words
        except BaseException:
            if words is not None:
                words.cancel()
            raise
        return await asyncio.get_running_loop().run_in_executor(
            self._executor, self._rank, (tenant, wanted.layer), embedding, matches, allowed, k, mode
        )

    def _rank(
        self,
        key: IndexKey,
        embedding: Embedding | None,
        matches: LexicalMatches | None,
        allowed: Ids | None,
        k: int,
        mode: str,
    ) -> Found:
        many = max(CANDIDATES * k, CANDIDATES_MIN)
        lexical = _NOTHING if matches is None else self._best(key, matches, allowed, many)
        dense, cosines = _NOTHING, np.zeros(0, dtype=np.float32)
        if embedding is not None:
            dense, cosines = self._indexes.search(key, embedding.vector, many, allowed)
        only_lexical = lexical[~np.isin(lexical, dense)]
        numbers = np.concatenate([dense, only_lexical])
        if embedding is not None:
            cosines = np.concatenate([cosines, self._indexes.cosines(key, embedding.vector, only_lexical)])
        else:
            cosines = np.zeros(len(numbers), dtype=np.float32)
        shares = np.zeros(len(numbers)) if matches is None else matches.shares_of(numbers)
        scored = zip(numbers.tolist(), cosines.tolist(), shares.tolist(), strict=True)
        ranked = sorted((distance(mode, cosine, share), -n) for n, cosine, share in scored)
        return [(-n, d) for d, n in ranked[:k]]

    def _best(self, key: IndexKey, matches: LexicalMatches, allowed: Ids | None, many: int) -> Ids:
        """Return the cells with the highest shares that pass the filter, highest first."""
        passing = self._columns.numbers(*key) if allowed is None else allowed
        if len(passing) == 0:
            return _NOTHING
        places = np.searchsorted(passing, matches.rows).clip(max=len(passing) - 1)
        best: Ids = matches.rows[passing[places] == matches.rows][:many]
        return best

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
