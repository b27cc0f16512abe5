"""store and store_bulk: check everything, embed, append, answer."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import apsw

from mcp_gateway.arguments import check
from mcp_gateway.refusals import shown
from mcp_gateway.tools import TOOLS
from node import database, disk
from node.embedding import Embedding
from node.principals import Principal
from node.replica import Draft
from node.service.authorization import own_session, resolve_project, visible_cell
from node.service.context import Call, PeerContext
from node.service.views import DEFAULT_SALIENCE, load_cells
from node.service.write_concern import WriteConcern
from node.sqlite_log import Logged, position_of
from node.writer import RETRY_MS
from proto.codec import encode
from proto.errors import Conflict, Corrupted, Forbidden, HyphaeError, Invalid, Unavailable
from proto.ids import CellId, cell_id, digest, format_uuid
from proto.payloads import PRIVATE, CellStored, Vector, WireFrontier
from proto.scoring import quantise
from proto.streams import Position

NOTHING = "Nothing was stored. "


@dataclass(frozen=True, slots=True)
class _Checked:
    """A store that may be executed: all of the cell but its vector.

    Args:
        stored_at: where an earlier call with the same key has stored it; None if none has.
    """

    cell: CellId
    fields: dict[str, Any]
    stored_at: Position | None

    @property
    def request_digest(self) -> bytes:
        return bytes(self.fields["request_digest"])


class StoreOperations:
    """Methods take a `Call` and return the result of the tool."""

    def __init__(self, context: PeerContext) -> None:
        self._context = context
        self._concern = WriteConcern(context, context.count_wait)

    async def store(self, call: Call) -> Mapping[str, Any]:
        """Store one cell.  See `mcp_gateway.tools`."""
        call.principal.require("write", NOTHING)
        self._require_room()
        checked = await self._context.pool.read(lambda db: self._check(db, call, call.args))
        stored: Position | HyphaeError | None = checked.stored_at
        if stored is None:
            embedding = await self._context.embedder.store(checked.fields["content"])
            (stored,) = await self._append(call.principal, [checked], [embedding])
        if isinstance(stored, HyphaeError):
            raise stored
        shortfall = await self._concern.shortfall([stored], call.request.deadline_ms)
        return {"node_id": format_uuid(checked.cell), **shortfall}

    async def store_bulk(self, call: Call) -> Mapping[str, Any]:
        """Store up to 256 cells; each succeeds or fails by itself."""
        call.principal.require("write", NOTHING)
        self._require_room()
        results: list[dict[str, Any]] = [{} for _ in call.args["cells"]]
        ready: dict[CellId, tuple[list[int], _Checked]] = {}
        stored: list[Position] = []

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
                elif checked.stored_at is not None:
                    stored.append(checked.stored_at)
                else:
                    ready.setdefault(checked.cell, ([], checked))[0].append(i)

        await self._context.pool.read(check_all)
        order = list(ready.values())
        embeddings = await self._context.embedder.bulk([c.fields["content"] for _, c in order])
        outcomes = await self._append(call.principal, [c for _, c in order], embeddings) if order else []
        for (places, _), outcome in zip(order, outcomes, strict=True):
            if isinstance(outcome, Position):
                stored.append(outcome)
                continue
            for i in places:
                results[i] = _failure(outcome)
        return {"results": results, **await self._concern.shortfall(stored, call.request.deadline_ms)}

    def _require_room(self) -> None:
        """Refuse below the watermark, while reading, erasing and the small events of readers still have room.

        Raises:
            Unavailable: the disk is nearly full; nothing was stored.
        """
        if disk.is_low(self._context.data_dir):
            raise Unavailable(
                f"the disk of this peer is nearly full ({disk.shown(self._context.data_dir)}). {NOTHING}"
                "Reading goes on. Free disk space, then retry.",
                retry_after_ms=RETRY_MS,
            )

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
        stored_at = None if key is None else self._stored_at(db, cell, fields["request_digest"])
        return _Checked(cell, fields, stored_at)

    def _superseded(self, db: apsw.Connection, p: Principal, text: str | None, project: str) -> bytes | None:
        if text is None:
            return None
        cell, cell_no = visible_cell(db, p, text, "supersedes")
        held = load_cells(db, [cell_no]).get(cell_no)
        if held is None:
            raise Corrupted(
                f"memory {shown(text)} is damaged here and cannot be replaced. {NOTHING}"
                "Store without supersedes; the operator can run `hyphae log verify`."
            )
        old = held.payload
        if old.project != project:
            raise Invalid(
                f"supersedes names a memory of another project than {shown(project)}. {NOTHING}"
                f'Store in its own: {{"project": {json.dumps(old.project, ensure_ascii=False)}}}'
            )
        if old.agent != p.agent and old.project != PRIVATE:
            grants = None if p.projects is None else dict(p.projects)
            if grants is not None and grants.get(old.project) != "rw":
                raise Forbidden(
                    f"only its author or a writer of {shown(old.project)} may replace it. {NOTHING}"
                    f'Store beside it instead: {{"derived_from": ["{format_uuid(cell)}"]}}'
                )
        return cell

    def _stored_at(self, db: apsw.Connection, cell: CellId, request_digest: bytes) -> Position | None:
        found = database.row(db, "SELECT cell_no, local FROM cells WHERE cell=?", cell)
        if found is None:
            return None
        cell_no, local = int(found[0]), int(found[1])
        held = load_cells(db, [cell_no]).get(cell_no)
        if held is not None and held.payload.request_digest != request_digest:
            raise _conflict()
        return position_of(db, local)  # also where its event is damaged: it was stored

    async def _append(
        self, p: Principal, cells: Sequence[_Checked], embeddings: Sequence[Embedding]
    ) -> list[Position | HyphaeError]:
        """Append cells together; return per cell where it is stored, or why it was kept out."""
        drafts = [self._draft(p, c, e) for c, e in zip(cells, embeddings, strict=True)]
        outcomes = await self._context.writer.append(drafts)
        return [
            o.event.header.position if isinstance(o, Logged) else o.position if isinstance(o, _Stored) else o
            for o in outcomes
        ]

    def _draft(self, p: Principal, checked: _Checked, embedding: Embedding) -> Draft:
        """Return the event of a cell, which is kept out if a call beside this one has stored it meanwhile."""
        payload = _payload(checked, embedding, self._context.embedder.space)

        def build(_frontier: WireFrontier) -> CellStored:
            held = self._stored_at(self._context.writer.replica.db, checked.cell, checked.request_digest)
            if held is not None:
                raise _Stored(held)
            return payload

        return Draft(p.tenant, p.agent_id, build)


class _Stored(HyphaeError):
    """The same call has stored this cell already: what is wanted holds."""

    def __init__(self, position: Position) -> None:
        super().__init__("it is stored already")
        self.position = position


def _payload(checked: _Checked, embedding: Embedding, space: str) -> CellStored:
    content = checked.fields["content"]
    quantised = quantise(embedding.vector)
    return CellStored(
        **checked.fields,
        vector=Vector(space=space, values=quantised.q, norm=quantised.n),
        embedded_chars=min(embedding.chars, len(content)),
    )


def _conflict() -> Conflict:
    return Conflict(
        "this idempotency_key already names another memory. Nothing was stored."
        " Leave idempotency_key out: it is only to repeat the same store, unchanged."
    )


def _failure(error: HyphaeError) -> dict[str, Any]:
    return {"error": {"code": error.code, "message": error.message, "definite": error.definite}}
