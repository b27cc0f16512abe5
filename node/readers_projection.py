"""What each reader has been listed: pages, commits, sessions, and the agent's own set of read entries.

The set of a reader is a union of committed pages, so it only grows and merges without conflict.  `entries`
remembers in `read_local` when the agent's own set came to hold an entry; a session's set is computed when it
drains (`inbox_query`).  Runs on the writer's connection inside its transaction.
"""

from __future__ import annotations

import apsw

from node import database
from node.sqlite_log import Logged
from proto.codec import encode
from proto.ids import AgentId, agent_id
from proto.payloads import PageListed, SessionClosed, SessionOpened


class ReadersProjection:
    """Writes `sessions`, `closings`, `pages`, `refs`, `commits` and `entries.read_local`."""

    def __init__(self, db: apsw.Connection) -> None:
        self._db = db

    def open_session(self, logged: Logged, payload: SessionOpened) -> None:
        header = logged.event.header
        self._db.execute(
            "INSERT OR IGNORE INTO sessions VALUES(?,?,?,?,?,?,?,?,?,?)",
            (
                payload.session,
                header.tenant,
                agent_id(header.tenant, payload.agent),
                payload.agent,
                payload.owner,
                payload.project,
                payload.title,
                header.wall_ms,
                logged.local,
                encode(payload.frontier),
            ),
        )

    def close_session(self, logged: Logged, payload: SessionClosed) -> None:
        header = logged.event.header
        self._db.execute(
            "INSERT OR IGNORE INTO closings VALUES(?,?,?,?,?)",
            (payload.session, logged.local, logged.stream_no, header.sequence, header.wall_ms),
        )
        self._commit(logged, payload.commits)
        for (page,) in database.rows(
            self._db,
            "SELECT DISTINCT p.page FROM pages p JOIN commits c ON c.page=p.page WHERE p.session=?",
            payload.session,
        ):
            self._mark_read(page, logged.local)

    def list_page(self, logged: Logged, payload: PageListed) -> None:
        agent = AgentId(logged.event.header.actor)
        self._db.execute(
            "INSERT OR IGNORE INTO pages VALUES(?,?,?,?,?)",
            (payload.page, agent, payload.session, payload.mark, logged.local),
        )
        self._db.executemany(
            "INSERT OR IGNORE INTO refs VALUES(?,?,?)", [(agent, ref, payload.page) for ref in payload.refs]
        )
        if database.row(self._db, "SELECT 1 FROM commits WHERE page=?", payload.page):
            self._mark_read(payload.page, logged.local)  # its commit came first
        self._commit(logged, payload.commits)

    def _commit(self, logged: Logged, pages: tuple[bytes, ...]) -> None:
        for page in pages:
            self._db.execute(
                "INSERT OR IGNORE INTO commits VALUES(?,?,?,?)",
                (page, logged.local, logged.stream_no, logged.event.header.sequence),
            )
            self._mark_read(page, logged.local)

    def _mark_read(self, page: bytes, local: int) -> None:
        """Let the agent's set hold a committed page, unless it is a page of a session still open."""
        found = database.row(
            self._db,
            "SELECT agent_id FROM pages p WHERE page=? AND (session IS NULL OR EXISTS"
            " (SELECT 1 FROM closings x WHERE x.session=p.session))",
            page,
        )
        if found is not None:
            self._db.execute(
                "UPDATE entries SET read_local=?1 WHERE agent_id=?2 AND read_local IS NULL"
                " AND diff IN (SELECT diff FROM refs WHERE page=?3)",
                (local, found[0], page),
            )
