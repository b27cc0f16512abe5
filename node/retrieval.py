"""Search: words and meaning under one filter, mixed by absolute scores.

The query is embedded, then one job on a reading thread does the rest: words, vectors, what only one arm found
scored by the other too, and whatever the caller makes of it.  One after the other on purpose: the words cost
half a millisecond at 10,000 cells, and beside the model they would take a core from it for longer than that.
Searching never writes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import apsw
import numpy as np

from node.cell_columns import CellColumns, CellFilter, Ids
from node.embedding import Embedder, Embedding
from node.lexical_index import LexicalIndex, LexicalMatches
from node.ranking import distance
from node.reading import ReadPool
from node.vector_index import IndexKey, VectorIndexes
from proto.ids import TenantId

CANDIDATES = 2  # of each arm per result wanted: what one arm ranks low the other may lift
CANDIDATES_MIN = 30

Found = list[tuple[int, float]]


@dataclass(frozen=True, slots=True)
class Scored:
    """One cell against one query, whatever filters say.

    Args:
        cosine: -1 to 1; 0 for a cell without a vector here, or in mode lexical.
        share: 0 to 1; 0 in mode vector.
        distance: what the two are mixed to.
    """

    cosine: float
    share: float
    distance: float


T = TypeVar("T")

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

    def knows(self, tenant: TenantId, cell_no: int) -> bool:
        """Tell whether a cell can be found."""
        return self._columns.holds(tenant, cell_no)

    async def search(
        self,
        tenant: TenantId,
        text: str,
        wanted: CellFilter,
        k: int,
        mode: str,
        show: Callable[[apsw.Connection, Found], T],
    ) -> T:
        """Find up to k (cell_no, distance), nearest first, ties by the newer cell.

        Args:
            show: makes the result of them, on the same connection and thread.
        """
        embedding = None if mode == "lexical" else await self._embedder.query(text)

        def find(db: apsw.Connection) -> T:
            allowed = self._columns.passing(tenant, wanted)
            if allowed is not None and len(allowed) == 0:
                return show(db, [])
            matches = None if mode == "vector" else self._lexical.match(db, tenant, text)
            return show(db, self._rank(tenant, wanted, embedding, matches, allowed, k, mode))

        return await self._pool.read(find)

    async def explain(
        self, tenant: TenantId, text: str, wanted: CellFilter, ks: set[int], mode: str, cell: tuple[int, int]
    ) -> tuple[dict[int, Found], Scored]:
        """Search as `search` does and score one cell beside it, over the same state of the indexes.

        Args:
            ks: how many results, for each search.
            cell: its number and layer.

        Returns:
            What `search` finds for each k, and the cell's scores.
        """
        embedding = None if mode == "lexical" else await self._embedder.query(text)

        def find(db: apsw.Connection) -> tuple[dict[int, Found], Scored]:
            matches = None if mode == "vector" else self._lexical.match(db, tenant, text)
            number, layer = np.array([cell[0]], dtype=np.int64), cell[1]
            cosine, share = 0.0, 0.0
            if embedding is not None:
                cosine = float(self._indexes.cosines((tenant, layer), embedding.vector, number)[0])
            if matches is not None:
                share = float(matches.shares_of(number)[0])
            allowed = self._columns.passing(tenant, wanted)

            def found(k: int) -> Found:
                if allowed is not None and len(allowed) == 0:
                    return []
                return self._rank(tenant, wanted, embedding, matches, allowed, k, mode)

            return {k: found(k) for k in ks}, Scored(cosine, share, distance(mode, cosine, share))

        return await self._pool.read(find)

    def passes(self, tenant: TenantId, wanted: CellFilter, cell_no: int) -> bool:
        """Tell whether a cell passes a filter."""
        return bool(self._columns.admits(tenant, wanted, np.array([cell_no], dtype=np.int64)).all())

    def _rank(
        self,
        tenant: TenantId,
        wanted: CellFilter,
        embedding: Embedding | None,
        matches: LexicalMatches | None,
        allowed: Ids | None,
        k: int,
        mode: str,
    ) -> Found:
        """Return what both arms find, nearest first.

        Args:
            allowed: what passed the filter a moment ago, to look there only; who has come since is told by
                `admits`, last of all.
        """
        key = tenant, wanted.layer
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
        admitted = self._columns.admits(tenant, wanted, numbers).tolist()
        scored = zip(numbers.tolist(), cosines.tolist(), shares.tolist(), admitted, strict=True)
        ranked = sorted((distance(mode, cosine, share), -n) for n, cosine, share, passes in scored if passes)
        return [(-n, d) for d, n in ranked[:k]]

    def _best(self, key: IndexKey, matches: LexicalMatches, allowed: Ids | None, many: int) -> Ids:
        """Return the cells with the highest shares that pass the filter, highest first."""
        if allowed is None:
            return self._columns.in_layer(*key, matches.rows, many)
        places = np.searchsorted(allowed, matches.rows).clip(max=len(allowed) - 1)
        best: Ids = matches.rows[allowed[places] == matches.rows][:many]
        return best

    async def near(self, tenant: TenantId, embedding: Embedding | None, wanted: CellFilter, k: int) -> Found:
        """Return up to k (cell_no, cosine) that pass a filter, nearest first; newest first without a vector."""

        def find(_db: apsw.Connection) -> Found:
            allowed = self._columns.passing(tenant, wanted)
            if embedding is None:
                ids = (self._columns.numbers(tenant, wanted.layer) if allowed is None else allowed)[::-1][:k]
                cosines = np.ones(len(ids), dtype=np.float32)
            else:
                ids, cosines = self._indexes.search((tenant, wanted.layer), embedding.vector, k, allowed)
            passes = self._columns.admits(tenant, wanted, ids)
            return list(zip(ids[passes].tolist(), cosines[passes].tolist(), strict=True))

        return await self._pool.read(find)
