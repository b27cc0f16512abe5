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
from node.service.authorization import visible_cell
from node.service.context import Call, PeerContext
from node.service.views import cell_object, load_cells, within_budget
from proto import limits
from proto.errors import Invalid, NotFound
from proto.ids import AgentId, agent_id, format_uuid, uuid_prefix

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
        named = await self._by_id(call)
        if named is not None:
            return self._result(call, await context.pool.read(lambda db: show(db, [named])))
        wanted = _filter(p, args, layer, context.now_ms)
        k, mode = args.get("k", DEFAULT_K), args.get("mode", "hybrid")
        shown = await context.retrieval.search(p.tenant, args["query"], wanted, k, mode, show)
        return self._result(call, shown)

    async def _by_id(self, call: Call) -> tuple[int, float] | None:
        """Return the cell that the query names by its id, if it does."""
        text = call.args["query"].strip()
        if uuid_prefix(text) is None:
            return None
        try:
            _, cell_no = await self._context.pool.read(
                lambda db: visible_cell(db, call.principal, text, "query")
            )
        except (NotFound, Invalid):
            return None  # it only looked like one: hexadecimal words and numbers are searched for
        return cell_no, 0.0

    def _result(self, call: Call, shown: list[dict[str, Any]]) -> Mapping[str, Any]:
        kept = within_budget(shown, call.args.get("max_bytes", limits.RESULT_BYTES))
        out: dict[str, Any] = {"results": kept}
        if len(kept) < len(shown):
            out["cut"] = len(shown) - len(kept)
        note = self._note(call, shown)
        if note:
            out["note"] = note
        return out

    def _note(self, call: Call, shown: list[dict[str, Any]]) -> str | None:
        if call.request.method == "query" and call.args["layer"] > 0 and not shown:
            return "Nothing is on this layer yet; recall searches layer 0, where nearly everything is."
        if not shown:
            return "Nothing passes these filters. Widen project, cell_types, tags or since."
        return None


def _show_ids(db: apsw.Connection, found: Found) -> list[dict[str, Any]]:
    ids = _ids(db, [n for n, _ in found])
    return [{"node_id": format_uuid(ids[n]), "distance": _round(d)} for n, d in found if n in ids]


def _show_cells(db: apsw.Connection, found: Found) -> list[dict[str, Any]]:
    cells = load_cells(db, [n for n, _ in found])
    return [cell_object(cells[n], _round(d)) for n, d in found if n in cells]


def _filter(p: Principal, args: Mapping[str, Any], layer: int, now_ms: int) -> CellFilter:
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
