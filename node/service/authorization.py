"""Project resolution and look-ups that answer alike for "not there" and "not yours"."""

from __future__ import annotations

from typing import Any

import apsw

from mcp_gateway.refusals import shown
from node import database
from node.principals import DEFAULT_PROJECT, UNCHANGED, Principal
from node.service.context import Call
from proto.errors import NotFound
from proto.ids import SessionId, parse_uuid, uuid_prefix
from proto.payloads import PRIVATE


def own_session(
    db: apsw.Connection, principal: Principal, text: str, *, must_be_open: bool
) -> dict[str, Any]:
    """Return {session, project, closed_ms, frontier, opened_ms, title} of the principal's own session.

    Raises:
        NotFound: unknown, another's, or closed where an open one is needed.
    """
    session = parse_uuid(text, "session_id")
    found = database.row(
        db,
        "SELECT s.project, s.frontier, s.opened_ms, s.title, (SELECT min(closed_ms) FROM closings x"
        " WHERE x.session=s.session) FROM sessions s WHERE s.session=? AND s.agent_id=?",
        session,
        principal.agent_id,
    )
    if found is None:
        raise NotFound(
            f"no session {shown(text)} of yours is known here. {UNCHANGED}open_session gives a session_id and"
            " lists your open ones."
        )
    project, frontier, opened_ms, title, closed_ms = found
    if must_be_open and closed_ms is not None:
        raise NotFound(
            f"session {shown(text)} is closed. {UNCHANGED}Leave session_id out, or open_session starts a new one."
        )
    return {
        "session": SessionId(session),
        "project": project,
        "frontier": frontier,
        "opened_ms": opened_ms,
        "title": title,
        "closed_ms": closed_ms,
    }


def resolve_project(
    call: Call, session_project: str | None, *, write: bool, consequence: str = UNCHANGED
) -> str:
    """Return the project of a call: argument, session, workspace, the key's only one, or the default.

    Raises:
        NotFound, Forbidden: the key may not read or write there.
    """
    p = call.principal
    named = call.args.get("project")
    if named is None and call.args.get("cell_type") == "Preference":
        return PRIVATE  # in a session, too: what somebody likes is told to others only on purpose
    project = (
        named
        or session_project
        or call.request.default_project
        or p.default_project
        or _only(p)
        or DEFAULT_PROJECT
    )
    p.check_project(project, write=write, consequence=consequence)
    return str(project)


def _only(principal: Principal) -> str | None:
    if principal.projects is not None and len(principal.projects) == 1:
        return principal.projects[0][0]
    return None


def visible_cell(db: apsw.Connection, principal: Principal, text: str, field: str) -> tuple[bytes, int]:
    """Return (cell id, cell_no) of a cell that the principal may read, by id or by 8 or more characters of it.

    Raises:
        Invalid: no such form of id.
        NotFound: not there, not readable, or the beginning of several ids.
    """
    prefix = uuid_prefix(text.strip())
    low = parse_uuid(text, field) if prefix is None else bytes.fromhex(prefix.ljust(32, "0"))
    high = low if prefix is None else bytes.fromhex(prefix.ljust(32, "f"))
    condition, parameters = principal.scope(None).condition("c")
    found = database.rows(
        db,
        f"SELECT c.cell, c.cell_no FROM cells c WHERE c.cell BETWEEN ? AND ? AND c.tenant_id=? AND {condition}"  # noqa: S608
        " LIMIT 2",
        low,
        high,
        principal.tenant,
        *parameters,
    )
    if len(found) == 1:
        return found[0][0], found[0][1]
    if len(found) > 1:
        raise NotFound(
            f"{field} {shown(text)} begins several ids. {UNCHANGED}Give the whole id, as recall returned it."
        )
    raise NotFound(
        f"no memory {shown(text)} is known here. {UNCHANGED}Correct {field}; recall finds the id:"
        f' {{"query": "what it says", "include_content": true}}'
    )
