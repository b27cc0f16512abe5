"""STUB to unblock others; replaced by its owner."""

from __future__ import annotations

import apsw

from proto.ids import TenantId


class LexicalIndex:
    def __init__(self, db: apsw.Connection) -> None:
        self._db = db
        self._db.execute("CREATE VIRTUAL TABLE IF NOT EXISTS stub_lexical USING fts5(t, content='', contentless_delete=1)")

    def add(self, tenant: TenantId, rowid: int, text: str) -> None:
        self._db.execute("INSERT INTO stub_lexical(rowid, t) VALUES(?,?)", (rowid, text))

    def remove(self, tenant: TenantId, rowid: int) -> None:
        self._db.execute("DELETE FROM stub_lexical WHERE rowid=?", (rowid,))

    def clear(self) -> None:
        self._db.execute("DELETE FROM stub_lexical")
