"""The chain of hashes over the bytes as stored: whether they are what was written, and where they are not.

Reads only, on any connection.  It knows bytes and positions, not what events mean, and mends nothing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import apsw

from mesh.ports import Head
from node.database import open_reader
from proto.errors import ProtocolError
from proto.events import NO_HASH, restore
from proto.streams import Position, StreamId

# Whatever a flipped bit makes SQLite believe of a value's type, its bytes are what is checked.
BYTES = "CAST(header AS BLOB), CAST(salt AS BLOB), CAST(payload AS BLOB), CAST(hash AS BLOB)"


@dataclass(frozen=True, slots=True)
class BadEvent:
    """The first thing that verification found wrong."""

    stream: StreamId
    sequence: int
    why: str


def verify_stream(
    db: apsw.Connection, number: int, stream: StreamId, head: Head, first: int = 1
) -> BadEvent | None:
    """Walk one stream's chain over the stored bytes; return the first bad event, or None.

    Events may be appended meanwhile: the walk ends at the head that is given.

    Args:
        head: as the database said at some moment.
        first: where to begin; what lies before is trusted.
    """
    previous, expected = NO_HASH, first
    try:
        if first > 1:
            previous = hash_at(db, number, first - 1) or NO_HASH
        for sequence, header, salt, payload, hash_ in db.execute(
            f"SELECT sequence, {BYTES} FROM events WHERE stream_no=?"  # noqa: S608
            " AND sequence BETWEEN ? AND ? ORDER BY sequence",
            (number, first, head.sequence),
        ):
            if sequence != expected:
                return BadEvent(stream, expected, f"missing; the next one held is {sequence}")
            flaw = flaw_of(header, salt, payload, previous, hash_, Position(stream, sequence))
            if flaw is not None:
                return BadEvent(stream, expected, flaw)
            previous, expected = hash_, expected + 1
        recorded, last = _row(
            db,
            "SELECT head, (SELECT max(sequence) FROM events WHERE stream_no=?1) FROM streams WHERE stream_no=?1",
            number,
        )
    except (apsw.CorruptError, apsw.NotADBError) as error:
        return BadEvent(stream, expected, f"the database cannot be read there: {error}")
    if expected - 1 != head.sequence or previous != head.hash:
        return BadEvent(stream, expected, f"the stream ends at {expected - 1}, its head says {head.sequence}")
    if recorded != last:
        return BadEvent(stream, last or 1, f"the stream ends at {last}, its head says {recorded}")
    return None


def verify_newest(
    db: apsw.Connection, streams: Mapping[StreamId, tuple[int, Head]], count: int
) -> BadEvent | None:
    """Walk the chains over the events that arrived last: what a disk has most likely not kept.

    Args:
        streams: number and head of each stream.
        count: of events, over all streams.
    """
    for stream, (number, head) in sorted(streams.items()):
        (first,) = _row(
            db,
            "SELECT min(sequence) FROM events WHERE stream_no=? AND local>(SELECT max(local) FROM events)-?",
            number,
            count,
        )
        bad = None if first is None else verify_stream(db, number, stream, head, first)
        if bad is not None:
            return bad
    return None


def structure_flaw(db: apsw.Connection) -> str | None:
    """Return what SQLite finds wrong with the pages of the database itself, or None.

    A write-ahead log that was damaged after a part of it had been copied leaves old pages beside new ones: every
    event may be as written while two trees share a page or an index lacks rows.  Reads the whole file, on a connection
    of its own: one that has searched before judges the full-text index by what it remembers of it, and finds damage
    where there is none.
    """
    try:
        with contextlib.closing(open_reader(db.filename)) as fresh:
            found = fresh.execute("PRAGMA integrity_check(1)").fetchone()
    except (apsw.CorruptError, apsw.NotADBError) as error:
        return str(error)
    text = "it says nothing" if found is None else str(found[0])
    return None if text == "ok" else " ".join(text.split())


def unsound(flaw: str) -> str:
    """Return the sentence about a database whose pages do not fit together, and what to do."""
    return (
        f"the database is damaged ({flaw[:200]}) although each event is as written. In a mesh of several peers:"
        " stop this peer, move its log.db (and log.db-wal, log.db-shm) aside and start it again; what the others hold"
        " comes back by itself"
    )


def hash_at(db: apsw.Connection, number: int, sequence: int) -> bytes | None:
    """Return the stored hash of an event, or None where there is none."""
    row = db.execute(
        "SELECT hash FROM events WHERE stream_no=? AND sequence=?", (number, sequence)
    ).fetchone()
    return None if row is None else bytes(row[0])


def _row(db: apsw.Connection, sql: str, *parameters: int) -> tuple[Any, ...]:
    found = db.execute(sql, parameters).fetchone()
    assert found is not None  # an aggregate always has one
    return tuple(found)


def flaw_of(
    header: bytes,
    salt: bytes | None,
    payload: bytes | None,
    previous: bytes,
    hash_: bytes,
    place: Position | None = None,
) -> str | None:
    """Return what is wrong with stored bytes, or None."""
    try:
        event = restore(header, salt, payload, previous)
    except ProtocolError as error:
        return error.message
    if place is not None and event.header.position != place:
        return "its header names another place"
    return None if event.hash == hash_ else "its hash does not follow from the event before it"
