"""store and store_bulk: check everything, embed, append, answer."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import apsw

from mcp_gateway.arguments import check
from mcp_gateway.tools import TOOLS
from node import database
from node.embedding import Embedding
from node.principals import Principal
from node.replica import Draft
from node.service.authorization import own_session, resolve_project, visible_cell
from node.service.context import Call, PeerContext
from node.service.views import DEFAULT_SALIENCE, load_cells
from proto.codec import encode
from proto.errors import Conflict, Forbidden, HyphaeError, Internal, Invalid
from proto.ids import CellId, cell_id, digest, format_uuid
from proto.payloads import PRIVATE, CellStored, Vector
from proto.scoring import quantise

NOTHING = "Nothing was stored. "


@dataclass(frozen=True, slots=True)
class _Checked:
    """A store that may be executed: all of the cell but its vector.

    Args:
        existing: the cell is stored already, by an earlier call with the same key.
    """

    cell: CellId
    fields: dict[str, Any]
    existing: bool


class StoreOperations:
    """Methods take a `Call` and return the result of the tool."""

    def __init__(self, context: PeerContext) -> None:
        self._context = context
        self._storing: dict[CellId, asyncio.Lock] = {}

    async def store(self, call: Call) -> Mapping[str, Any]:
        """Store one cell.  See `mcp_gateway.tools`."""
        call.principal.require("write", NOTHING)
        checked = await self._context.pool.read(lambda db: self._check(db, call, call.args))
        if checked.existing:
            return {"node_id": format_uuid(checked.cell)}
        async with self._storing.setdefault(checked.cell, asyncio.Lock()):
            try:
                embedding = await self._context.embedder.store(checked.fields["content"])
                await self._append(call.principal, [checked], [embedding], call)
            finally:
                self._storing.pop(checked.cell, None)
        return {"node_id": format_uuid(checked.cell)}

    async def store_bulk(self, call: Call) -> Mapping[str, Any]:
        """Store up to 256 cells; each succeeds or fails by itself."""
        call.principal.require("write", NOTHING)
        results: list[dict[str, Any]] = [{} for _ in call.args["cells"]]
        ready: dict[CellId, tuple[int, _Checked]] = {}

        def check_all(db: apsw.Connection) -> None:
            for i, raw in enumerate(call.args["cells"]):
                try:
                    checked = self._check(db, call, check(TOOLS["store"], raw))
                except HyphaeError as error:
                    results[i] = _failure(error)
                    continue
                results[i] = {"node_id": format_uuid(checked.cell)}
                held = ready.get(checked.cell)
                if held is not None and held[1].fields != checked.fields:
                    results[i] = _failure(_conflict())
                elif not checked.existing:
                    ready[checked.cell] = i, checked

        await self._context.pool.read(check_all)
        order = [checked for _, checked in ready.values()]
        embeddings = await self._context.embedder.bulk([c.fields["content"] for c in order])
        if order:
            await self._append(call.principal, order, embeddings, call)
        return {"results": results}

    def _check(self, db: apsw.Connection, call: Call, args: Mapping[str, Any]) -> _Checked:
        """Decide on a store without changing anything.

        Raises:
            HyphaeError: the store is refused.
        """
        p = call.principal
        inner = Call(p, args, call.request)
        session = own_session(db, p, args["session_id"], must_be_open=True) if "session_id" in args else None
        project = resolve_project(
            inner, session["project"] if session else None, write=True, consequence=NOTHING
        )
        key = args.get("idempotency_key")
        context = self._context
        cell = (
            CellId(context.random_bytes(16))
            if key is None
            else cell_id(context.mesh, p.tenant, p.agent_id, key)
        )
        fields: dict[str, Any] = {
            "cell": cell,
            "content": args["content"],
            "cell_type": args["cell_type"],
            "salience": round(args["salience"] * 10_000) if "salience" in args else DEFAULT_SALIENCE,
            "project": project,
            "owner": p.owner,
            "agent": p.agent,
            "session": session["session"] if session else None,
            "tags": tuple(dict.fromkeys(args.get("tags", ()))),
            "derived_from": tuple(
                visible_cell(db, p, node, "derived_from")[0] for node in args.get("derived_from", ())
            ),
        }
        fields["supersedes"] = self._superseded(db, p, args.get("supersedes"), project)
        fields["request_digest"] = digest("store", encode({k: v for k, v in fields.items() if k != "cell"}))[
            :16
        ]
        existing = key is not None and self._is_stored(db, cell, fields["request_digest"])
        return _Checked(cell, fields, existing)

    def _superseded(self, db: apsw.Connection, p: Principal, text: str | None, project: str) -> bytes | None:
        if text is None:
            return None
        cell, cell_no = visible_cell(db, p, text, "supersedes")
        old = load_cells(db, [cell_no])[cell_no].payload
        if old.project != project:
            raise Invalid(
                f"supersedes names a memory of project {old.project}, this one goes to {project}. {NOTHING}"
                f'Pass project "{old.project}".'
            )
        if old.agent != p.agent and old.project != PRIVATE:
            grants = None if p.projects is None else dict(p.projects)
            if grants is not None and grants.get(old.project) != "rw":
                raise Forbidden(f"only its author or a writer of {old.project} may replace it. {NOTHING}")
        return cell

    def _is_stored(self, db: apsw.Connection, cell: CellId, request_digest: bytes) -> bool:
        cell_no = database.value(db, "SELECT cell_no FROM cells WHERE cell=?", cell)
        if cell_no is None:
            return False
        if load_cells(db, [cell_no])[cell_no].payload.request_digest != request_digest:
            raise _conflict()
        return True

    async def _append(
        self, p: Principal, cells: Sequence[_Checked], embeddings: Sequence[Embedding], call: Call
    ) -> None:
        space = self._context.embedder.space
        drafts = [
            Draft.of(p.tenant, p.agent_id, _payload(c, e, space))
            for c, e in zip(cells, embeddings, strict=True)
        ]
        for outcome in await self._context.writer.append(drafts):
            if isinstance(outcome, HyphaeError):
                raise Internal(
                    f"the log refused a cell: {outcome.message}. {NOTHING}".rstrip(), definite=True
                )


def _payload(checked: _Checked, embedding: Embedding, space: str) -> CellStored:
    content = checked.fields["content"]
    quantised = quantise(embedding.vector)
    return CellStored(
        **checked.fields,
        vector=Vector(space=space, values=quantised.q, norm=quantised.n),
        embedded_chars=0 if embedding.cut else len(content),
    )


def _conflict() -> Conflict:
    return Conflict(
        "this idempotency_key already names another memory. Nothing was stored."
        " Leave the key out, or choose a new one."
    )


def _failure(error: HyphaeError) -> dict[str, Any]:
    return {"error": {"code": error.code, "message": error.message, "definite": error.definite}}
