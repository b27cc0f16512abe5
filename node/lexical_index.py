"""Words to cells: one FTS5 table per tenant, and how many cells hold each term.

A table per tenant, so that neither rows nor statistics of one reach another.  The share that a cell gets is
its BM25 against what the query would score in a cell of average length that holds every term once: absolute,
so that it does not depend on which other cells were found.  Writes run on the writer's connection inside its
transaction; `shares` runs on any reading connection.

Source: Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond" (2009); k1 = 1.2 and
b = 0.75 as in FTS5.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable

import apsw

from node import database
from node.lexical_terms import terms
from proto.ids import TenantId

QUERY_TERMS = 32
COMMON_SHARE = 0.1  # terms in more than a tenth of the cells say little and cost most
COMMON_FROM = 200  # cells; in fewer no term is too common
MATCHES_MAX = 4_000  # rows that one query may score: rare terms first, further ones are left out


class _Statistics:
    """Of one tenant: the number of cells, and of the cells that hold each term."""

    def __init__(self) -> None:
        self.cells = 0
        self.holding: Counter[str] = Counter()


class LexicalIndex:
    """Owned by the writer; `shares` may be called from any thread with a connection of its own.

    Args:
        db: the writer's connection.
    """

    def __init__(self, db: apsw.Connection) -> None:
        self._db = db
        self.reload()

    def reload(self) -> None:
        """Read the statistics from the tables: at start and after a rollback."""
        found: dict[TenantId, _Statistics] = {}
        for (name,) in database.rows(
            self._db,
            "SELECT name FROM sqlite_master WHERE name GLOB 'words_[0-9a-f]*' AND sql LIKE '%fts5(%'",
        ):
            statistics = found[TenantId(bytes.fromhex(name.removeprefix("words_")))] = _Statistics()
            self._db.execute(f"CREATE VIRTUAL TABLE temp.v USING fts5vocab(main, {name}, row)")
            statistics.holding.update(dict(database.rows(self._db, "SELECT term, doc FROM temp.v")))
            self._db.execute("DROP TABLE temp.v")
            statistics.cells = database.value(self._db, f"SELECT count(*) FROM {name}_docsize")  # noqa: S608
        self._statistics = found

    def add(self, tenant: TenantId, rowid: int, text: str) -> None:
        """Index one cell."""
        statistics = self._statistics.get(tenant)
        if statistics is None:
            self._db.execute(
                f"CREATE VIRTUAL TABLE IF NOT EXISTS {_table(tenant)} USING fts5(terms, content='',"
                " contentless_delete=1, tokenize=\"ascii tokenchars '_'\")"
            )
            statistics = self._statistics[tenant] = _Statistics()
        found = terms(text)
        self._db.execute(
            f"INSERT INTO {_table(tenant)}(rowid, terms) VALUES(?,?)",
            (rowid, " ".join(found)),
        )
        statistics.cells += 1
        statistics.holding.update(set(found))

    def remove(self, tenant: TenantId, rowid: int, text: str) -> None:
        """Take one cell out; `text` is what it was added with."""
        self._db.execute(f"DELETE FROM {_table(tenant)} WHERE rowid=?", (rowid,))  # noqa: S608
        statistics = self._statistics[tenant]
        statistics.cells -= 1
        statistics.holding.subtract(set(terms(text)))

    def clear(self) -> None:
        """Drop every table, inside the caller's transaction."""
        for tenant in self._statistics:
            self._db.execute(f"DROP TABLE IF EXISTS {_table(tenant)}")
        self._statistics = {}

    def shares(self, db: apsw.Connection, tenant: TenantId, query: str) -> dict[int, float]:
        """Return the share, above 0 to 1, of every cell that holds a term of the query."""
        statistics = self._statistics.get(tenant)
        if statistics is None or statistics.cells == 0:
            return {}
        wanted, most = _choose(terms(query), statistics)
        if not wanted:
            return {}
        expression = " OR ".join(f'"{t}"' for t in wanted)
        table = _table(tenant)
        sql = f"SELECT rowid, bm25({table}) FROM {table} WHERE {table} MATCH ?"  # noqa: S608
        found = database.rows(db, sql, expression)
        return {rowid: min(1.0, max(0.0, -score / most)) for rowid, score in found}


def _choose(found: Iterable[str], statistics: _Statistics) -> tuple[list[str], float]:
    """Return the terms to look for, and what a cell of average length would score that held all of them once.

    Very common terms are left out unless nothing else is there.  Terms that no cell holds cannot be found, but
    count in what the query could score: so a question about something never stored scores low.
    """
    holding = {t: statistics.holding.get(t, 0) for t in dict.fromkeys(found)}
    by_rarity = sorted(holding, key=lambda t: (holding[t], t))[:QUERY_TERMS]
    if statistics.cells >= COMMON_FROM:
        telling = [t for t in by_rarity if holding[t] <= COMMON_SHARE * statistics.cells]
        by_rarity = telling or by_rarity[:1]
    most = sum(_weight(statistics.cells, holding[t]) for t in by_rarity)
    wanted: list[str] = []
    rows = 0
    for term in by_rarity:
        rows += holding[term]
        if wanted and rows > MATCHES_MAX:
            break
        if holding[term]:
            wanted.append(term)
    return wanted, most


def _weight(cells: int, holding: int) -> float:
    """Return FTS5's inverse document frequency: what one occurrence in a cell of average length scores."""
    return max(1e-6, math.log((cells - holding + 0.5) / (holding + 0.5)))


def _table(tenant: TenantId) -> str:
    return f"words_{tenant.hex()}"
