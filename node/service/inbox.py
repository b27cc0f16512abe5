"""drain_inbox and diffs_since: page by page against a cursor that the server owns.

Two calls of one reader are taken one after the other, so that they do not list the same page twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import apsw

from mcp_gateway.moments import format_time_us, parse_since
from node.inbox_projection import unpack_matches
from node.inbox_query import (
    Entry,
    ReaderView,
    Scope,
    arrived_since,
    in_doubt,
    pages_of,
    skipped,
    uncommitted,
    waiting,
)
from node.readers import Reader
from node.service.appending import append_one
from node.service.authorization import own_session
from node.service.context import Call, PeerContext
from node.service.pages import format_cursor, named_page
from node.service.renewal import renew_beacons
from node.service.views import StoredCell, cut_content, load_cells, size_of, within_budget
from node import database
from node.beacons_projection import decode_frontier
from proto import limits
from proto.ids import DiffId, PageId, SessionId, format_uuid
from proto.messages import Reply
from proto.payloads import BeaconPlaced, PageListed, decode_payload
from node.sqlite_log import read_logged

REFS_PER_EVENT = limits.PAGE * 4


@dataclass(frozen=True, slots=True)
class _Page:
    """What a drain found."""

    diffs: list[dict[str, Any]]
    refs: list[DiffId]
    given_up: list[DiffId]
    waiting: int
    new_commits: tuple[PageId, ...]
    doubt: bool
    pages_known: int

    @property
    def remaining(self) -> int:
        return max(0, self.waiting - len(self.refs))


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
        named = named_page(call)
        committing = context.readers.commits(reader, named, implicit=call.request.wrote is None)
        covered = context.covered(decode_frontier(session["frontier"])) if session else {}
        view = ReaderView(p.agent_id, reader.session, covered, committing)
        scope = p.scope(args.get("project"))
        page = await context.pool.read(lambda db: self._look(db, view, scope, args))
        sure = self._is_sure(reader, named, page, call)
        advance = args.get("advance", True)
        result: dict[str, Any] = {"diffs": page.diffs}
        cursor = None
        if advance:
            cursor = await self._record(call, reader, page, sure)
            await renew_beacons(context, call)
        result["cursor"] = cursor or args.get("ack") or ""
        result["remaining"] = page.remaining if advance else page.waiting
        if page.diffs and (page.doubt or not sure):
            result["may_repeat"] = True
        if page.given_up:
            result["skipped"] = len(page.given_up)
        note = await self._note(call, page)
        if note:
            result["note"] = note
        return Reply(result=result, page=cursor)

    def _look(self, db: apsw.Connection, view: ReaderView, scope: Scope, args: Mapping[str, Any]) -> _Page:
        limit = args.get("limit", 20)
        before_us = None
        given_up: list[DiffId] = []
        if "skip_before" in args:
            before_us = parse_since(args["skip_before"], self._context.now_ms, "skip_before")
            given_up = skipped(db, view, scope, before_us, REFS_PER_EVENT - limit)
        entries, total = waiting(db, view, scope, limit, skip_before_us=before_us)
        objects = describe(db, entries, with_content=args.get("include_content", True))
        kept = within_budget(objects, args.get("max_bytes", limits.RESULT_BYTES))
        refs = [e.diff for e in entries[: len(kept)]]
        return _Page(
            kept,
            refs,
            given_up,
            total,
            uncommitted(db, view.committing),
            in_doubt(db, view, refs),
            pages_of(db, view.agent, view.session),
        )

    def _is_sure(self, reader: Reader, named: PageId | None, page: _Page, call: Call) -> bool:
        """Tell whether all that this reader was ever listed is surely known at this peer."""
        cluster = self._context.cluster
        if cluster is None or cluster.status().get("members", 1) <= 1:
            return True
        if self._context.readers.is_sure(reader, named):
            return True
        return reader.session is not None and page.pages_known == 0 and call.request.wrote == ""

    async def _record(self, call: Call, reader: Reader, page: _Page, sure: bool) -> str | None:
        """Append `PageListed`, unless nothing was listed and nothing new is committed."""
        if not page.refs and not page.new_commits and not page.given_up:
            return None
        context = self._context
        page_id = PageId(context.random_bytes(16))
        commits = page.new_commits
        if page.given_up:  # what is given up counts as read at once, on a page of its own
            skipped_page = PageId(context.random_bytes(16))
            refs = tuple(page.given_up)
            await append_one(
                context,
                call,
                lambda _f: PageListed(page=skipped_page, session=reader.session, mark=reader.mark, refs=refs),
            )
            commits = (*commits, skipped_page)
        listed = tuple(page.refs)
        await append_one(
            context,
            call,
            lambda _f: PageListed(
                page=page_id, session=reader.session, mark=reader.mark, refs=listed, commits=commits
            ),
        )
        if not page.refs:
            return None
        context.readers.listed(page_id, reader, sure=sure, at_end=page.remaining == 0)
        return format_cursor(reader.agent, page_id)

    async def _note(self, call: Call, page: _Page) -> str | None:
        if page.diffs or page.remaining:
            return None
        p = call.principal
        placed = await self._context.pool.read(
            lambda db: database.row(db, "SELECT 1 FROM placements WHERE agent_id=? LIMIT 1", p.agent_id)
        )
        if placed is None:
            return "Nothing waits, and you have no beacon: place_beacon once per subject that you care about."
        return None

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
        return {
            "diffs": kept,
            "next_since": format_time_us(last_us),
            "has_more": len(entries) > len(kept),
            "now": format_time_us(now_us),
        }


def describe(db: apsw.Connection, entries: Sequence[Entry], *, with_content: bool) -> list[dict[str, Any]]:
    """Return inbox entries as agents read them."""
    numbers = [n for e in entries for n in (e.cell_no, e.other_no) if n is not None]
    cells = load_cells(db, numbers)
    interests: dict[bytes, str] = {}
    return [_diff_object(db, e, cells, interests, with_content) for e in entries if e.cell_no in cells]


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
    matched = [
        {"interest": _interest(db, m.beacon, interests), "similarity": round(m.score / 10_000, 4)}
        for m in unpack_matches(entry.matched)
    ]
    if matched:
        out["matched"] = matched
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


def _interest(db: apsw.Connection, beacon: bytes, known: dict[bytes, str]) -> str:
    if beacon not in known:
        local = database.value(db, "SELECT max(local) FROM placements WHERE beacon=?", beacon)
        payload = decode_payload("BeaconPlaced", read_logged(db, local).event.payload or b"")
        text = payload.interest if isinstance(payload, BeaconPlaced) else ""
        known[beacon] = text if len(text) <= 200 else text[:200] + "..."
    return known[beacon]
