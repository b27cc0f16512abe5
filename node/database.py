"""The SQLite file of a peer: pragmas, schema and format number.

One writer connection, which alone checkpoints, and short read-only connections beside it.  WAL with
`synchronous=FULL`, so that a commit that returned is on disk.  Only this module and the adapters beside it
know SQL; nothing here knows what events mean.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import apsw
import structlog

from proto.errors import Corrupted, Unavailable

_log = structlog.get_logger(__name__)

FORMAT = 3
BUSY_MS = 5_000
WAL_PAGES = 4_000  # checkpoint about every 16 MB: rare enough to stay off most commits

SCHEMA = """
CREATE TABLE meta(name TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE streams(
  stream_no INTEGER PRIMARY KEY, peer BLOB NOT NULL, partition INTEGER NOT NULL, ordinal INTEGER NOT NULL,
  random BLOB NOT NULL, head INTEGER NOT NULL, head_hash BLOB NOT NULL,
  UNIQUE(peer, partition, ordinal, random));
CREATE TABLE events(
  local INTEGER PRIMARY KEY, stream_no INTEGER NOT NULL, sequence INTEGER NOT NULL, header BLOB NOT NULL,
  salt BLOB, payload BLOB, hash BLOB NOT NULL, arrived_us INTEGER NOT NULL);
CREATE UNIQUE INDEX events_by_position ON events(stream_no, sequence);
CREATE TABLE forks(
  stream_no INTEGER NOT NULL, sequence INTEGER NOT NULL, header BLOB NOT NULL, salt BLOB, payload BLOB,
  seen_us INTEGER NOT NULL, UNIQUE(stream_no, sequence, header));
"""

QUARANTINE = """
CREATE TABLE quarantine(
  stream_no INTEGER PRIMARY KEY, agreed INTEGER NOT NULL, hash BLOB NOT NULL, other_hash BLOB NOT NULL,
  seen_us INTEGER NOT NULL);
"""

SCENES = """
CREATE TABLE scene_parts(
  stream_no INTEGER NOT NULL, run BLOB NOT NULL, parts INTEGER NOT NULL, part INTEGER NOT NULL,
  local INTEGER NOT NULL, PRIMARY KEY(stream_no, run, parts, part)) WITHOUT ROWID;
CREATE TABLE scene_runs(
  tenant_id BLOB NOT NULL, project TEXT NOT NULL, owner TEXT NOT NULL, wall_ms INTEGER NOT NULL,
  counter INTEGER NOT NULL, local INTEGER NOT NULL, PRIMARY KEY(tenant_id, project, owner)) WITHOUT ROWID;
CREATE TABLE scenes(
  scene_no INTEGER PRIMARY KEY, tenant_id BLOB NOT NULL, project TEXT NOT NULL, owner TEXT NOT NULL,
  scene BLOB NOT NULL, title TEXT NOT NULL, medoid BLOB NOT NULL, summary BLOB NOT NULL,
  from_ms INTEGER NOT NULL, to_ms INTEGER NOT NULL);
CREATE UNIQUE INDEX scenes_by_id ON scenes(tenant_id, scene, project, owner);
CREATE INDEX scenes_by_time ON scenes(tenant_id, to_ms, scene);
CREATE TABLE scene_members(
  scene_no INTEGER NOT NULL, cell BLOB NOT NULL, PRIMARY KEY(scene_no, cell)) WITHOUT ROWID;
"""

MEMBERSHIP = """
CREATE TABLE joinings(local INTEGER PRIMARY KEY);
CREATE TABLE retiring_events(local INTEGER PRIMARY KEY);
"""

PROJECTIONS = f"""{SCENES}{MEMBERSHIP}
CREATE TABLE links(
  stream_no INTEGER PRIMARY KEY, peer BLOB, partition INTEGER, ordinal INTEGER, random BLOB,
  sequence INTEGER);
CREATE TABLE unfolded(local INTEGER PRIMARY KEY, kind TEXT NOT NULL, why TEXT NOT NULL);
CREATE TABLE members(
  peer BLOB PRIMARY KEY, name TEXT NOT NULL, public_key BLOB NOT NULL, joined_ms INTEGER NOT NULL,
  retired_ms INTEGER) WITHOUT ROWID;
CREATE TABLE retirements(peer BLOB PRIMARY KEY, retired_ms INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE keys(
  key_id TEXT PRIMARY KEY, public_key BLOB NOT NULL, tenant_id BLOB NOT NULL, tenant TEXT NOT NULL,
  owner TEXT NOT NULL, agent TEXT NOT NULL, scopes TEXT NOT NULL, projects TEXT, default_project TEXT,
  created_ms INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE revocations(key_id TEXT PRIMARY KEY, revoked_ms INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE agents(agent_id BLOB PRIMARY KEY, tenant_id BLOB NOT NULL, name TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE cells(
  cell_no INTEGER PRIMARY KEY, cell BLOB NOT NULL UNIQUE, local INTEGER NOT NULL, tenant_id BLOB NOT NULL,
  project TEXT NOT NULL, owner TEXT NOT NULL, agent TEXT NOT NULL, agent_id BLOB NOT NULL, session BLOB,
  cell_type TEXT NOT NULL, salience INTEGER NOT NULL, layer INTEGER NOT NULL, wall_ms INTEGER NOT NULL,
  counter INTEGER NOT NULL, tags TEXT NOT NULL, superseded INTEGER NOT NULL DEFAULT 0,
  space TEXT);
CREATE INDEX cells_by_scope ON cells(tenant_id, layer, project, cell_type);
CREATE INDEX cells_by_agent ON cells(agent_id, wall_ms);
CREATE TABLE cell_events(
  local INTEGER PRIMARY KEY, cell_no INTEGER NOT NULL, stream_no INTEGER NOT NULL, sequence INTEGER NOT NULL,
  tenant_id BLOB NOT NULL, wall_ms INTEGER NOT NULL);
CREATE INDEX cell_events_by_time ON cell_events(tenant_id, wall_ms);
CREATE INDEX cell_events_by_position ON cell_events(stream_no, sequence);
CREATE INDEX cell_events_by_cell ON cell_events(cell_no);
CREATE TABLE supersessions(
  old BLOB NOT NULL, new BLOB NOT NULL, local INTEGER NOT NULL, PRIMARY KEY(old, new)) WITHOUT ROWID;
CREATE INDEX supersessions_by_new ON supersessions(new);
CREATE TABLE placements(
  local INTEGER PRIMARY KEY, beacon BLOB NOT NULL, tenant_id BLOB NOT NULL, agent_id BLOB NOT NULL);
CREATE INDEX placements_by_beacon ON placements(beacon);
CREATE INDEX placements_by_agent ON placements(agent_id);
CREATE TABLE withdrawals(local INTEGER PRIMARY KEY, beacon BLOB NOT NULL);
CREATE TABLE renewals(beacon BLOB PRIMARY KEY, expires_ms INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE entries(
  entry_no INTEGER PRIMARY KEY, tenant_id BLOB NOT NULL, agent_id BLOB NOT NULL, diff BLOB NOT NULL,
  kind TEXT NOT NULL, cell_no INTEGER NOT NULL, other_no INTEGER, local INTEGER NOT NULL,
  wall_ms INTEGER NOT NULL, counter INTEGER NOT NULL, own_session BLOB, matched BLOB NOT NULL,
  arrived_us INTEGER NOT NULL, read_local INTEGER);
CREATE UNIQUE INDEX entries_by_diff ON entries(agent_id, diff);
CREATE INDEX entries_unread ON entries(agent_id, read_local, wall_ms, counter, diff);
CREATE INDEX entries_by_arrival ON entries(agent_id, arrived_us);
CREATE INDEX entries_by_cell ON entries(cell_no);
CREATE TABLE sessions(
  session BLOB PRIMARY KEY, tenant_id BLOB NOT NULL, agent_id BLOB NOT NULL, agent TEXT NOT NULL,
  owner TEXT NOT NULL, project TEXT NOT NULL, title TEXT NOT NULL, opened_ms INTEGER NOT NULL,
  local INTEGER NOT NULL, frontier BLOB NOT NULL) WITHOUT ROWID;
CREATE INDEX sessions_by_agent ON sessions(agent_id, opened_ms);
CREATE TABLE closings(
  session BLOB NOT NULL, local INTEGER NOT NULL, stream_no INTEGER NOT NULL, sequence INTEGER NOT NULL,
  closed_ms INTEGER NOT NULL, PRIMARY KEY(session, local)) WITHOUT ROWID;
CREATE TABLE pages(
  page BLOB PRIMARY KEY, agent_id BLOB NOT NULL, session BLOB, mark BLOB NOT NULL, local INTEGER NOT NULL)
  WITHOUT ROWID;
CREATE INDEX pages_by_reader ON pages(agent_id, session);
CREATE TABLE refs(
  agent_id BLOB NOT NULL, diff BLOB NOT NULL, page BLOB NOT NULL, PRIMARY KEY(agent_id, diff, page))
  WITHOUT ROWID;
CREATE INDEX refs_by_page ON refs(page);
CREATE TABLE commits(
  page BLOB NOT NULL, local INTEGER NOT NULL, stream_no INTEGER NOT NULL, sequence INTEGER NOT NULL,
  PRIMARY KEY(page, local)) WITHOUT ROWID;
"""

PROJECTION_TABLES = tuple(
    line.split()[2].split("(")[0] for line in PROJECTIONS.splitlines() if line.startswith("CREATE TABLE")
)


def open_writer(path: str | Path) -> apsw.Connection:
    """Open or create the database of a peer as its one writer.

    Args:
        path: a file, or ":memory:" (simulation).

    Raises:
        Unavailable: the file cannot be created or opened, or was written by a newer version; unchanged.
        Corrupted: the file is no database.
    """
    try:
        connection = apsw.Connection(str(path))
        connection.set_busy_timeout(BUSY_MS)
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute(f"PRAGMA wal_autocheckpoint={WAL_PAGES}")
        connection.execute("PRAGMA cache_size=-16000")
        connection.execute("PRAGMA foreign_keys=OFF")
        found = connection.pragma("user_version")
        if found > FORMAT:
            raise Unavailable(
                f"{path} has format {found}, written by a newer version; this one reads up to {FORMAT}. "
                "Nothing was changed. Upgrade hyphae-mesh."
            )
        if 0 < found < FORMAT:
            migrate(connection, str(path), found)
        if found == 0:
            with connection:
                connection.execute(SCHEMA + QUARANTINE)
                connection.execute(PROJECTIONS)
                connection.execute(f"PRAGMA user_version={FORMAT}")
    except apsw.NotADBError as error:
        raise Corrupted(
            f"{path} is no database; move it aside and restart to pull from other peers."
        ) from error
    except apsw.CorruptError as error:
        raise damaged(path, error) from error
    except (apsw.CantOpenError, apsw.ReadOnlyError, apsw.PermissionsError) as error:
        raise Unavailable(f"{path} cannot be opened for writing: {error}. Nothing was changed.") from error
    except apsw.FullError as error:
        raise Unavailable(f"{path}: the disk is full. Nothing was changed. Free some space.") from error
    except apsw.IOError as error:
        raise Unavailable(f"{path} cannot be read or written: {error}. Nothing was changed.") from error
    return connection


_NAMING = "INSERT INTO {} SELECT local FROM events WHERE instr(header, CAST('{}' AS BLOB))>0;"
_MEMBERS = _NAMING.format("joinings", "PeerJoined") + _NAMING.format("retiring_events", "PeerRetired")
_APART = """
INSERT INTO quarantine
  SELECT f.stream_no, f.place-1,
    ifnull((SELECT hash FROM events e WHERE e.stream_no=f.stream_no AND e.sequence=f.place-1), zeroblob(32)), x'', f.at
  FROM (SELECT stream_no, min(sequence) AS place, min(seen_us) AS at FROM forks GROUP BY stream_no) f;
"""
MIGRATIONS = {1: SCENES, 2: QUARANTINE + MEMBERSHIP + _MEMBERS + _APART}
"""Per format, what has to be executed to come from it to the next."""


def migrate(connection: apsw.Connection, path: str, found: int) -> None:
    """Bring a database to this format in one transaction, after a copy of it was put beside it.

    Raises:
        Unavailable: the copy cannot be written; the database is as before.
        apsw.Error: the database refused; it is as before.
    """
    copy = Path(f"{path}.format-{found}")
    unfinished = Path(f"{copy}.unfinished")
    try:
        unfinished.unlink(missing_ok=True)
        connection.execute("VACUUM INTO ?", (str(unfinished),))
        unfinished.replace(copy)
    except (OSError, apsw.FullError, apsw.CantOpenError, apsw.IOError) as error:
        with contextlib.suppress(OSError):
            unfinished.unlink(missing_ok=True)
        raise Unavailable(
            f"{path} has format {found}, and the copy that is kept before it becomes {FORMAT} cannot be written:"
            f" {error}. Nothing was changed. Make room for a second {Path(path).name}, then start again."
        ) from error
    with connection:
        for number in range(found, FORMAT):
            connection.execute(MIGRATIONS[number])
        connection.execute(f"PRAGMA user_version={FORMAT}")
    _log.warning("database_migrated", path=path, format=FORMAT, was=found, copy=str(copy))


def damaged(path: str | Path, error: Exception) -> Corrupted:
    """Return the error for a database whose pages are not what SQLite wrote."""
    return Corrupted(
        f"{path} is damaged ({error}). What other peers hold is not lost: move the file (with its -wal and -shm)"
        " aside and start the peer again, and it pulls from them."
    )


def open_reader(path: str | Path) -> apsw.Connection:
    """Open a read-only connection; its reads are short and see what was committed."""
    connection = apsw.Connection(
        f"file:{path}?mode=ro", flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    )
    connection.set_busy_timeout(BUSY_MS)
    connection.execute("PRAGMA query_only=1")
    connection.execute("PRAGMA cache_size=-4000")
    return connection


def drop_projections(connection: apsw.Connection) -> None:
    """Empty every projection inside the caller's transaction; the log itself stays."""
    for table in PROJECTION_TABLES:
        connection.execute(f"DELETE FROM {table}")  # noqa: S608  names are constants of this module


Row = tuple[Any, ...]


def rows(db: apsw.Connection, sql: str, *parameters: Any) -> list[Row]:
    """Return all rows of a query."""
    found: list[Row] = db.execute(sql, parameters).fetchall()
    return found


def row(db: apsw.Connection, sql: str, *parameters: Any) -> Row | None:
    """Return the first row of a query, or None."""
    found: Row | None = db.execute(sql, parameters).fetchone()
    return found


def value(db: apsw.Connection, sql: str, *parameters: Any) -> Any:
    """Return the first column of the first row of a query, or None."""
    found = db.execute(sql, parameters).fetchone()
    return None if found is None else found[0]
