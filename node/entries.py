"""The rows of inboxes: one per agent and diff, written, changed and taken out inside the writer's transaction.

It knows nothing of why somebody is told of something.
"""

from __future__ import annotations

from typing import NamedTuple

import apsw

from node import database
from proto.ids import AgentId, DiffId, TenantId


class EntryRow(NamedTuple):
    """One entry, a function of the events known.

    Args:
        other_no: the cell that replaces it, of kind `superseded`.
        local: place of arrival of the event that made the diff.
        own_session: the session of this agent that made the diff: it is not listed to that one.
        matched: which beacons, as `inbox_projection.pack_matches` writes it.
    """

    tenant: TenantId
    agent: AgentId
    diff: DiffId
    kind: str
    cell_no: int
    other_no: int | None
    local: int
    wall_ms: int
    counter: int
    own_session: bytes | None
    matched: bytes


class EntryTable:
    """Writes `entries`.

    Args:
        db: the writer's connection.
    """

    def __init__(self, db: apsw.Connection) -> None:
        self._db = db
        self._last_us: int = database.value(db, "SELECT max(arrived_us) FROM entries") or 0

    def put(self, row: EntryRow, arrived_us: int) -> None:
        """Write an entry; one that is there already keeps its time of arrival and whether it was read."""
        self._last_us = max(arrived_us, self._last_us + 1)
        self._db.execute(
            "INSERT INTO entries(tenant_id, agent_id, diff, kind, cell_no, other_no, local, wall_ms, counter,"
            " own_session, matched, arrived_us, read_local) VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?)"
            " ON CONFLICT(agent_id, diff) DO UPDATE SET local=excluded.local, wall_ms=excluded.wall_ms,"
            " counter=excluded.counter, own_session=excluded.own_session, matched=excluded.matched",
            (*row, self._last_us, read_since(self._db, row.agent, row.diff)),
        )

    def remove(self, agent: AgentId, diff: DiffId) -> None:
        self._db.execute("DELETE FROM entries WHERE agent_id=? AND diff=?", (agent, diff))

    def agents_told(self, cell_no: int, kind: str, diff: DiffId | None = None) -> set[AgentId]:
        """Return who has an entry of a kind about a cell, or, if given, that very diff."""
        found = database.rows(
            self._db,
            "SELECT agent_id FROM entries WHERE cell_no=?1 AND kind=?2 AND (?3 IS NULL OR diff=?3)",
            cell_no,
            kind,
            diff,
        )
        return {AgentId(agent) for (agent,) in found}


def read_since(db: apsw.Connection, agent: bytes, diff: bytes) -> int | None:
    """Return the place of arrival at which the agent's own set came to hold a diff, or None.

    It does once a page that lists the diff is committed and, for a session's page, the session is closed.
    """
    found: int | None = database.value(
        db,
        "SELECT min(max(p.local, c.local, ifnull(x.local, 0))) FROM refs r JOIN pages p ON p.page=r.page"
        " JOIN commits c ON c.page=p.page LEFT JOIN closings x ON x.session=p.session"
        " WHERE r.agent_id=? AND r.diff=? AND (p.session IS NULL OR x.local IS NOT NULL)",
        agent,
        diff,
    )
    return found
