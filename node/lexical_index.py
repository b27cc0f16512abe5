"""Lexical index on SQLite FTS5: which cells hold the words of a question, and which share of its weight.

One table per tenant, so that neither counts nor statistics of one reach another.  The table holds no text and
no positions, only which terms a cell has (`contentless`, `detail=none`).  FTS5's own bm25() needs positions
and scores row by row: 10 to 14 ms a question at 100,000 cells, against 2 ms here.  So FTS5 gives the cells of
each term, and the score is BM25 (Robertson and Zaragoza 2009) of presence: a term counts its inverse document
frequency once, however often it stands there.  On the dialogue set that finds more than counting repetitions
(recall@1 39 against 34 %, recall@5 63 against 62 %).

A cell's length decides by how much its score is damped; its level travels in the low bits of the FTS5 row id,
so that a search reads nothing but the lists of the terms.  Knows rows and text, no cells, owners or projects.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import apsw
import numpy as np
import numpy.typing as npt

from node.lexical_terms import query_terms, terms

Rows = npt.NDArray[np.int64]
Shares = npt.NDArray[np.float32]

COMMON_SHARE: Final = 10  # a term in more than one tenth of the cells is left out
COMMON_CELLS: Final = 32  # but not below so many: in a small index every term is in a tenth of the cells
POSTINGS_MAX: Final = 20_000  # a term in more cells is left out in any case: bounds the time of a search
ROW_MAX: Final = 2**58

_LEVEL_BITS: Final = 4
_LEVELS: Final = 1 << _LEVEL_BITS
_SHORT_TERMS: Final = 40  # distinct terms of a cell, up to which it is not damped: some 300 characters
_DAMPING: Final = 0.25  # per doubling of the length beyond; BM25's own b would damp long cells to nothing
_DAMP: Final = 1.0 / (1.0 + _DAMPING * np.arange(_LEVELS) / 2)

_COUNTS = "CREATE TABLE IF NOT EXISTS lexical_counts(tenant BLOB PRIMARY KEY, cells INTEGER) WITHOUT ROWID"
_ADD_COUNT = (
    "INSERT INTO lexical_counts VALUES(?,?) ON CONFLICT(tenant) DO UPDATE SET cells=cells+excluded.cells"
)


@dataclass(frozen=True, slots=True)
class LexicalMatches:
    """Every cell that has a term of the question, best first, equals by row.

    Args:
        rows: int64[n]; shares: float32[n], above 0 and at most 1.
    """

    rows: Rows
    shares: Shares

    def top(self, limit: int) -> list[tuple[int, float]]:
        """Return the best as (row, share)."""
        return list(zip(self.rows[:limit].tolist(), self.shares[:limit].tolist(), strict=True))

    def shares_of(self, rows: Rows) -> Shares:
        """Return float32[len(rows)]: the share of each row, 0 where it did not match."""
        if len(self.rows) == 0 or len(rows) == 0:
            return np.zeros(len(rows), dtype=np.float32)
        order = np.argsort(self.rows)
        places = np.minimum(np.searchsorted(self.rows, rows, sorter=order), len(order) - 1)
        found = order[places]
        return np.where(self.rows[found] == rows, self.shares[found], np.float32(0))


_NOTHING: Final = LexicalMatches(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.float32))


class LexicalIndex:
    """Writes run on the writer's connection, inside its transaction; reads on any connection and thread.

    What it remembers beside the database is which terms are common, so a rollback needs no care.

    A share is the weight of the question's terms that a cell has, over the weight of all of them; times the
    damping of the cell's length over the damping that the question's own text would have; at most 1.  The same
    text has share 1.  It does not depend on what else is found, only on how rare the terms are in the tenant.

    Args:
        db: the writer's connection.
    """

    def __init__(self, db: apsw.Connection) -> None:
        self._db = db
        self._common: dict[tuple[bytes, str], int] = {}  # common term: how many cells there were then

    def reload(self) -> None:
        """Forget what was remembered: after a rollback or a rebuild."""
        self._common.clear()

    def add(self, tenant: bytes, row: int, text: str, tags: Iterable[str] = ()) -> None:
        """Index one cell.  A row is added once; to change it, remove it first.

        Args:
            row: 0 to `ROW_MAX`.
            tags: found like words of the text.
        """
        self.add_many(tenant, [(row, text, tags)])

    def add_many(self, tenant: bytes, cells: Sequence[tuple[int, str, Iterable[str]]]) -> None:
        """Index cells given as (row, text, tags); see `add`."""
        if not cells:
            return
        insert = f"INSERT INTO {_table(tenant)}(rowid, terms) VALUES(?,?)"
        for row, text, tags in cells:
            found = set(terms(text))
            for tag in tags:
                found.update(terms(tag))
            values = (row << _LEVEL_BITS | _level(len(found)), " ".join(found))
            try:
                self._db.execute(insert, values)
            except apsw.SQLError:
                self._create(tenant)
                self._db.execute(insert, values)
        self._db.execute(_ADD_COUNT, (tenant, len(cells)))

    def remove(self, tenant: bytes, row: int, text: str = "") -> None:
        """Remove a cell; nothing happens when it is not there.

        Args:
            text: what it was added with; not needed here, other engines would.
        """
        del text
        if not _cells(self._db, tenant):
            return
        first = row << _LEVEL_BITS
        delete = f"DELETE FROM {_table(tenant)} WHERE rowid BETWEEN ? AND ?"  # noqa: S608
        self._db.execute(delete, (first, first + _LEVELS - 1))
        if self._db.changes():
            self._db.execute(_ADD_COUNT, (tenant, -1))

    def purge(self, tenant: bytes) -> None:
        """Rewrite the tenant's table without what was removed: until then its terms are still in the file."""
        if _cells(self._db, tenant) is not None:
            table = _table(tenant)
            self._db.execute(f"INSERT INTO {table}({table}) VALUES('optimize')")

    def clear(self) -> None:
        """Drop everything, of all tenants."""
        for tenant in _tenants(self._db):
            self._db.execute(f"DROP TABLE IF EXISTS {_table(tenant)}")
        self._db.execute("DROP TABLE IF EXISTS lexical_counts")

    # -- reading

    def shares(self, db: apsw.Connection, tenant: bytes, query: str) -> dict[int, float]:
        """Return the share of every cell that matches; see `match`."""
        found = self.match(db, tenant, query)
        return dict(zip(found.rows.tolist(), found.shares.tolist(), strict=True))

    def search(
        self, db: apsw.Connection, tenant: bytes, query: str, limit: int, allowed: Rows | None = None
    ) -> list[tuple[int, float]]:
        """Return the best cells as (row, share); `limit` of them whenever so many match and are allowed."""
        return self.match(db, tenant, query, allowed).top(limit)

    def match(
        self, db: apsw.Connection, tenant: bytes, query: str, allowed: Rows | None = None
    ) -> LexicalMatches:
        """Return all cells that match.

        Args:
            allowed: int64[], ascending: nothing else is found; None means every row.
        """
        wanted, cells = query_terms(query), _cells(db, tenant)
        if not wanted or not cells:
            return _NOTHING
        postings = self._postings(db, tenant, wanted, cells)
        weights = [_weight(cells, len(p)) for p in postings]
        rows, places = np.unique(np.concatenate(postings), return_inverse=True)
        shares = np.bincount(places, np.repeat(weights, [len(p) for p in postings]), len(rows)) / sum(weights)
        shares *= _DAMP[rows & _LEVELS - 1] / _DAMP[_level(len(set(terms(query))))]
        rows >>= _LEVEL_BITS
        if allowed is not None:
            kept = _among(rows, allowed)
            rows, shares = rows[kept], shares[kept]
        order = np.argsort(-shares, kind="stable")
        return LexicalMatches(rows[order], np.minimum(shares[order], 1.0).astype(np.float32))

    def _postings(self, db: apsw.Connection, tenant: bytes, wanted: list[str], cells: int) -> list[Rows]:
        """Return, for each term that counts, the FTS5 row ids that have it."""
        limit = min(max(COMMON_CELLS, cells // COMMON_SHARE), POSTINGS_MAX)
        kept: list[Rows] = []
        common: list[str] = []
        for term in wanted:
            if 0.8 * cells < self._common.get((tenant, term), 0) < 1.25 * cells:
                common.append(term)
                continue
            rows = _rows_with(db, tenant, term, limit + 1)
            if len(rows) > limit:
                self._common[tenant, term] = cells
                common.append(term)
            else:
                kept.append(rows)
        if not any(len(rows) for rows in kept):
            kept += [_rows_with(db, tenant, term, POSTINGS_MAX) for term in common]
        return kept

    def _create(self, tenant: bytes) -> None:
        self._db.execute(_COUNTS)
        # The tokenizer splits at spaces only: terms hold letters, digits and these joints, or are not ASCII.
        self._db.execute(
            f"CREATE VIRTUAL TABLE IF NOT EXISTS {_table(tenant)} USING fts5(terms, content='', "
            """contentless_delete=1, detail=none, tokenize="ascii tokenchars '._-/\\:@#~&+'")"""
        )


def _table(tenant: bytes) -> str:
    return f"lexical_{tenant.hex()}"


def _level(distinct: int) -> int:
    """Return the length's level, half a doubling each: 0 for a short cell, at most 15."""
    if distinct <= _SHORT_TERMS:
        return 0
    return min(_LEVELS - 1, math.ceil(2 * math.log2(distinct / _SHORT_TERMS)))


def _weight(cells: int, having: int) -> float:
    """Return the inverse document frequency of a term, above 0."""
    return math.log1p((max(cells - having, 0) + 0.5) / (having + 0.5))


def _rows_with(db: apsw.Connection, tenant: bytes, term: str, limit: int) -> Rows:
    """Return the FTS5 row ids of a term, newest first, as int64[]; one text is far cheaper than many rows."""
    table = _table(tenant)
    select = (
        f"SELECT group_concat(rowid) FROM (SELECT rowid FROM {table} WHERE {table} MATCH ? "  # noqa: S608
        "ORDER BY rowid DESC LIMIT ?)"
    )
    text: Any = db.execute(select, (f'"{term}"', limit)).get
    return np.zeros(0, dtype=np.int64) if text is None else np.fromstring(text, dtype=np.int64, sep=",")


def _among(rows: Rows, allowed: Rows) -> npt.NDArray[np.bool_]:
    if len(allowed) == 0:
        return np.zeros(len(rows), dtype=np.bool_)
    places = np.minimum(np.searchsorted(allowed, rows), len(allowed) - 1)
    return np.asarray(allowed[places] == rows)


def _cells(db: apsw.Connection, tenant: bytes) -> int | None:
    """Return how many cells a tenant's table has; None when there is no such table."""
    try:
        count: Any = db.execute("SELECT cells FROM lexical_counts WHERE tenant=?", (tenant,)).get
    except apsw.SQLError:  # no tenant has a table yet
        return None
    return None if count is None else int(count)


def _tenants(db: apsw.Connection) -> list[bytes]:
    try:
        return [bytes(row[0]) for row in db.execute("SELECT tenant FROM lexical_counts")]
    except apsw.SQLError:  # no tenant has a table yet
        return []
