"""Who is told that a memory was replaced: everybody who wrote it or was sent it (decision records 8 and 9).

"Was sent" means: has an entry for it, or an entry that names it as what replaced something.  So it is a
function of entries, which are a function of the events.  Runs on the writer's connection inside its
transaction.
"""

from __future__ import annotations

from typing import NamedTuple

import apsw

from node import database
from node.entries import EntryRow, EntryTable
from proto.ids import AgentId, CellId, TenantId, diff_id
from proto.payloads import PRIVATE

NO_MATCHES = b"\x90"


class _Cell(NamedTuple):
    cell: CellId
    cell_no: int
    tenant: TenantId
    project: str
    owner: str
    author: AgentId
    session: bytes | None
    local: int
    wall_ms: int
    counter: int

    @property
    def scope(self) -> tuple[bytes, str, str]:
        """What two cells must share for readers of the one to be shown the other."""
        return self.tenant, self.project, self.owner if self.project == PRIVATE else ""


class Replacements:
    """Writes entries of kind `superseded`."""

    def __init__(self, db: apsw.Connection, entries: EntryTable) -> None:
        self._db, self._entries = db, entries

    def tell(self, cell: CellId, arrived_us: int) -> None:
        """Bring up to date what depends on who wrote or was sent a cell, and on what it replaces."""
        pairs = dict.fromkeys((old, cell) for old in self._replaced_by(cell))
        seen, rest = {cell}, [cell]
        while rest:
            old = rest.pop()
            for new in self._replacing(old):
                pairs[old, new] = None
                if new not in seen:
                    seen.add(new)
                    rest.append(new)
        for old, new in pairs:
            self._tell(old, new, arrived_us)

    def _tell(self, old_id: CellId, new_id: CellId, arrived_us: int) -> None:
        old, new = self._cell(old_id), self._cell(new_id)
        if old is None or new is None:
            return
        diff = diff_id("superseded", old_id, new_id)
        told = self._to_be_told(old) if old.scope == new.scope else set()
        if new.session is None:
            told.discard(new.author)
        for agent in self._entries.agents_told(old.cell_no, "superseded", diff) - told:
            self._entries.remove(agent, diff)
        for agent in sorted(told):
            own = new.session if new.author == agent else None
            row = EntryRow(
                new.tenant,
                agent,
                diff,
                "superseded",
                old.cell_no,
                new.cell_no,
                new.local,
                new.wall_ms,
                new.counter,
                own,
                NO_MATCHES,
            )
            self._entries.put(row, arrived_us)

    def _to_be_told(self, old: _Cell) -> set[AgentId]:
        """Return who wrote a cell or matched it, or one that it replaces, however many steps before."""
        told: set[AgentId] = set()
        seen, rest = {old.cell}, [old]
        while rest:
            cell = rest.pop()
            told |= {cell.author} | self._entries.agents_told(cell.cell_no, "created")
            for older_id in self._replaced_by(cell.cell):
                older = self._cell(older_id)
                if older is not None and older_id not in seen and older.scope == cell.scope:
                    seen.add(older_id)
                    rest.append(older)
        return told

    def _replaced_by(self, cell: CellId) -> list[CellId]:
        rows = database.rows(self._db, "SELECT old FROM supersessions WHERE new=? ORDER BY old", cell)
        return [CellId(old) for (old,) in rows]

    def _replacing(self, cell: CellId) -> list[CellId]:
        rows = database.rows(self._db, "SELECT new FROM supersessions WHERE old=? ORDER BY new", cell)
        return [CellId(new) for (new,) in rows]

    def _cell(self, cell: CellId) -> _Cell | None:
        found = database.row(
            self._db,
            "SELECT cell, cell_no, tenant_id, project, owner, agent_id, session, local, wall_ms, counter"
            " FROM cells WHERE cell=?",
            cell,
        )
        return None if found is None else _Cell(*found)
