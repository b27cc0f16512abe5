"""explain_recall and explain_entry: the numbers behind a result and behind an entry of an inbox.

Every number comes from what searched and matched (`retrieval`, `ranking`, `matching`, the entry itself); nothing
is scored by a second formula here.  Reads only.  What the caller may not read is not there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from node.cell_columns import CellFilter
from node.lexical_terms import query_terms, terms
from node.ranking import DENSE_WEIGHT, LEXICAL_WEIGHT
from node.retrieval import Found, Scored
from node.service.authorization import visible_cell
from node.service.context import Call, PeerContext
from node.service.explained_entries import explained, load_entry
from node.service.recall import DEFAULT_K, named_cell, search_filter
from node.service.views import StoredCell, load_cells
from proto import limits
from proto.errors import Corrupted, NotFound
from proto.ids import DiffId, format_uuid, parse_uuid

TERMS_SHOWN = 50
_WEIGHTS = {"hybrid": (DENSE_WEIGHT, LEXICAL_WEIGHT), "vector": (1.0, 0.0), "lexical": (0.0, 1.0)}


class ExplainOperations:
    """Methods take a `Call` and return the result of the operation."""

    def __init__(self, context: PeerContext) -> None:
        self._context = context

    async def explain_recall(self, call: Call) -> Mapping[str, Any]:
        """Say why a search returns a memory or does not."""
        p, args, context = call.principal, call.args, self._context
        p.require("read")
        cell = await self._readable(call)
        layer, k, mode = args.get("layer", 0), args.get("k", DEFAULT_K), args.get("mode", "hybrid")
        wanted = search_filter(p, args, layer, context.now_ms)
        at = cell.cell_no, cell.payload.layer
        ks = {k, limits.RECALL_K}
        found, scored = await context.retrieval.explain(p.tenant, args["query"], wanted, ks, mode, at)
        checks, arms = await context.pool.read(  # off the event loop: masks over all cells, a long text
            lambda _db: (self._checks(call, wanted, cell), _arms(mode, scored, args["query"], cell))
        )
        named = await named_cell(context, call)
        came = cell.cell_no in [n for n, _ in found[k]] if named is None else named == cell.cell_no
        failed = [c["filter"] for c in checks if not c["passed"]]
        rank = _rank(found[limits.RECALL_K], cell.cell_no)
        out: dict[str, Any] = {
            "node_id": format_uuid(cell.payload.cell),
            "came": came,
            "why": _why(named, came, rank, k, failed, mode, scored.share),
            "mode": mode,
            "layer": layer,
            "k": k,
            "distance": 0.0 if named == cell.cell_no else round(scored.distance, 4),
        }
        if rank is not None:
            out["rank"] = rank
        if found[k]:
            out["cutoff"] = round(found[k][-1][1], 4)
        return {**out, "arms": arms, "filters": checks}

    def _checks(self, call: Call, wanted: CellFilter, cell: StoredCell) -> list[dict[str, Any]]:
        passes, tenant = self._context.retrieval.passes, call.principal.tenant
        return [
            {"filter": name, "passed": passes(tenant, only, cell.cell_no), **texts}
            for name, only, texts in _one_by_one(call.args, wanted, cell)
        ]

    async def _readable(self, call: Call) -> StoredCell:
        """Return the memory that a call asks about.

        Raises:
            NotFound: there is none that the caller may read; Corrupted: its event is damaged.
        """
        text = call.args["node_id"]
        _, number = await self._context.pool.read(
            lambda db: visible_cell(db, call.principal, text, "node_id")
        )
        cell = (await self._context.pool.read(lambda db: load_cells(db, [number]))).get(number)
        if cell is None:
            raise Corrupted(f"the event of memory {text} cannot be read; run `hyphae log verify`.")
        return cell

    async def explain_entry(self, call: Call) -> Mapping[str, Any]:
        """Say why a diff is in the caller's inbox."""
        p, context = call.principal, self._context
        p.require("read")
        diff = DiffId(parse_uuid(call.args["diff_id"], "diff_id"))
        loaded = await context.pool.read(lambda db: load_entry(db, p, diff))
        if loaded is None:
            raise NotFound(
                f"no entry {call.args['diff_id']} is in your inbox. Nothing was changed."
                " Correct diff_id; diffs_since shows entries again."
            )
        return await context.writer.ask(lambda replica: explained(loaded, replica.beacons, replica.covers))


def _rank(found: Found, cell_no: int) -> int | None:
    return next((place for place, (number, _) in enumerate(found, 1) if number == cell_no), None)


def _arms(mode: str, scored: Scored, query: str, cell: StoredCell) -> dict[str, Any]:
    dense, lexical = _WEIGHTS[mode]
    out: dict[str, Any] = {}
    if dense:
        out["dense"] = {"cosine": scored.cosine, "weight": dense}
    if lexical:
        wanted = query_terms(query)[:TERMS_SHOWN]
        held = {term for text in (cell.payload.content, *cell.payload.tags) for term in terms(text)}
        matched = [term for term in wanted if term in held]
        out["lexical"] = {"share": scored.share, "weight": lexical, "terms": wanted, "matched_terms": matched}
    return out


def _one_by_one(
    args: Mapping[str, Any], wanted: CellFilter, cell: StoredCell
) -> Iterator[tuple[str, CellFilter, dict[str, str]]]:
    """Yield (name, a filter that is this one alone, what is wanted and what the memory has)."""
    p = cell.payload
    alone = CellFilter(replace(wanted.scope, project=None), p.layer, include_superseded=True)

    def row(
        name: str, only: CellFilter, asked: object, value: object
    ) -> tuple[str, CellFilter, dict[str, str]]:
        return name, only, {"wanted": str(asked), "value": str(value)}

    yield row("layer", replace(alone, layer=wanted.layer), wanted.layer, p.layer)
    hides = replace(alone, include_superseded=wanted.include_superseded)
    state = "superseded" if cell.superseded_by is not None else "current"
    yield row("superseded", hides, "any" if wanted.include_superseded else "current", state)
    if "project" in args:
        yield row("project", replace(alone, scope=wanted.scope), args["project"], p.project)
    if wanted.cell_types:
        only = replace(alone, cell_types=wanted.cell_types)
        yield row("cell_types", only, ", ".join(wanted.cell_types), p.cell_type)
    for tag in wanted.tags:
        yield row("tags", replace(alone, tags=(tag,)), tag, ", ".join(p.tags))
    if wanted.agents:
        only = replace(alone, agents=wanted.agents)
        yield row("from_agents", only, ", ".join(args["from_agents"]), p.agent)
    if wanted.since_ms is not None:
        yield row("since", replace(alone, since_ms=wanted.since_ms), args["since"], cell.created_at)
    if wanted.min_salience:
        only = replace(alone, min_salience=wanted.min_salience)
        yield row("min_salience", only, args["min_salience"], p.salience / 10_000)


def _why(
    named: int | None, came: bool, rank: int | None, k: int, failed: list[str], mode: str, share: float
) -> str:
    if named is not None:
        return (
            "The query is its id, so it alone is returned, whatever the filters say."
            if came
            else "The query is the id of another memory, which alone is returned."
        )
    if failed:
        return f"It does not come: it fails {', '.join(dict.fromkeys(failed))}."
    if came:
        return f"It comes, as number {rank} of at most {k}."
    if rank is not None:
        return f"It passes every filter, but {rank - 1} others are nearer and k is {k}."
    if mode == "lexical" and not share:
        return "It passes every filter, but has none of the query's words that count."
    return f"It passes every filter, but is not among the first {limits.RECALL_K}."
