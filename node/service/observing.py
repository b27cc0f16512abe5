"""get_node, whoami, status, tail, verify_log, shutdown: looking at the peer and what it holds."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import apsw

from mcp_gateway.moments import format_time_us
from mesh.ports import Head
from node import database
from node.disk import free_bytes
from node.log_verification import BadEvent, structure_flaw, unsound, verify_stream
from node.lost_tails import lost_tails
from node.principals import Principal
from node.service.authorization import visible_cell
from node.service.context import Call, PeerContext
from node.service.full_cells import full_cell
from node.service.retirement import late_events
from node.service.views import format_stream, load_cells, shown_tails
from node.service.write_concern import concern_of
from node.sqlite_log import Logged, read_logged
from proto.errors import Corrupted, ProtocolError
from proto.ids import PeerId, format_base32, format_uuid
from proto.payloads import PRIVATE, BeaconPlaced, CellStored, decode_payload
from proto.streams import StreamId

TAIL_TEXT_CHARS = 300


class ObservingOperations:
    """Methods take a `Call` and return the result of the operation."""

    def __init__(self, context: PeerContext) -> None:
        self._context = context

    async def get_node(self, call: Call) -> Mapping[str, Any]:
        """Return a whole cell with its provenance."""
        call.principal.require("read")
        return await self._context.pool.read(lambda db: _full_node(db, call.principal, call.args["node_id"]))

    async def whoami(self, call: Call) -> Mapping[str, Any]:
        """Return whom the caller's key authenticates."""
        p = call.principal
        return {
            "agent": p.agent,
            "owner": p.owner,
            "tenant": p.tenant_name,
            **({"key_id": p.key_id} if p.key_id else {}),
            "scopes": sorted(p.scopes),
            **({} if p.projects is None else {"projects": dict(p.projects)}),
            "peer_id": format_base32(self._context.peer),
        }

    async def status(self, call: Call) -> Mapping[str, Any]:
        """Return this peer at a glance; counts are of what the caller may see, of everything for an operator."""
        context, p = self._context, call.principal
        p.require("read")
        counts = await context.pool.read(lambda db: _counts(db, p, context.embedder.space))
        problems = context.problems()
        cluster = None if context.cluster is None else context.cluster.status()
        damage = await self._damage() if "operator" in p.scopes else {}
        return {
            "peer_id": format_base32(context.peer),
            "name": context.name,
            "mesh_id": format_base32(context.mesh),
            "version": context.version,
            "state": "degraded" if problems else "ok",
            "problems": problems,
            "nats": "off" if cluster is None else ("up" if cluster["connected"] else "down"),
            "peers_up": 1 if cluster is None else cluster["peers_up"],
            **counts,
            "write_concern": concern_of(context.write_concern, context.member_count()),
            **damage,
            "space": context.embedder.space,
            "uptime_s": int(time.monotonic() - context.started_s),
            "disk_free_bytes": free_bytes(context.data_dir),
            "waiting_writes": context.writer.waiting(),
            **({"data_dir": context.data_dir} if p.local else {}),
        }

    async def _damage(self) -> dict[str, Any]:
        """Return what of the log does not count, and what of it nobody has."""
        cluster = self._context.cluster
        lacking = frozenset[PeerId]() if cluster is None else cluster.lacking()
        late, lost = await self._context.pool.read(lambda db: (late_events(db), lost_tails(db, lacking)))
        return {"late_events": sum(late.values()), **shown_tails(lost)}

    async def tail(self, call: Call) -> Mapping[str, Any]:
        """Return what has happened since a position, waiting for it if asked to."""
        p, args = call.principal, call.args
        p.require("read")
        after, limit = args.get("after", 0), args.get("limit", 100)
        entries, last = await self._context.pool.read(lambda db: _happened(db, p, after, limit))
        if not entries and args.get("wait_ms", 0) > 0 and self._context.signal is not None:
            await self._context.signal.wait_beyond(last, args["wait_ms"] / 1000)
            entries, last = await self._context.pool.read(lambda db: _happened(db, p, last, limit))
        return {"entries": entries, "next": last}

    async def verify_log(self, call: Call) -> Mapping[str, Any]:
        """Walk the hash chain of every stream over the stored bytes."""
        call.principal.require("operator")
        heads = self._context.writer.heads()
        bad: list[BadEvent] = []
        found = await self._context.pool.read(lambda db: verify(db, list(heads), found=bad))
        self._context.note_damage(bad[0] if bad else found.get("unreadable"))
        return found

    async def shutdown(self, call: Call) -> Mapping[str, Any]:
        """End the process of the peer, cleanly."""
        call.principal.require("operator")
        self._context.stop()
        return {"stopping": True}


