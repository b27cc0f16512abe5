"""recall and query: the memories nearest to a question, or the one that an id names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import apsw

from mcp_gateway.moments import parse_since
from node import database
from node.cell_columns import CellFilter
from node.principals import Principal
from node.retrieval import Found
from node.service import notes
from node.service.authorization import visible_cell
from node.service.context import Call, PeerContext
from node.service.own_stores import STALE, are_here
from node.service.views import cell_object, fitting_cell, load_cells, within_budget
from proto import limits
from proto.errors import Invalid, NotFound
from proto.ids import ID_BYTES, AgentId, agent_id, format_uuid, uuid_prefix

DEFAULT_K = 10
ME = "me"


class RecallOperations:
    """Methods take a `Call` and return the result of the tool."""

    def __init__(self, context: PeerContext) -> None:
        self._context = context

    async def recall(self, call: Call) -> Mapping[str, Any]:
        """Search layer 0."""
        return await self._search(call, 0)

    async def query(self, call: Call) -> Mapping[str, Any]:
        """Search one layer."""
        return await self._search(call, call.args["layer"])

    async def _search(self, call: Call, layer: int) -> Mapping[str, Any]:
        p, args, context = call.principal, call.args, self._context
        p.require("read")
        show = _show_cells if args.get("include_content", False) else _show_ids
        is_here = await are_here(context, call)
        named = await named_cell(self._context, call)
        if named is not None:
            return await self._whole(call, named)
        wanted = search_filter(p, args, layer, context.now_ms)
        k, mode = args.get("k", DEFAULT_K), args.get("mode", "hybrid")
        shown = await context.retrieval.search(p.tenant, args["query"], wanted, k, mode, show)
        return self._result(call, layer, shown, stale=not is_here)

    async def _whole(self, call: Call, cell_no: int) -> Mapping[str, Any]:
        """Return one memory, as much of its content as the budget holds."""
        args = call.args
        if not args.get("include_content", False):
            return {"results": await self._context.pool.read(lambda db: _show_ids(db, [(cell_no, 0.0)]))}
        most = args.get("max_bytes", limits.RESULT_BYTES)
        cells = await self._context.pool.read(lambda db: load_cells(db, [cell_no]))
        results = [fitting_cell(cell, 0.0, most) for cell in cells.values()]
        out: dict[str, Any] = {"results": results}
        if any("content_chars" in result for result in results):
            beyond_all = most >= limits.RESULT_BYTES_MAX
            out["note"] = notes.BEYOND_ALL if beyond_all else notes.BEYOND
        return out

    def _result(
        self, call: Call, layer: int, shown: list[dict[str, Any]], *, stale: bool
    ) -> Mapping[str, Any]:
        kept = within_budget(shown, call.args.get("max_bytes", limits.RESULT_BYTES))
        cut = len(shown) - len(kept)
        out: dict[str, Any] = {"results": kept}
        if cut:
            out["cut"] = cut
        if stale:
            out["stale"] = True
        unknown = notes.UNKNOWN_ID if shown and _is_whole_id(call.args["query"]) else None
        note = notes.joined(STALE if stale else None, unknown, notes.of_search(call.args, layer, shown, cut))
        if note:
            out["note"] = note
        return out


async def named_cell(context: PeerContext, call: Call) -> int | None:
    """Return the number of the cell that the query names by its id, if it does: it alone is found then."""
    text = call.args["query"].strip()
    if uuid_prefix(text) is None:
        return None
    try:
        _, cell_no = await context.pool.read(lambda db: visible_cell(db, call.principal, text, "query"))
    except (NotFound, Invalid):
        return None  # it only looked like one: hexadecimal words and numbers are searched for
    return cell_no


def _is_whole_id(query: str) -> bool:
    return len(uuid_prefix(query.strip()) or "") == 2 * ID_BYTES


def _show_ids(db: apsw.Connection, found: Found) -> list[dict[str, Any]]:
    ids = _ids(db, [n for n, _ in found])
    return [{"node_id": format_uuid(ids[n]), "distance": _round(d)} for n, d in found if n in ids]


def _show_cells(db: apsw.Connection, found: Found) -> list[dict[str, Any]]:
    cells = load_cells(db, [n for n, _ in found])
    return [cell_object(cells[n], _round(d)) for n, d in found if n in cells]


def search_filter(p: Principal, args: Mapping[str, Any], layer: int, now_ms: int) -> CellFilter:
    """Return what a search is narrowed to: by what its caller may read and by what it asks for."""
    since_us = parse_since(args["since"], now_ms) if "since" in args else None
    agents: list[AgentId] = [
        p.agent_id if name == ME else agent_id(p.tenant, name) for name in args.get("from_agents", ())
    ]
    return CellFilter(
        p.scope(args.get("project")),
        layer,
        tuple(args.get("cell_types", ())),
        tuple(args.get("tags", ())),
        tuple(agents),
        None if since_us is None else since_us // 1000,
        round(args.get("min_salience", 0) * 10_000),
        args.get("include_superseded", False),
    )


def _ids(db: apsw.Connection, numbers: list[int]) -> dict[int, bytes]:
    marks = ",".join("?" * len(numbers))
    found = database.rows(db, f"SELECT cell_no, cell FROM cells WHERE cell_no IN ({marks})", *numbers)  # noqa: S608
    return {r[0]: r[1] for r in found}


def _round(distance: float) -> float:
    return round(distance, 4)
