"""open_session and close_session."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import apsw

from node import database
from node.inbox_query import ReaderView, uncommitted, waiting
from node.readers import Reader
from node.replica import Draft
from node.service.appending import append_one
from node.service.authorization import own_session, resolve_project
from node.service.context import Call, PeerContext
from node.service.pages import named_page
from node.service.views import format_ms
from proto import limits
from proto.errors import Overloaded
from proto.ids import AgentId, SessionId, TenantId, format_uuid
from proto.payloads import SessionClosed, SessionOpened, WireFrontier

OPEN_SESSIONS_SHOWN = 20


class SessionOperations:
    """Methods take a `Call` and return the result of the tool."""

    def __init__(self, context: PeerContext) -> None:
        self._context = context

    async def open_session(self, call: Call) -> Mapping[str, Any]:
        """Open a working session; the answer names those of the agent that are still open in the project."""
        p, context = call.principal, self._context
        p.require("read")
        project = resolve_project(call, None, write=False, consequence="Nothing was opened. ")
        idle_since = context.now_ms - limits.SESSION_IDLE_S * 1000

        def look(db: apsw.Connection) -> tuple[list[dict[str, Any]], int]:
            _, unread = waiting(db, ReaderView(p.agent_id), p.scope(None), 1)
            return _open_sessions(db, p.agent_id, project, idle_since), unread

        still, unread = await context.pool.read(look)
        session = SessionId(context.random_bytes(16))
        title = call.args.get("title", "")

        def build(frontier: WireFrontier) -> SessionOpened:
            _check_room(context, p.agent_id, idle_since)
            return SessionOpened(
                session=session, agent=p.agent, owner=p.owner, project=project, title=title, frontier=frontier
            )

        opened = await append_one(context, call, build)
        context.readers.opened(Reader(p.agent_id, session, call.request.mark))
        return {
            "session_id": format_uuid(session),
            "project": project,
            "agent": p.agent,
            "opened_at": format_ms(opened.event.header.wall_ms),
            "unread": unread,
            "open_sessions": still,
        }

    async def close_session(self, call: Call) -> Mapping[str, Any]:
        """Close a session; closing twice changes nothing."""
        p, context = call.principal, self._context
        p.require("read")
        session = await context.pool.read(
            lambda db: own_session(db, p, call.args["session_id"], must_be_open=False)
        )
        closed_ms = session["closed_ms"]
        if closed_ms is None:
            reader = Reader(p.agent_id, session["session"], call.request.mark)
            named = named_page(call)
            pages = context.readers.commits(reader, named, implicit=call.request.wrote is None)
            new = await context.pool.read(lambda db: uncommitted(db, pages))
            closed = await append_one(
                context, call, lambda _f: SessionClosed(session=session["session"], commits=new)
            )
            closed_ms = closed.event.header.wall_ms
        return {"session_id": call.args["session_id"], "closed_at": format_ms(closed_ms)}

    async def list_sessions(self, call: Call) -> Mapping[str, Any]:
        """List the caller's open sessions: bounded, because so many can be open at a time."""
        p, context = call.principal, self._context
        p.require("read")
        project = p.scope(call.args.get("project")).project
        idle_since = context.now_ms - limits.SESSION_IDLE_S * 1000
        most = context.bounds.sessions_per_agent
        found = await context.pool.read(lambda db: _open_sessions(db, p.agent_id, project, idle_since, most))
        return {"agent": p.agent, "sessions": found}

    async def close_idle(self) -> None:
        """Append the closing event of every session in which nothing was stored or listed for 24 h."""
        context = self._context
        before_ms = context.now_ms - limits.SESSION_IDLE_S * 1000
        for session, tenant, agent in await context.pool.read(lambda db: _idle(db, before_ms)):
            closing = SessionClosed(session=session)
            await context.writer.append([Draft.of(TenantId(tenant), AgentId(agent), closing)])


def _check_room(context: PeerContext, agent: bytes, idle_since_ms: int) -> None:
    limit = context.bounds.sessions_per_agent
    still = database.rows(
        context.writer.replica.db,
        "SELECT s.session FROM sessions s WHERE s.agent_id=? AND s.opened_ms>=? AND NOT EXISTS"
        " (SELECT 1 FROM closings x WHERE x.session=s.session) ORDER BY s.opened_ms, s.session",
        agent,
        idle_since_ms,
    )
    total = len(still)
    if total >= limit:
        oldest = still[0][0]
        raise Overloaded(
            f"{total} sessions of yours are open, limit {limit}. Nothing was opened."
            f' Go on with one, or close one with close_session: {{"session_id": "{format_uuid(oldest)}"}}'
        )


def _idle(db: apsw.Connection, before_ms: int) -> list[tuple[bytes, bytes, bytes]]:
    """Return (session, tenant, agent) of open sessions without a sign of life since a time."""
    found = database.rows(
        db,
        "SELECT s.session, s.tenant_id, s.agent_id FROM sessions s WHERE s.opened_ms<?1"
        " AND NOT EXISTS (SELECT 1 FROM closings x WHERE x.session=s.session)"
        " AND NOT EXISTS (SELECT 1 FROM cells c WHERE c.session=s.session AND c.wall_ms>=?1)"
        " AND NOT EXISTS (SELECT 1 FROM pages p JOIN events e ON e.local=p.local"
        "   WHERE p.agent_id=s.agent_id AND p.session=s.session AND e.arrived_us>=?1*1000) LIMIT 100",
        before_ms,
    )
    return [(r[0], r[1], r[2]) for r in found]


def _open_sessions(
    db: apsw.Connection,
    agent: bytes,
    project: str | None,
    idle_since_ms: int,
    most: int = OPEN_SESSIONS_SHOWN,
) -> list[dict[str, Any]]:
    """Return the agent's sessions that are open, latest first; without a project each names its own."""
    found = database.rows(
        db,
        "SELECT s.session, s.project, s.title, s.opened_ms FROM sessions s WHERE s.agent_id=?1"
        " AND (?2 IS NULL OR s.project=?2)"
        " AND s.opened_ms>=?3 AND NOT EXISTS (SELECT 1 FROM closings x WHERE x.session=s.session)"
        " ORDER BY s.opened_ms DESC, s.session LIMIT ?4",
        agent,
        project,
        idle_since_ms,
        most,
    )
    return [
        {
            "session_id": format_uuid(s),
            **({"project": of} if project is None else {}),
            **({"title": title} if title else {}),
            "opened_at": format_ms(ms),
        }
        for s, of, title, ms in found
    ]
