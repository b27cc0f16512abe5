"""What is derived outside the database: columns for filters and vectors in FAISS, kept in step with commits.

Everything here can be thrown away and built again from the log.  The snapshot of the vectors says which
database and how much of it it covers; on any doubt it is rebuilt.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import TypeGuard

import apsw
import numpy as np
import structlog

from node import database
from node.beacon_index import Floats, unpack_vector
from node.cell_columns import CellColumns, CellRow
from node.cells_projection import CellChange
from node.replica import Changes
from node.stored_events import read_stored
from node.vector_index import IndexKey, VectorIndexes
from proto.codec import decode, encode
from proto.ids import AgentId, TenantId
from proto.payloads import CellStored

_log = structlog.get_logger(__name__)

LOAD_BATCH = 2_048


class DerivedState:
    """Owned by the writer's thread while the peer runs.

    Args:
        indexes: one vector index per tenant and layer.
        columns: shared with searching threads.
        space: embedding space of this peer.
    """

    def __init__(self, indexes: VectorIndexes, columns: CellColumns, space: str) -> None:
        self._indexes, self._columns, self._space = indexes, columns, space
        self._dimensions = 0  # of the space; none of its vectors is indexed before `load`
        self.rebuilt = 0

    def load(self, db: apsw.Connection, snapshot: Path, dimensions: int) -> None:
        """Build everything from the database, taking the vectors from the snapshot as far as it covers it."""
        self._dimensions = dimensions
        covered = self._load_snapshot(db, snapshot, dimensions)
        self._load_columns(db)
        self.rebuilt = self._load_vectors(db, covered)

    def load_again(self, db: apsw.Connection) -> None:
        """Build everything from the database once more, because cells have other numbers now."""
        self._columns.clear()
        self._indexes.clear()
        self._load_columns(db)
        self._load_vectors(db, 0)

    def save(self, db: apsw.Connection, snapshot: Path) -> None:
        """Write the snapshot, atomically."""
        self._indexes.save(snapshot, _stamp(db, self._space))

    def take(self, changes: Changes) -> None:
        """Take over what a commit changed, before it is acknowledged: what was stored is found at once."""
        latest = {(cell.tenant, cell.cell_no): cell for cell in changes.cells}  # one may be written twice
        gone: dict[IndexKey, list[int]] = defaultdict(list)
        groups: dict[IndexKey, tuple[list[int], list[Floats]]] = defaultdict(lambda: ([], []))
        rows: dict[TenantId, list[CellRow]] = defaultdict(list)
        for cell in latest.values():
            key = cell.tenant, cell.layer
            rows[cell.tenant].append(_row(cell))
            if cell.replaces:
                gone[key].append(cell.cell_no)
            if self._fits(cell.values):
                groups[key][0].append(cell.cell_no)
                groups[key][1].append(cell.values)
        for key, numbers in gone.items():
            self._indexes.remove(key, np.array(numbers, dtype=np.int64))
        for key, (numbers, values) in groups.items():
            self._add(key, numbers, values)
        for tenant, cells in rows.items():
            self._columns.put(tenant, cells)
        if changes.superseded:
            self._columns.supersede(changes.superseded)

    def _fits(self, values: Floats | None) -> TypeGuard[Floats]:
        """Tell whether a vector is one of the index: another peer may call its own space by the same name."""
        return values is not None and len(values) == self._dimensions

    def _add(self, key: IndexKey, numbers: list[int], values: list[Floats]) -> None:
        matrix = np.stack(values)
        matrix = matrix / np.linalg.norm(matrix, axis=1, keepdims=True)
        self._indexes.add(key, np.array(numbers, dtype=np.int64), matrix.astype(np.float32))

    # -- loading

    def _load_snapshot(self, db: apsw.Connection, snapshot: Path, dimensions: int) -> int:
        """Return the place of arrival up to which the snapshot covers the log; 0 when there is none."""
        stamp = self._indexes.load(snapshot, dimensions)
        if stamp is None:
            return 0
        try:
            space, local, hash_ = decode(stamp)
        except ValueError:
            space, local, hash_ = "", 0, b""
        held = database.value(db, "SELECT hash FROM events WHERE local=?", local)
        if space == self._space and held is not None and held == hash_:
            return int(local)
        _log.warning("index_snapshot_of_another_log", rebuilt_from="the log")
        self._indexes.clear()
        return 0

    def _load_columns(self, db: apsw.Connection) -> None:
        rows: dict[TenantId, list[CellRow]] = defaultdict(list)
        for tenant, *rest in database.rows(
            db,
            "SELECT tenant_id, cell_no, project, owner, agent_id, cell_type, salience, layer, wall_ms, tags,"
            " superseded FROM cells",
        ):
            rows[TenantId(tenant)].append(_stored_row(*rest))
        for tenant_id, cells in rows.items():
            self._columns.put(tenant_id, cells)

    def _load_vectors(self, db: apsw.Connection, covered: int) -> int:
        pending: dict[IndexKey, tuple[list[int], list[Floats]]] = {}
        count = 0
        for cell_no, tenant, layer, local in database.rows(
            db,
            "SELECT cell_no, tenant_id, layer, local FROM cells WHERE space=? AND local>?",
            self._space,
            covered,
        ):
            stored = read_stored(db, local)
            payload = None if stored is None else stored.payload
            if not isinstance(payload, CellStored) or payload.vector is None:
                continue
            vector = unpack_vector(payload.vector)
            if not self._fits(vector):
                continue
            numbers, values = pending.setdefault((TenantId(tenant), layer), ([], []))
            numbers.append(cell_no)
            values.append(vector)
            count += 1
            if len(numbers) >= LOAD_BATCH:
                self._replace((TenantId(tenant), layer), numbers, values, covered)
                del pending[TenantId(tenant), layer]
        for key, (numbers, values) in pending.items():
            self._replace(key, numbers, values, covered)
        return count

    def _replace(self, key: IndexKey, numbers: list[int], values: list[Floats], covered: int) -> None:
        if covered:  # a cell written again after the snapshot is in it with its old vector
            self._indexes.remove(key, np.array(numbers, dtype=np.int64))
        self._add(key, numbers, values)


def _stamp(db: apsw.Connection, space: str) -> bytes:
    local, hash_ = database.row(db, "SELECT local, hash FROM events ORDER BY local DESC LIMIT 1") or (0, b"")
    return encode((space, local, hash_))


def _row(cell: CellChange) -> CellRow:
    return CellRow(
        cell.cell_no,
        cell.project,
        cell.owner,
        cell.agent_id,
        cell.cell_type,
        cell.salience,
        cell.layer,
        cell.wall_ms,
        cell.tags,
        cell.superseded,
    )


def _stored_row(
    cell_no: int,
    project: str,
    owner: str,
    agent: bytes,
    cell_type: str,
    salience: int,
    layer: int,
    wall_ms: int,
    tags: str,
    superseded: int,
) -> CellRow:
    names: Iterable[str] = json.loads(tags) if tags != "[]" else ()
    return CellRow(
        cell_no,
        project,
        owner,
        AgentId(agent),
        cell_type,
        salience,
        layer,
        wall_ms,
        tuple(names),
        bool(superseded),
    )
