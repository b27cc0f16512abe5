"""Cells: the fold of stored events into one row per cell, its words and its vector.

Two events may name one cell (a retry on another peer); the earlier one by (HLC, position) is the cell.
Content and vector stay in the event; a row holds what filters need.  Runs on the writer's connection inside
its transaction.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

import apsw

from node import database
from node.beacon_index import Floats
from node.inbox_projection import Judged, as_judged
from node.lexical_index import LexicalIndex
from node.sqlite_log import Logged
from node.stored_events import read_stored
from proto.ids import AgentId, TenantId
from proto.payloads import CellStored


@dataclass(frozen=True, slots=True)
class CellChange:
    """A cell that the derived indexes have to take over once the transaction is durable.

    Args:
        values: int8 values as float32[dim], or None when the cell cannot be searched by vector here.
        replaces: the cell was known already and has other content now.
    """

    cell_no: int
    tenant: TenantId
    layer: int
    values: Floats | None
    project: str
    owner: str
    agent_id: AgentId
    cell_type: str
    salience: int
    wall_ms: int
    tags: tuple[str, ...]
    superseded: bool
    replaces: bool


class CellsProjection:
    """Writes `cells`, `cell_events`, `supersessions` and the lexical index.

    Args:
        space: the embedding space of this peer; vectors of another are kept, not searched.

    `last_no` is the highest number given to a cell.
    """

    def __init__(self, db: apsw.Connection, lexical: LexicalIndex, space: str) -> None:
        self._db, self._lexical, self._space = db, lexical, space
        self.last_no: int = database.value(db, "SELECT ifnull(max(cell_no), 0) FROM cells")

    def store(self, logged: Logged, payload: CellStored) -> tuple[Judged, list[CellChange], list[int]]:
        """Fold one event.

        Returns:
            What matching needs, the changes to derived indexes, and the cells that are superseded from now.
        """
        header = logged.event.header
        held = database.row(self._db, "SELECT cell_no, local FROM cells WHERE cell=?", payload.cell)
        if held is None:
            self.last_no += 1
        cell_no = self.last_no if held is None else int(held[0])
        judged = as_judged(logged, payload, cell_no)
        self._db.execute(
            "INSERT INTO cell_events VALUES(?,?,?,?,?,?)",
            (logged.local, cell_no, logged.stream_no, header.sequence, header.tenant, header.wall_ms),
        )
        changes: list[CellChange] = []
        linked = payload.supersedes is not None
        if held is None or self._is_earlier(logged, int(held[1])):
            changes.append(self._write(logged, payload, judged, replaces=held is not None))
            linked |= changes[0].superseded
        hidden: list[int] = []
        if payload.supersedes is not None:
            self._db.execute(
                "INSERT OR IGNORE INTO supersessions VALUES(?,?,?)",
                (payload.supersedes, payload.cell, logged.local),
            )
            self._db.execute("UPDATE cells SET superseded=1 WHERE cell=?", (payload.supersedes,))
            old = database.value(self._db, "SELECT cell_no FROM cells WHERE cell=?", payload.supersedes)
            hidden = [] if old is None else [int(old)]
        return replace(judged, linked=linked, repeated=held is not None), changes, hidden

    def _is_earlier(self, logged: Logged, held_local: int) -> bool:
        held = read_stored(self._db, held_local)
        if held is None:
            return False  # damaged: the one that is held keeps its place
        mine, theirs = logged.event.header, held.logged.event.header
        return (mine.hlc, mine.position) < (theirs.hlc, theirs.position)

    def _write(self, logged: Logged, payload: CellStored, judged: Judged, *, replaces: bool) -> CellChange:
        diff, header = judged.diff, logged.event.header
        searchable = judged.values is not None and judged.space == self._space
        superseded = database.row(self._db, "SELECT 1 FROM supersessions WHERE old=?", diff.cell) is not None
        if replaces:
            self._forget(header.tenant, diff.cell_no)
        self._db.execute(
            "INSERT INTO cells VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
            (
                diff.cell_no,
                diff.cell,
                logged.local,
                header.tenant,
                diff.project,
                diff.owner,
                payload.agent,
                diff.agent_id,
                diff.session,
                diff.cell_type,
                diff.salience,
                diff.layer,
                header.wall_ms,
                header.counter,
                json.dumps(payload.tags, ensure_ascii=False),
                superseded,
                judged.space,
            ),
        )
        self._lexical.add(header.tenant, diff.cell_no, payload.content, payload.tags)
        return CellChange(
            diff.cell_no,
            header.tenant,
            diff.layer,
            judged.values if searchable else None,
            diff.project,
            diff.owner,
            diff.agent_id,
            diff.cell_type,
            diff.salience,
            header.wall_ms,
            payload.tags,
            superseded,
            replaces,
        )

    def _forget(self, tenant: TenantId, cell_no: int) -> None:
        """Take out the row and the words of a later event of the same cell."""
        local = database.value(self._db, "SELECT local FROM cells WHERE cell_no=?", cell_no)
        held = read_stored(self._db, local)
        if held is not None and isinstance(held.payload, CellStored):
            self._lexical.remove(tenant, cell_no)
        self._db.execute("DELETE FROM cells WHERE cell_no=?", (cell_no,))
