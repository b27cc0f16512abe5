"""export: everything that the caller may read, page by page, for scripts and backups of one's own.

The order is that in which memories first reached this peer, which nothing changes, so a cursor resumes where
a page ended, also after a restart; memories that come meanwhile are at the end.  Another peer has another
order and refuses the cursor.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import apsw

from mcp_gateway.operations import EXPORT_LIMIT
from node import database
from node.inbox_query import Scope
from node.principals import Principal
from node.service.context import Call, PeerContext
from node.service.full_cells import full_cell
from node.service.positions import format_position, parse_position
from node.service.views import load_cells, size_of
from proto.errors import Corrupted, Invalid
from proto.ids import format_uuid

PAGE_BYTES = 256 * 1024  # at most one cell more: with its envelope well within a message of the mesh


class ExportOperations:
    """Methods take a `Call` and return the result of the operation."""

    def __init__(self, context: PeerContext) -> None:
        self._context = context

    async def export(self, call: Call) -> Mapping[str, Any]:
        """Return a page of whole memories, superseded ones included."""
        p, args = call.principal, call.args
        p.require("read")
        scope = p.scope(args.get("project"))
        after = self._after(call)
        limit = args.get("limit", EXPORT_LIMIT)
        page, last, more = await self._context.pool.read(lambda db: _page(db, p, scope, after, limit))
        if more:
            page["next_cursor"] = format_position("export", p.agent_id, self._context.peer, last)
        return page

    def _after(self, call: Call) -> int:
        if "cursor" not in call.args:
            return 0
        peer, number = parse_position("export", call.principal.agent_id, call.args["cursor"], bytes, int)
        if peer != self._context.peer:
            raise Invalid(
                "cursor is of another peer, whose order is another. Nothing was changed."
                " Go on there, or leave cursor out to begin at the start."
            )
        return int(number)


def _page(
    db: apsw.Connection, principal: Principal, scope: Scope, after: int, limit: int
) -> tuple[dict[str, Any], int, bool]:
    """Return {cells, damaged?}, the number of the last cell looked at, and whether more come after it."""
    condition, parameters = scope.condition("c")
    rows = database.rows(
        db,
        f"SELECT c.cell_no, c.cell FROM cells c WHERE c.cell_no>? AND c.tenant_id=? AND {condition}"  # noqa: S608
        " ORDER BY c.cell_no LIMIT ?",
        after,
        principal.tenant,
        *parameters,
        limit + 1,
    )
    cells: list[dict[str, Any]] = []
    damaged: list[str] = []
    used, last, looked = 0, after, 0
    for cell_no, cell in rows[:limit]:
        shown = _shown(db, principal, cell_no)
        used += 0 if shown is None else size_of(shown)
        if cells and used > PAGE_BYTES:
            break
        if shown is None:
            damaged.append(format_uuid(cell))
        else:
            cells.append(shown)
        last, looked = cell_no, looked + 1
    return {"cells": cells, **({"damaged": damaged} if damaged else {})}, last, len(rows) > looked


def _shown(db: apsw.Connection, principal: Principal, cell_no: int) -> dict[str, Any] | None:
    held = load_cells(db, [cell_no]).get(cell_no)
    try:
        return None if held is None else full_cell(db, principal, held)
    except Corrupted:
        return None
