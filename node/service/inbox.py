"""drain_inbox and diffs_since: page by page against a cursor that the server owns.

Two calls of one reader are taken one after the other, so that they do not list the same page twice.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import apsw

from mcp_gateway.moments import format_time_us, parse_since
from node import database
from node.beacons_projection import decode_frontier
from node.draining import Drain, DrainPlan, listing, plan_drain
from node.inbox_projection import unpack_matches
from node.inbox_query import Entry, arrived_since, is_known
from node.readers import Reader, Standing
from node.replica import Draft
from node.service import notes
from node.service.arrivals import arrives
from node.service.authorization import own_session
from node.service.beacons import count_standing
from node.service.context import Call, PeerContext
from node.service.pages import BEFORE_ANY, format_cursor, named_page, names_pages
from node.service.renewal import renew_beacons
from node.service.views import StoredCell, cut_content, load_cells, within_budget
from node.stored_events import read_stored
from proto import limits
from proto.errors import HyphaeError
from proto.ids import PageId, PeerId, format_uuid
from proto.messages import Reply
from proto.payloads import BeaconPlaced

MATCHED_SHOWN = 5  # of an agent with a thousand beacons one entry would name them all
INTEREST_CHARS = 200
PAGE_WAIT_S = 0.5  # for a page that another peer listed: a lost live event is repaired in about that time


def monotonic_ms() -> int:
    """Return the clock by which a mesh is told what is known since when."""
    return time.monotonic_ns() // 1_000_000


@dataclass(frozen=True, slots=True)
class _Page:
    """What a drain found."""

    plan: DrainPlan
    listed: Sequence[Entry]
    diffs: list[dict[str, Any]]
    may_repeat: bool

    @property
    def remaining(self) -> int:
        return max(0, self.plan.waiting - len(self.listed))


class InboxOperations:
    """Methods take a `Call` and return the result of the tool."""

    def __init__(self, context: PeerContext) -> None:
        self._context = context
        self._turns: dict[tuple[bytes, bytes | None], asyncio.Lock] = {}

    async def drain_inbox(self, call: Call) -> Reply:
        """List what waits for a reader and, unless `advance` is false, record that it was listed."""
        call.principal.require("read")
        session = None
        if "session_id" in call.args:
            session = await self._context.pool.read(
                lambda db: own_session(db, call.principal, call.args["session_id"], must_be_open=True)
            )
        turn = (call.principal.agent_id, session["session"] if session else None)
        lock = self._turns.setdefault(turn, asyncio.Lock())
        try:
            async with lock:
                return await self._drain(call, session)
        finally:
            if not lock.locked():
                self._turns.pop(turn, None)

    async def _drain(self, call: Call, session: Mapping[str, Any] | None) -> Reply:
        context, p, args = self._context, call.principal, call.args
        reader = Reader(p.agent_id, session["session"] if session else None, call.request.mark)
        named, explicit, now_ms = named_page(call), names_pages(call), monotonic_ms()
        if named is not None:
            await arrives(context, lambda db: is_known(db, named), PAGE_WAIT_S)
        standing = context.readers.standing(reader, named, explicit=explicit, now_ms=now_ms)
        drain = Drain(
            reader,
            named,
            explicit,
            p.scope(args.get("project")),
            context.covered(decode_frontier(session["frontier"])) if session else {},
            standing,
            self._behind(standing),
            parse_since(args["skip_before"], context.now_ms, "skip_before")
            if "skip_before" in args
            else None,
        )
        page = await context.pool.read(lambda db: self._look(db, drain, args))
        advance = args.get("advance", True)
        result: dict[str, Any] = {"diffs": page.diffs}
        cursor = await self._record(call, reader, page, now_ms) if advance else None
        result["cursor"] = cursor or args.get("ack") or format_cursor(p.agent_id, BEFORE_ANY)
        result["remaining"] = page.remaining if advance else page.plan.waiting
        if page.may_repeat:
            result["may_repeat"] = True
        if page.plan.given_up and advance:
            result["skipped"] = len(page.plan.given_up)
        note = await self._note(call, page, result["remaining"], advance=advance)
        if note:
            result["note"] = note
        if advance:
            await renew_beacons(context, call)
        return Reply(result=result, page=cursor)

    def _behind(self, standing: Standing) -> Mapping[PeerId, bool]:
        """Return who may hold something that the reader was listed before and is not known here."""
        cluster = self._context.cluster
        if cluster is None or standing.since is None:
            return {}
        return cluster.behind_since(standing.since)

    def _look(self, db: apsw.Connection, drain: Drain, args: Mapping[str, Any]) -> _Page:
        plan = plan_drain(db, self._context.readers, drain, args.get("limit", 20))
        objects = describe(db, plan.entries, with_content=args.get("include_content", True))
        kept = within_budget(objects, args.get("max_bytes", limits.RESULT_BYTES))
        listed = plan.entries[: len(kept)]
        return _Page(plan, listed, kept, plan.may_repeat(db, listed))

    async def _record(self, call: Call, reader: Reader, page: _Page, now_ms: int) -> str | None:
        """Append what records the page, in one transaction; return its cursor.

        Args:
            now_ms: when the call came, on the monotonic clock.
        """
        context, p = self._context, call.principal
        page_id, skipped_page = (PageId(context.random_bytes(16)) for _ in range(2))
        events = listing(page.plan, reader, page.listed, page_id, skipped_page)
        if not events:
            page.plan.settle(page.listed)
            return None
        for outcome in await context.writer.append([Draft.of(p.tenant, p.agent_id, e) for e in events]):
            if isinstance(outcome, HyphaeError):
                raise outcome
        page.plan.settle(page.listed)
        if not page.listed:
            return None
        context.readers.listed(page_id, reader, page.plan.standing, now_ms)
        return format_cursor(reader.agent, page_id)

    async def _note(self, call: Call, page: _Page, remaining: int, *, advance: bool) -> str | None:
        has_beacon = True
        if not page.diffs and not remaining:
            agent, now_ms = call.principal.agent_id, self._context.now_ms
            has_beacon = await self._context.writer.ask(lambda r: count_standing(r, agent, now_ms)) > 0
        return notes.of_page(
            page.diffs,
            remaining,
            advanced=advance,
            may_repeat=page.may_repeat,
            skipping="skip_before" in call.args,
            has_beacon=has_beacon,
        )

    async def diffs_since(self, call: Call) -> Mapping[str, Any]:
        """Read entries again by time of arrival at this peer; changes nothing."""
        p, args, context = call.principal, call.args, self._context
        p.require("read")
        now_us = context.now_us()
        since_us = parse_since(args["since"], now_us // 1000)
        scope = p.scope(args.get("project"))
        limit = args.get("limit", 20)

        def look(db: apsw.Connection) -> tuple[list[dict[str, Any]], list[Entry]]:
            entries = arrived_since(db, p.agent_id, scope, since_us, limit + 1)
            objects = describe(db, entries[:limit], with_content=args.get("include_content", True))
            return within_budget(objects, args.get("max_bytes", limits.RESULT_BYTES)), entries

        kept, entries = await context.pool.read(look)
        last_us = entries[len(kept) - 1].arrived_us if kept else max(since_us, 0)
        note = notes.content_cut(kept)
        return {
            "diffs": kept,
            "next_since": format_time_us(last_us),
            "has_more": len(entries) > len(kept),
            "now": format_time_us(now_us),
            **({"note": note} if note else {}),
        }


def describe(db: apsw.Connection, entries: Sequence[Entry], *, with_content: bool) -> list[dict[str, Any]]:
    """Return inbox entries as agents read them."""
    numbers = [n for e in entries for n in (e.cell_no, e.other_no) if n is not None]
    cells = load_cells(db, numbers)
    interests: dict[bytes, str] = {}
    return [
        _diff_object(db, e, cells, interests, with_content) if e.cell_no in cells else _damaged(e)
        for e in entries
    ]


def _damaged(entry: Entry) -> dict[str, Any]:
    """Return what is left of an entry whose event cannot be read here; never silently nothing."""
    return {
        "diff_id": format_uuid(entry.diff),
        "kind": entry.kind,
        "project": entry.project,
        "note": "this memory is damaged in the log of this peer; the operator can run `hyphae log verify`",
    }


def _diff_object(
    db: apsw.Connection,
    entry: Entry,
    cells: Mapping[int, StoredCell],
    interests: dict[bytes, str],
    with_content: bool,
) -> dict[str, Any]:
    cell = cells[entry.cell_no]
    p = cell.payload
    out: dict[str, Any] = {
        "diff_id": format_uuid(entry.diff),
        "kind": entry.kind,
        "node_id": format_uuid(p.cell),
        "cell_type": p.cell_type,
    }
    if with_content:
        out.update(cut_content(p.content))
    out.update({"project": p.project, "source_agent": p.agent, "created_at": cell.created_at})
    if p.tags:
        out["tags"] = list(p.tags)
    matches = sorted(unpack_matches(entry.matched), key=lambda m: -m.score)
    if matches:
        out["matched"] = [
            {"interest": interest_of(db, m.beacon, interests), "similarity": round(m.score / 10_000, 4)}
            for m in matches[:MATCHED_SHOWN]
        ]
    if len(matches) > MATCHED_SHOWN:
        out["matched_count"] = len(matches)
    newer = cells.get(entry.other_no) if entry.other_no is not None else None
    if entry.kind == "superseded" and newer is not None:
        out["replaced_by"] = {
            "node_id": format_uuid(newer.payload.cell),
            **(cut_content(newer.payload.content) if with_content else {}),
            "source_agent": newer.payload.agent,
        }
    elif cell.superseded_by is not None:
        out["superseded_by"] = format_uuid(cell.superseded_by)
    return out


def interest_of(db: apsw.Connection, beacon: bytes, known: dict[bytes, str]) -> str:
    """Return the text of a beacon, cut, and remember it in `known`."""
    if beacon not in known:
        local = database.value(db, "SELECT max(local) FROM placements WHERE beacon=?", beacon)
        stored = read_stored(db, local)
        payload = None if stored is None else stored.payload
        text = payload.interest if isinstance(payload, BeaconPlaced) else ""
        known[beacon] = text if len(text) <= INTEREST_CHARS else text[:INTEREST_CHARS] + "..."
    return known[beacon]
