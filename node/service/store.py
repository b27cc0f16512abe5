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
from node.writer import RETRY_MS
from proto.codec import encode
from proto.errors import Conflict, Corrupted, Forbidden, HyphaeError, Invalid, Unavailable
from proto.ids import CellId, cell_id, digest, format_uuid
from proto.payloads import PRIVATE, CellStored, Vector, WireFrontier
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

    @property
    def request_digest(self) -> bytes:
        return bytes(self.fields["request_digest"])


class StoreOperations:
    """Methods take a `Call` and return the result of the tool."""

    def __init__(self, context: PeerContext) -> None:
        self._context = context

    async def store(self, call: Call) -> Mapping[str, Any]:
        """Store one cell.  See `mcp_gateway.tools`."""
        call.principal.require("write", NOTHING)
        self._require_room()
        checked = await self._context.pool.read(lambda db: self._check(db, call, call.args))
        if checked.existing:
            return {"node_id": format_uuid(checked.cell)}
        embedding = await self._context.embedder.store(checked.fields["content"])
        (refused,) = await self._append(call.principal, [checked], [embedding])
        if refused is not None:
            raise refused
        return {"node_id": format_uuid(checked.cell)}

    async def store_bulk(self, call: Call) -> Mapping[str, Any]:
        """Store up to 256 cells; each succeeds or fails by itself."""
        call.principal.require("write", NOTHING)
        self._require_room()
        results: list[dict[str, Any]] = [{} for _ in call.args["cells"]]
        ready: dict[CellId, tuple[list[int], _Checked]] = {}

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
                    ready.setdefault(checked.cell, ([], checked))[0].append(i)

        await self._context.pool.read(check_all)
        order = list(ready.values())
        embeddings = await self._context.embedder.bulk([c.fields["content"] for _, c in order])
        refusals = await self._append(call.principal, [c for _, c in order], embeddings) if order else []
        for (places, _), refused in zip(order, refusals, strict=True):
            if refused is not None:
                for i in places:
                    results[i] = _failure(refused)
        return {"results": results}

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
        existing = key is not None and self._is_stored(db, cell, fields["request_digest"])
        return _Checked(cell, fields, existing)

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

    def _is_stored(self, db: apsw.Connection, cell: CellId, request_digest: bytes) -> bool:
        cell_no = database.value(db, "SELECT cell_no FROM cells WHERE cell=?", cell)
        if cell_no is None:
            return False
        held = load_cells(db, [cell_no]).get(cell_no)
        if held is not None and held.payload.request_digest != request_digest:
            raise _conflict()
        return True  # also where its event is damaged: it was stored

    async def _append(
        self, p: Principal, cells: Sequence[_Checked], embeddings: Sequence[Embedding]
    ) -> list[HyphaeError | None]:
        """Append cells together; return per cell why it was kept out, or None when it is stored."""
        drafts = [self._draft(p, c, e) for c, e in zip(cells, embeddings, strict=True)]
        outcomes = await self._context.writer.append(drafts)
        return [o if isinstance(o, HyphaeError) and not isinstance(o, _Stored) else None for o in outcomes]

    def _draft(self, p: Principal, checked: _Checked, embedding: Embedding) -> Draft:
        """Return the event of a cell, which is kept out if a call beside this one has stored it meanwhile."""
        payload = _payload(checked, embedding, self._context.embedder.space)

        def build(_frontier: WireFrontier) -> CellStored:
            if self._is_stored(self._context.writer.replica.db, checked.cell, checked.request_digest):
                raise _Stored("it is stored already")
            return payload

        return Draft(p.tenant, p.agent_id, build)


class _Stored(HyphaeError):
    """The same call has stored this cell already: what is wanted holds."""


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
