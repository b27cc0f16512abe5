"""Which entries wait for a reader, in the order in which they are listed.  Reads only, on any connection.

The agent's own set is in `entries.read_local`.  A session's set is what the agent had read before the
frontier at which the session opened, and the session's own committed pages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sized
from dataclasses import dataclass, field
from typing import Any

import apsw

from node import database
from proto.ids import AgentId, DiffId, PageId, PeerId, SessionId
from proto.payloads import PRIVATE
from proto.streams import StreamId

COLUMNS = "e.entry_no, e.diff, e.kind, e.cell_no, e.other_no, e.matched, e.arrived_us, e.wall_ms, e.counter, c.project"


@dataclass(frozen=True, slots=True)
class Entry:
    """One row of an inbox."""

    entry_no: int
    diff: DiffId
    kind: str
    cell_no: int
    other_no: int | None
    matched: bytes
    arrived_us: int
    wall_ms: int
    counter: int
    project: str


@dataclass(frozen=True, slots=True)
class Scope:
    """What a principal may see.

    Args:
        owner: whose `private` cells are visible.
        readable: projects of the key, or None for all of the tenant.
        project: only this one, if given.
    """

    owner: str
    readable: frozenset[str] | None = None
    project: str | None = None

    def condition(self, table: str) -> tuple[str, list[object]]:
        """Return an SQL condition over a table with columns `project` and `owner`, and its parameters."""
        parts, values = [f"({table}.project<>'{PRIVATE}' OR {table}.owner=?)"], [self.owner]
        parameters: list[object] = list(values)
        if self.project is not None:
            parts.append(f"{table}.project=?")
            parameters.append(self.project)
        elif self.readable is not None:
            names = sorted(self.readable | {PRIVATE})
            parts.append(f"{table}.project IN ({','.join('?' * len(names))})")
            parameters += names
        return " AND ".join(parts), parameters


@dataclass(frozen=True, slots=True)
class ReaderView:
    """Whose inbox, and what that reader has certainly been listed.

    Args:
        session: None for the agent itself.
        covered: of a session: per stream, what lay before its opening (`proto.streams.coverage`).
        committing: pages that this call commits, beyond those in the log.
    """

    agent: AgentId
    session: SessionId | None = None
    covered: Mapping[StreamId, int] = field(default_factory=dict)
    committing: frozenset[PageId] = frozenset()


def waiting(
    db: apsw.Connection, view: ReaderView, scope: Scope, limit: int, *, skip_before_us: int | None = None
) -> tuple[list[Entry], int]:
    """Return the first entries that wait for a reader, and how many wait in all.

    Args:
        skip_before_us: entries that arrived earlier are left out.
    """
    where, parameters = _conditions(db, view, scope)
    if skip_before_us is not None:
        where += " AND e.arrived_us>=?"
        parameters.append(skip_before_us)
    source = f"FROM entries e JOIN cells c ON c.cell_no=e.cell_no WHERE {where}"
    found = database.rows(
        db,
        f"SELECT {COLUMNS} {source} ORDER BY e.wall_ms, e.counter, e.diff LIMIT ?",
        *parameters,
        limit,
    )
    total = len(found)
    if total == limit:
        total = database.value(db, f"SELECT count(*) {source}", *parameters)
    return [Entry(*r) for r in found], total


def skipped(db: apsw.Connection, view: ReaderView, scope: Scope, before_us: int, limit: int) -> list[DiffId]:
    """Return entries that wait and arrived before a time: what `skip_before` gives up, at most `limit`."""
    where, parameters = _conditions(db, view, scope)
    found = database.rows(
        db,
        f"SELECT e.diff FROM entries e JOIN cells c ON c.cell_no=e.cell_no"  # noqa: S608
        f" WHERE {where} AND e.arrived_us<? LIMIT ?",
        *parameters,
        before_us,
        limit,
    )
    return [DiffId(r[0]) for r in found]


def arrived_since(
    db: apsw.Connection, agent: AgentId, scope: Scope, since_us: int, limit: int
) -> list[Entry]:
    """Return entries of an agent that arrived after a time, in order of arrival, read or not."""
    condition, parameters = scope.condition("c")
    found = database.rows(
        db,
        f"SELECT {COLUMNS} FROM entries e JOIN cells c ON c.cell_no=e.cell_no"  # noqa: S608
        f" WHERE e.agent_id=? AND e.arrived_us>? AND {condition} ORDER BY e.arrived_us LIMIT ?",
        agent,
        since_us,
        *parameters,
        limit,
    )
    return [Entry(*r) for r in found]


def in_doubt(db: apsw.Connection, view: ReaderView, diffs: list[DiffId]) -> bool:
    """Tell whether one of these diffs is on a page of this reader that nobody has committed."""
    if not diffs:
        return False
    committing = sorted(view.committing)
    found = database.row(
        db,
        f"SELECT 1 FROM refs r JOIN pages p ON p.page=r.page WHERE r.agent_id=?"  # noqa: S608
        f" AND p.session IS ? AND r.diff IN ({_marks(diffs)})"
        " AND NOT EXISTS (SELECT 1 FROM commits k WHERE k.page=r.page)"
        f" AND r.page NOT IN ({_marks(committing)}) LIMIT 1",
        view.agent,
        view.session,
        *diffs,
        *committing,
    )
    return found is not None


def is_known(db: apsw.Connection, page: PageId) -> bool:
    """Tell whether what was on a page is known here, or that page was committed here without that."""
    return (
        database.row(db, "SELECT 1 FROM pages WHERE page=?1 UNION SELECT 1 FROM commits WHERE page=?1", page)
        is not None
    )


def come_from(db: apsw.Connection, entry_nos: list[int], peers: list[PeerId]) -> bool:
    """Tell whether the event of one of these entries is of one of these peers."""
    found = database.row(
        db,
        "SELECT 1 FROM entries e JOIN events v ON v.local=e.local JOIN streams s ON s.stream_no=v.stream_no"  # noqa: S608
        f" WHERE e.entry_no IN ({_marks(entry_nos)}) AND s.peer IN ({_marks(peers)}) LIMIT 1",
        *entry_nos,
        *peers,
    )
    return found is not None


def uncommitted(db: apsw.Connection, pages: frozenset[PageId]) -> tuple[PageId, ...]:
    """Return those of the pages that no commit in the log names yet."""
    return tuple(
        p for p in sorted(pages) if database.row(db, "SELECT 1 FROM commits WHERE page=?", p) is None
    )


def _conditions(db: apsw.Connection, view: ReaderView, scope: Scope) -> tuple[str, list[object]]:
    condition, parameters = scope.condition("c")
    where = f"e.agent_id=? AND {condition}"
    values: list[object] = [view.agent, *parameters]
    committing = sorted(view.committing)
    if committing:
        where += (  # a page of another reader is committed too, and says nothing about this one
            " AND NOT EXISTS (SELECT 1 FROM refs r JOIN pages p ON p.page=r.page"  # noqa: S608
            " WHERE r.agent_id=e.agent_id AND r.diff=e.diff AND (p.session IS ? OR (? IS NULL AND EXISTS"
            " (SELECT 1 FROM closings x WHERE x.session=p.session)))"
            f" AND r.page IN ({_marks(committing)}))"
        )
        values += [view.session, view.session, *committing]
    if view.session is None:
        return where + " AND e.read_local IS NULL", values
    numbers = _by_number(db, view.covered)

    def covered(*position: Any) -> int:
        stream_no, sequence = position
        return int(sequence <= numbers.get(stream_no, 0))

    db.create_scalar_function("covered", covered, 2)
    where += (
        " AND (e.read_local IS NULL OR e.read_local>=?) AND (e.own_session IS NULL OR e.own_session<>?)"
        " AND NOT EXISTS (SELECT 1 FROM refs r JOIN pages p ON p.page=r.page JOIN commits k ON k.page=p.page"
        "   WHERE r.agent_id=e.agent_id AND r.diff=e.diff"
        "   AND (p.session IS ? OR (covered(k.stream_no, k.sequence)"
        "     AND (p.session IS NULL OR EXISTS (SELECT 1 FROM closings x WHERE x.session=p.session"
        "       AND covered(x.stream_no, x.sequence))))))"
    )
    values += [_first_beyond(db, numbers), view.session, view.session]
    return where, values


def _by_number(db: apsw.Connection, covered: Mapping[StreamId, int]) -> dict[int, int]:
    out: dict[int, int] = {}
    for number, peer, partition, ordinal, random in database.rows(
        db, "SELECT stream_no, peer, partition, ordinal, random FROM streams"
    ):
        out[number] = covered.get(StreamId(peer, partition, ordinal, random), 0)
    return out


def _first_beyond(db: apsw.Connection, covered: Mapping[int, int]) -> int:
    """Return where the first event beyond a frontier arrived: all that came earlier lies before it."""
    firsts = [
        database.value(db, "SELECT local FROM events WHERE stream_no=? AND sequence=?", number, upto + 1)
        for number, upto in covered.items()
    ]
    return min((f for f in firsts if f is not None), default=2**62)


def _marks(values: Sized) -> str:
    return ",".join("?" * len(values))
