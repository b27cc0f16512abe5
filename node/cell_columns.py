"""What filters need of every cell, as columns in memory: one mask over arrays answers any filter.

A row per cell and tenant.  Written by the writer's thread after each commit, read by searching threads; a
lock guards growth.  About 45 bytes a cell.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from node.inbox_query import Scope
from proto.ids import AgentId, TenantId
from proto.payloads import PRIVATE

Ids = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class CellRow:
    """One cell as filters see it.  `salience` in ten-thousandths, `wall_ms` since 1970."""

    cell_no: int
    project: str
    owner: str
    agent_id: AgentId
    cell_type: str
    salience: int
    layer: int
    wall_ms: int
    tags: tuple[str, ...]
    superseded: bool


@dataclass(frozen=True, slots=True)
class CellFilter:
    """What a search is narrowed to.  Empty means any."""

    scope: Scope
    layer: int
    cell_types: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    agents: tuple[AgentId, ...] = ()
    since_ms: int | None = None
    min_salience: int = 0
    include_superseded: bool = False


_DTYPE = np.dtype(
    [
        ("cell_no", np.int64),
        ("wall_ms", np.int64),
        ("project", np.int32),
        ("owner", np.int32),
        ("agent", np.int32),
        ("salience", np.int16),
        ("cell_type", np.int32),
        ("layer", np.int8),
        ("superseded", np.bool_),
    ]
)


@dataclass(slots=True)
class _Table:
    rows: npt.NDArray[np.void] = field(default_factory=lambda: np.zeros(64, dtype=_DTYPE))
    used: int = 0
    at: dict[int, int] = field(default_factory=dict)
    tags: dict[str, set[int]] = field(default_factory=dict)


class CellColumns:
    """Columns of all tenants."""

    def __init__(self) -> None:
        self._tables: dict[TenantId, _Table] = {}
        self._numbers: dict[object, int] = {}
        self._lock = threading.Lock()

    def count(self, tenant: TenantId) -> int:
        table = self._tables.get(tenant)
        return 0 if table is None else table.used

    def holds(self, tenant: TenantId, cell_no: int) -> bool:
        table = self._tables.get(tenant)
        return table is not None and cell_no in table.at

    def total(self) -> int:
        """Return the cells of all tenants."""
        return sum(table.used for table in self._tables.values())

    def clear(self) -> None:
        """Drop everything."""
        with self._lock:
            self._tables.clear()

    def put(self, tenant: TenantId, cells: Iterable[CellRow]) -> None:
        """Add cells, or replace those that are there."""
        with self._lock:
            table = self._tables.setdefault(tenant, _Table())
            for cell in cells:
                self._put(table, cell)

    def supersede(self, cell_nos: Sequence[int]) -> None:
        """Hide cells; unknown numbers are ignored."""
        with self._lock:
            for table in self._tables.values():
                for cell_no in cell_nos:
                    row = table.at.get(cell_no)
                    if row is not None:
                        table.rows["superseded"][row] = True

    def numbers(self, tenant: TenantId, layer: int) -> Ids:
        """Return every cell of a layer, int64[n] ascending."""
        with self._lock:
            table = self._tables.get(tenant)
            if table is None:
                return np.zeros(0, dtype=np.int64)
            rows = table.rows[: table.used]
            return np.sort(rows["cell_no"][rows["layer"] == layer])

    def in_layer(self, tenant: TenantId, layer: int, numbers: Ids, most: int) -> Ids:
        """Return the first `most` of these cells that are in a layer, in their order."""
        with self._lock:
            table = self._tables.get(tenant)
            if table is None:
                return np.zeros(0, dtype=np.int64)
            layers = table.rows["layer"]
            found: list[int] = []
            for number in numbers.tolist():
                row = table.at.get(number)
                if row is not None and layers[row] == layer:
                    found.append(number)
                    if len(found) == most:
                        break
            return np.array(found, dtype=np.int64)

    def passing(self, tenant: TenantId, wanted: CellFilter) -> Ids | None:
        """Return the cells that pass, int64[n] ascending, or None when every cell of the layer does.

        That is so for the moment only, and None says nothing of cells that come next: what is found without a
        filter has to pass `admits` before anybody is shown it.
        """
        with self._lock:
            table = self._tables.get(tenant)
            if table is None:
                return np.zeros(0, dtype=np.int64)
            rows = table.rows[: table.used]
            in_layer = rows["layer"] == wanted.layer
            mask = in_layer & self._mask(table, rows, wanted)
            if mask.sum() == in_layer.sum():
                return None
            return np.sort(rows["cell_no"][mask])

    def admits(self, tenant: TenantId, wanted: CellFilter, numbers: Ids) -> npt.NDArray[np.bool_]:
        """Return which of these cells pass now, bool[n]; unknown ones do not."""
        with self._lock:
            table = self._tables.get(tenant)
            places = [-1 if table is None else table.at.get(n, -1) for n in numbers.tolist()]
            known = np.array(places, dtype=np.int64) >= 0
            if table is not None and known.any():
                rows = table.rows[[place for place in places if place >= 0]]
                known[known] = (rows["layer"] == wanted.layer) & self._mask(table, rows, wanted)
            return known

    def _put(self, table: _Table, cell: CellRow) -> None:
        row = table.at.get(cell.cell_no)
        if row is None:
            row = table.at[cell.cell_no] = table.used
            table.used += 1
            if row == len(table.rows):
                table.rows = np.concatenate([table.rows, np.zeros_like(table.rows)])
        table.rows[row] = (
            cell.cell_no,
            cell.wall_ms,
            self._number("project", cell.project),
            self._number("owner", cell.owner),
            self._number("agent", cell.agent_id),
            cell.salience,
            self._number("type", cell.cell_type),
            cell.layer,
            cell.superseded,
        )
        for tag in cell.tags:
            table.tags.setdefault(tag, set()).add(cell.cell_no)

    def _mask(self, table: _Table, rows: npt.NDArray[np.void], wanted: CellFilter) -> npt.NDArray[np.bool_]:
        mask = np.ones(len(rows), dtype=np.bool_)
        private = rows["project"] == self._known("project", PRIVATE)
        mask &= ~private | (rows["owner"] == self._known("owner", wanted.scope.owner))
        if wanted.scope.project is not None:
            mask &= rows["project"] == self._known("project", wanted.scope.project)
        elif wanted.scope.readable is not None:
            mask &= private | np.isin(rows["project"], self._all("project", wanted.scope.readable))
        if not wanted.include_superseded:
            mask &= ~rows["superseded"]
        if wanted.cell_types:
            mask &= np.isin(rows["cell_type"], self._all("type", wanted.cell_types))
        if wanted.agents:
            mask &= np.isin(rows["agent"], self._all("agent", wanted.agents))
        if wanted.since_ms is not None:
            mask &= rows["wall_ms"] >= wanted.since_ms
        if wanted.min_salience:
            mask &= rows["salience"] >= wanted.min_salience
        for tag in wanted.tags:
            mask &= np.isin(rows["cell_no"], np.fromiter(table.tags.get(tag, ()), dtype=np.int64))
        return mask

    def _number(self, kind: str, name: object) -> int:
        return self._numbers.setdefault((kind, name), len(self._numbers))

    def _known(self, kind: str, name: object) -> int:
        return self._numbers.get((kind, name), -1)

    def _all(self, kind: str, names: Iterable[object]) -> list[int]:
        return [self._known(kind, name) for name in names]
