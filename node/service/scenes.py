"""get_scene, list_scenes, consolidate_scenes: groups of related memories, and making them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, cast

import apsw

from node import scenes_query
from node.principals import Principal
from node.scene_summary import ExtractiveSummariser, Summariser
from node.scenes_query import SceneRow
from node.service.authorization import own_session, resolve_project
from node.service.context import Call, PeerContext
from node.service.positions import format_position, parse_position
from node.service.scene_runs import Consolidations, state_of
from node.service.views import StoredCell, cell_object, format_ms, load_cells, size_of, within_budget
from proto import limits
from proto.errors import Invalid, NotFound, Unavailable
from proto.ids import format_uuid, parse_uuid
from proto.payloads import PRIVATE

LIST = "scenes"
LIST_LIMIT = 20
MEMBERS_LOADED = 128  # more than fit into the budget of one result
WAIT_MS = 10_000
HOW_TO_MAKE = (
    '"hyphae scene consolidate" or POST /v1/scenes/consolidate makes them of 3 or more related memories.'
)


class SceneOperations:
    """Methods take a `Call` and return the result of the tool or operation.

    Args:
        summariser: says what a scene says.
    """

    def __init__(self, context: PeerContext, summariser: Summariser | None = None) -> None:
        self._context = context
        self._runs = Consolidations(context, summariser or ExtractiveSummariser())

    async def get_scene(self, call: Call) -> Mapping[str, Any]:
        """Return a scene with its members in order of time, as many as fit."""
        call.principal.require("read")
        return await self._context.pool.read(
            lambda db: _whole_scene(db, call.principal, call.args["scene_id"])
        )

    async def list_scenes(self, call: Call) -> Mapping[str, Any]:
        """Return the scenes that the caller may read, those with the latest members first."""
        p, args = call.principal, call.args
        p.require("read")
        scope, limit = p.scope(args.get("project")), args.get("limit", LIST_LIMIT)
        after = _place(p, args["cursor"]) if "cursor" in args else None

        def look(db: apsw.Connection) -> tuple[list[SceneRow], list[dict[str, Any]]]:
            found = scenes_query.latest_scenes(db, p.tenant, scope, limit + 1, after)
            return found, [_scene_object(db, row) for row in found[:limit]]

        rows, shown = await self._context.pool.read(look)
        kept = within_budget(shown, limits.RESULT_BYTES)
        out: dict[str, Any] = {"scenes": kept}
        if len(kept) < len(rows):
            last = rows[len(kept) - 1]
            out["next_cursor"] = format_position(LIST, p.agent_id, last.to_ms, last.scene)
        if not rows and after is None:
            where = f"project {args['project']}" if "project" in args else "what you may read"
            out["note"] = f"There are no scenes in {where} yet. {HOW_TO_MAKE}"
        return out

    async def consolidate_scenes(self, call: Call) -> Mapping[str, Any]:
        """Begin a consolidation or join the one under way, and wait for it a while."""
        p, args = call.principal, call.args
        consequence = "Nothing was consolidated. "
        p.require("write", consequence)
        session = None
        if "session_id" in args:
            session = await self._context.pool.read(
                lambda db: own_session(db, p, args["session_id"], must_be_open=False)
            )
        project = resolve_project(
            call, session["project"] if session else None, write=True, consequence=consequence
        )
        scope = (p.tenant, project, p.owner if project == PRIVATE else "")
        run, task = self._runs.start(scope, session["session"] if session else None, p)
        await asyncio.wait({task}, timeout=args.get("wait_ms", WAIT_MS) / 1000)
        if task.cancelled():
            raise Unavailable("the peer is stopping. The scenes are as they were. Try again when it is up.")
        if task.done():
            task.result()
            run.waiting.discard(p.agent_id)
        else:
            run.waiting.add(p.agent_id)
        return state_of(run, project, done=task.done())

    async def close(self) -> None:
        """End the consolidations under way."""
        await self._runs.close()


def _whole_scene(db: apsw.Connection, p: Principal, text: str) -> dict[str, Any]:
    try:
        row = scenes_query.find_scene(db, p.tenant, p.scope(None), parse_uuid(text.strip(), "scene_id"))
    except Invalid:
        row = None
    if row is None:
        raise NotFound(
            f"no scene {text[:60]} is known here. Nothing was changed. list_scenes shows which there are."
        )
    scene = _scene_object(db, row)
    numbers = scenes_query.member_numbers(db, row.scene_no, MEMBERS_LOADED)
    cells = load_cells(db, numbers)
    members = [_member(cells[n]) for n in numbers if n in cells]
    scene["members"] = within_budget(members, max(1, limits.RESULT_BYTES - size_of(scene)))
    cut = row.cells - len(scene["members"])
    if not cut:
        return {"scene": scene}
    note = f"The last {cut} of {row.cells} members are left out; recall with its title as query finds more."
    return {"scene": scene, "cut": cut, "note": note}


def _scene_object(db: apsw.Connection, row: SceneRow) -> dict[str, Any]:
    """Return a scene without its members; the summary is left out while it has not arrived here."""
    number = scenes_query.cell_number(db, row.summary)
    cell = None if number is None else load_cells(db, [number]).get(number)
    said = {} if cell is None else {"summary": cell.payload.content, "node_id": format_uuid(row.summary)}
    return {
        "scene_id": format_uuid(row.scene),
        "title": row.title,
        **said,
        "project": row.project,
        "from": format_ms(row.from_ms),
        "to": format_ms(row.to_ms),
        "cells": row.cells,
        "agents": list(row.agents),
    }


def _member(cell: StoredCell) -> dict[str, Any]:
    return {name: value for name, value in cell_object(cell, 0.0).items() if name != "distance"}


def _place(p: Principal, cursor: str) -> tuple[int, bytes]:
    """Return (to_ms, scene id) of the last scene of a page."""
    return cast("tuple[int, bytes]", parse_position(LIST, p.agent_id, cursor, int, bytes))