def verify(
    db: apsw.Connection,
    streams: list[StreamId],
    progress: Callable[[int, int], None] = lambda _done, _of: None,
    found: list[BadEvent] | None = None,
) -> dict[str, Any]:
    """Return {ok, events, streams, first_bad?, unreadable?} of a log; bad events are also put into `found`, if given.

    `unreadable` says what is wrong with the database itself where every event is as written.
    """
    shown: list[dict[str, Any]] = []
    first_bad: dict[str, Any] | None = None
    for done, stream in enumerate(sorted(streams), start=1):
        number, sequence, hash_ = database.row(
            db,
            "SELECT stream_no, head, head_hash FROM streams WHERE peer=? AND partition=? AND ordinal=?"
            " AND random=?",
            *stream,
        ) or (0, 0, b"")
        bad = verify_stream(db, number, stream, Head(sequence, hash_))
        shown.append({"stream": format_stream(stream), "sequence": sequence, "hash": hash_.hex()})
        if bad is not None and found is not None:
            found.append(bad)
        if bad is not None and first_bad is None:
            first_bad = {"stream": format_stream(stream), "sequence": bad.sequence, "why": bad.why}
        progress(done, len(streams))
    flaw = structure_flaw(db) if first_bad is None else None
    return {
        "ok": first_bad is None and flaw is None,
        "events": sum(s["sequence"] for s in shown),
        "streams": shown,
        **({} if first_bad is None else {"first_bad": first_bad}),
        **({} if flaw is None else {"unreadable": unsound(flaw)}),
    }


def _full_node(db: apsw.Connection, principal: Principal, text: str) -> dict[str, Any]:
    _, cell_no = visible_cell(db, principal, text, "node_id")
    cell = load_cells(db, [cell_no]).get(cell_no)
    if cell is None:
        raise Corrupted(f"the event of memory {text} cannot be read; run `hyphae log verify`.")
    return full_cell(db, principal, cell)


def _counts(db: apsw.Connection, principal: Principal, space: str) -> dict[str, int]:
    everywhere = "operator" in principal.scopes

    condition, visible = ("1", []) if everywhere else principal.scope(None).condition("c")

    def count(what: str, *parameters: object) -> int:
        return int(
            database.value(
                db, f"SELECT count({what} AND (? OR c.tenant_id=?)", *parameters, everywhere, principal.tenant
            )
        )

    counts = {
        "members": int(database.value(db, "SELECT count(*) FROM members WHERE retired_ms IS NULL")),
        "cells": count(f"*) FROM cells c WHERE {condition}", *visible),
        "unsearchable_cells": count(
            f"*) FROM cells c WHERE {condition} AND c.space IS NOT ?", *visible, space
        ),
        "beacons": count("DISTINCT beacon) FROM placements c WHERE 1"),
        "agents": count("*) FROM agents c WHERE 1"),
    }
    if everywhere:  # what counts all tenants together would tell one of them about the others
        counts |= {
            "events": int(database.value(db, "SELECT ifnull(max(local), 0) FROM events")),
            "streams": int(database.value(db, "SELECT count(*) FROM streams")),
            "unfolded_events": int(database.value(db, "SELECT count(*) FROM unfolded")),
            "forks": int(database.value(db, "SELECT count(*) FROM quarantine")),
        }
    return counts


def _happened(
    db: apsw.Connection, principal: Principal, after: int, limit: int
) -> tuple[list[dict[str, Any]], int]:
    entries: list[dict[str, Any]] = []
    last = after
    for (local,) in db.execute("SELECT local FROM events WHERE local>? ORDER BY local", (after,)):
        last = local
        try:
            shown = _happening(read_logged(db, local), principal)
        except (Corrupted, ProtocolError) as error:  # one bad event must not hide those after it
            shown = _damaged(db, local, error.message) if "operator" in principal.scopes else None
        if shown is not None:
            entries.append(shown)
            if len(entries) == limit:
                break
    return entries, last


def _damaged(db: apsw.Connection, local: int, why: str) -> dict[str, Any]:
    arrived_us = database.value(db, "SELECT arrived_us FROM events WHERE local=?", local)
    return {"position": local, "at": format_time_us(arrived_us), "kind": "Damaged", "text": why}


def _happening(logged: Logged, principal: Principal) -> dict[str, Any] | None:
    """Return one event as the live feed shows it, or None if the principal may not see it."""
    header = logged.event.header
    base = {"position": logged.local, "at": format_time_us(header.wall_ms * 1000), "kind": header.kind}
    mesh_event = header.kind in ("EpochOpened", "PeerJoined", "PeerRetired")
    if mesh_event:
        return {**base, "text": format_stream(header.stream)} if "operator" in principal.scopes else None
    if header.tenant != principal.tenant or logged.event.payload is None:
        return None
    payload = decode_payload(header.kind, logged.event.payload)
    if isinstance(payload, CellStored):
        readable = principal.readable()
        private = payload.project == PRIVATE
        if (private and payload.owner != principal.owner) or not (
            private or readable is None or payload.project in readable
        ):
            return None
        return {
            **base,
            "agent": payload.agent,
            "project": payload.project,
            "cell_type": payload.cell_type,
            "node_id": format_uuid(payload.cell),
            "text": payload.content[:TAIL_TEXT_CHARS],
        }
    if isinstance(payload, BeaconPlaced) and header.actor == principal.agent_id:
        return {**base, "agent": payload.agent, "text": payload.interest[:TAIL_TEXT_CHARS]}
    return None
