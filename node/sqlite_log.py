"""The event log in SQLite: streams, contiguous prefixes, chain hashes, forks kept aside.

Synchronous and single-threaded: the caller owns the transaction, the thread and the clock.  It knows bytes
and positions, not what events mean; projections are folded by `replica` in the same transaction.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import apsw

from mesh.ports import Head, Segment
from node.log_verification import BYTES, flaw_of, hash_at
from proto.clock import Hlc
from proto.errors import Corrupted, ProtocolError
from proto.events import NO_HASH, Event, restore, seal
from proto.ids import AgentId, PeerId, TenantId
from proto.streams import Position, StreamId


@dataclass(frozen=True, slots=True)
class Logged:
    """An event in the log.

    Args:
        local: place in this peer's order of arrival, from 1.
        stream_no: small number of its stream at this peer.
        arrived_us: microseconds since 1970 at this peer, strictly increasing in `local`.
    """

    event: Event
    local: int
    stream_no: int
    arrived_us: int


@dataclass(slots=True)
class _Stream:
    number: int
    head: Head


FORKS_KEPT = 100  # contradicting events of a stream: one is proof, and whoever writes them may go on for ever


class SqliteLog:
    """Appends and reads events on one connection.

    Args:
        connection: a writer connection from `database.open_writer`.
        peer: id of this peer.
    """

    def __init__(self, connection: apsw.Connection, peer: PeerId) -> None:
        self._db = connection
        self.peer = peer
        self.current: StreamId | None = None  # the stream of this process life, once something was written
        self.reload()

    def reload(self) -> None:
        """Read heads from disk again: at start, and after a transaction was rolled back."""
        self._streams: dict[StreamId, _Stream] = {}
        self._by_number: dict[int, StreamId] = {}
        for number, peer, partition, ordinal, random, head, head_hash in self._db.execute(
            "SELECT stream_no, peer, partition, ordinal, random, head, head_hash FROM streams"
        ):
            stream = StreamId(PeerId(peer), partition, ordinal, random)
            self._streams[stream] = _Stream(number, Head(head, head_hash))
            self._by_number[number] = stream
        row = self._db.execute("SELECT local, arrived_us FROM events ORDER BY local DESC LIMIT 1").fetchone()
        self.quarantined: dict[StreamId, Head] = {  # replaced, never changed: other threads look at it
            self._by_number[number]: Head(agreed, agreed_hash)
            for number, agreed, agreed_hash in self._db.execute(
                "SELECT stream_no, agreed, hash FROM quarantine"
            )
        }
        self._last_local: int = row[0] if row else 0
        self._last_us: int = row[1] if row else 0
        if self.current is not None and (
            self.current not in self._streams or self.current in self.quarantined
        ):
            self.current = None

    # -- positions

    @property
    def last_local(self) -> int:
        return self._last_local

    def heads(self) -> dict[StreamId, Head]:
        """Return the head of every stream held; a copy."""
        return {stream: entry.head for stream, entry in self._streams.items()}

    def vector(self) -> dict[StreamId, int]:
        """Return sequence by stream."""
        return {stream: entry.head.sequence for stream, entry in self._streams.items()}

    def stream_of(self, number: int) -> StreamId:
        return self._by_number[number]

    def number_of(self, stream: StreamId) -> int | None:
        entry = self._streams.get(stream)
        return None if entry is None else entry.number

    def newest_own(self) -> StreamId | None:
        """Return the own stream with the highest epoch, or None before the first."""
        own = [s for s in self._streams if s.peer == self.peer]
        return max(own, default=None, key=lambda s: (s.ordinal, s.random))

    def numbered(self) -> dict[StreamId, tuple[int, Head]]:
        """Return number and head of every stream held."""
        return {stream: (entry.number, entry.head) for stream, entry in self._streams.items()}

    # -- writing (inside the caller's transaction)

    def append(
        self,
        stream: StreamId,
        hlc: Hlc,
        kind: str,
        tenant: TenantId,
        actor: AgentId,
        payload: bytes,
        salt: bytes,
        now_us: int,
    ) -> Logged:
        """Append an own event to the stream of this process life.

        Raises:
            ProtocolError: the event is too large; nothing was written.
            apsw.Error: the disk refused; the caller rolls back and calls `reload`.
        """
        entry = self._streams.get(stream)
        sequence, previous = (entry.head.sequence + 1, entry.head.hash) if entry else (1, NO_HASH)
        event = seal(stream, sequence, hlc, kind, tenant, actor, payload, salt, previous)
        self.current = stream
        return self._insert(event, now_us)

    def extend(self, segment: Segment, now_us: int) -> tuple[list[Logged], tuple[StreamId, int] | None]:
        """Keep what of a received segment extends its stream.

        Returns:
            The events kept, and the place of a fork if the segment contradicts what is held.  A segment with
            a gap before it, or of the stream that this process writes, keeps nothing.

        Raises:
            ProtocolError: the segment is malformed; nothing of it was kept.
        """
        stream = segment.stream
        if stream == self.current or stream in self.quarantined:
            return [], self._check_overlap(segment, now_us)
        entry = self._streams.get(stream)
        head = entry.head if entry else Head(0, NO_HASH)
        if segment.first > head.sequence + 1:
            return [], None
        fork = self._check_overlap(segment, now_us) if segment.first <= head.sequence else None
        skip = head.sequence + 1 - segment.first
        if fork is not None or skip >= len(segment.events):
            return [], fork
        if skip == 0 and segment.previous != head.hash:
            return [], (stream, head.sequence)
        events: list[Event] = []
        for offset, (header, salt, payload) in enumerate(segment.events[skip:]):
            event = restore(header, salt, payload, events[-1].hash if events else head.hash)
            if event.header.stream != stream or event.header.sequence != head.sequence + 1 + offset:
                raise ProtocolError(
                    f"a segment holds an event of another place than {head.sequence + 1 + offset}"
                )
            events.append(event)
        return [self._insert(event, now_us) for event in events], None

    def _check_overlap(self, segment: Segment, now_us: int) -> tuple[StreamId, int] | None:
        """Compare the part of a segment that is already held; keep contradicting events aside."""
        entry = self._streams.get(segment.stream)
        if entry is None:
            return None
        last = min(entry.head.sequence, segment.first + len(segment.events) - 1)
        rows: Any = self._db.execute(
            "SELECT sequence, header FROM events WHERE stream_no=? AND sequence BETWEEN ? AND ?",
            (entry.number, segment.first, last),
        ).fetchall()
        for sequence, header in rows:
            theirs = segment.events[sequence - segment.first]
            if theirs[0] != header:
                self._db.execute(
                    "INSERT OR IGNORE INTO forks SELECT ?1,?2,?3,?4,?5,?6"
                    " WHERE (SELECT count(*) FROM forks WHERE stream_no=?1)<?7",
                    (entry.number, sequence, *theirs, now_us, FORKS_KEPT),
                )
                return segment.stream, sequence
        return None

    def quarantine(self, stream: StreamId, sequence: int, other: bytes, now_us: int) -> None:
        """Remember that a stream has two histories: it is extended no more, from inside or outside.

        Args:
            sequence: a place where they differ; what lies before the lowest one seen counts as agreed.
            other: the hash there that is not ours; empty when the event itself is among `forks`.
        """
        entry, known = self._streams.get(stream), self.quarantined.get(stream)
        if entry is None or (known is not None and known.sequence < sequence):
            return
        agreed = max(0, min(sequence - 1, entry.head.sequence))
        hash_ = (hash_at(self._db, entry.number, agreed) if agreed else None) or NO_HASH
        self._db.execute(
            "INSERT OR REPLACE INTO quarantine VALUES(?,?,?,?,?)",
            (entry.number, agreed, hash_, other, now_us),
        )
        self.quarantined = {**self.quarantined, stream: Head(agreed, hash_)}
        if stream == self.current:
            self.current = None

    def _insert(self, event: Event, now_us: int) -> Logged:
        stream, sequence = event.header.stream, event.header.sequence
        entry = self._streams.get(stream)
        if entry is None:
            self._db.execute(
                "INSERT INTO streams(peer, partition, ordinal, random, head, head_hash) VALUES(?,?,?,?,?,?)",
                (stream.peer, stream.partition, stream.ordinal, stream.random, 0, NO_HASH),
            )
            entry = _Stream(self._db.last_insert_rowid(), Head(0, NO_HASH))
            self._streams[stream] = entry
            self._by_number[entry.number] = stream
        self._last_local += 1
        self._last_us = max(now_us, self._last_us + 1)
        self._db.execute(
            "INSERT INTO events VALUES(?,?,?,?,?,?,?,?)",
            (
                self._last_local,
                entry.number,
                sequence,
                event.header_bytes,
                event.salt,
                event.payload,
                event.hash,
                self._last_us,
            ),
        )
        entry.head = Head(sequence, event.hash)
        return Logged(event, self._last_local, entry.number, self._last_us)

    def write_heads(self, streams: set[StreamId]) -> None:
        """Store the heads of these streams; once per transaction, before it commits."""
        for stream in streams:
            entry = self._streams[stream]
            self._db.execute(
                "UPDATE streams SET head=?, head_hash=? WHERE stream_no=?",
                (entry.head.sequence, entry.head.hash, entry.number),
            )


# -- reading, on any connection


def read_segment(
    db: apsw.Connection, number: int, stream: StreamId, first: int, max_bytes: int
) -> Segment | None:
    """Return stored events of a stream from `first` on: about `max_bytes`, at least one if there is a sound one."""
    previous = NO_HASH
    if first > 1:
        found = hash_at(db, number, first - 1)
        if found is None:
            return None
        previous = found
    chained = previous
    events: list[tuple[bytes, bytes | None, bytes | None]] = []
    size = 0
    for header, salt, payload, hash_ in db.execute(
        f"SELECT {BYTES} FROM events WHERE stream_no=? AND sequence>=? ORDER BY sequence",  # noqa: S608
        (number, first),
    ):
        size += len(header) + len(payload or b"") + 32
        if events and size > max_bytes:
            break
        if flaw_of(header, salt, payload, chained, hash_) is not None:
            break  # what is damaged here is not handed on
        chained = hash_
        events.append((header, salt, payload))
    return Segment(stream, first, previous, tuple(events)) if events else None


def read_all(db: apsw.Connection, *, naming: str = "", absent: bool = False) -> Iterator[Logged]:
    """Yield the events of the log in order of arrival.

    Args:
        naming: only those with this kind, or by a rare chance these letters among the bytes, in their header;
            with `absent` only the others.

    Raises:
        Corrupted: an event's bytes do not fit its header.
    """
    for local, number, arrived_us, header, salt, payload, hash_ in db.execute(
        f"SELECT local, stream_no, arrived_us, {BYTES} FROM events"  # noqa: S608
        " WHERE (instr(header, ?)=0)=? ORDER BY local",
        (naming.encode(), absent),
    ):
        yield _logged(local, number, arrived_us, header, salt, payload, hash_)


def position_of(db: apsw.Connection, local: int) -> Position:
    """Return the place in its stream of the event at a place of arrival.

    Raises:
        Corrupted: it is not there.
    """
    row = db.execute(
        "SELECT s.peer, s.partition, s.ordinal, s.random, e.sequence FROM events e JOIN streams s USING(stream_no)"
        " WHERE e.local=?",
        (local,),
    ).fetchone()
    if row is None:
        raise Corrupted(f"event {local} is missing from the log; run `hyphae log verify`")
    return Position(StreamId(PeerId(row[0]), *row[1:4]), row[4])


def read_logged(db: apsw.Connection, local: int) -> Logged:
    """Return one event by its place of arrival.

    Raises:
        Corrupted: it is not there, or its bytes do not fit its hash.
    """
    row = db.execute(
        f"SELECT stream_no, arrived_us, {BYTES} FROM events WHERE local=?",  # noqa: S608
        (local,),
    ).fetchone()
    if row is None:
        raise Corrupted(f"event {local} is missing from the log; run `hyphae log verify`")
    return _logged(local, *row)


def _logged(
    local: int,
    number: int,
    arrived_us: int,
    header: bytes,
    salt: bytes | None,
    payload: bytes | None,
    hash_: bytes,
) -> Logged:
    try:
        event = restore(header, salt, payload, NO_HASH)
    except ProtocolError as error:
        raise Corrupted(f"event {local}: {error.message}; run `hyphae log verify`") from error
    return Logged(replace(event, hash=hash_), local, number, arrived_us)
