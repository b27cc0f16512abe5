"""What is wrong with a peer, in sentences for people: found at a start, met while running, or plain to see now.

Whatever can heal by itself is asked anew each time, so that a peer that is well again says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import apsw
import structlog

from mesh.ports import Head
from node import disk
from node.heads_file import RecordedHead
from node.log_verification import BadEvent, structure_flaw, unsound, verify_newest
from node.replica import Replica, retired_text
from node.sqlite_log import SqliteLog
from node.writer import Writer
from proto.ids import format_base32
from proto.streams import StreamId

_log = structlog.get_logger(__name__)

FORKS_SHOWN = 20
CHECKED_AT_START = 1_000  # events that arrived last; all of them take `hyphae log verify`


class Health:
    """The complaints of one peer.

    Args:
        data_dir: whose free space is watched.
        others: asked, part by part, what is wrong with them.
    """

    def __init__(self, data_dir: str, *others: Callable[[], str | None]) -> None:
        self._data_dir, self._others = data_dir, others
        self._lost: tuple[RecordedHead, int] | None = None
        self._damage: str | None = None

    # -- found

    def compare(self, recorded: RecordedHead | None, log: SqliteLog) -> None:
        """Compare what the heads file remembers of the own stream with what the log holds at a start."""
        held = 0 if recorded is None else log.vector().get(recorded.stream, 0)
        if recorded is not None and held < recorded.sequence:
            self._lost = recorded, held
            _log.error("own_events_lost", first=held + 1, last=recorded.sequence)

    def check_newest(self, db: apsw.Connection, log: SqliteLog) -> None:
        """Look at the records that were written last, and at the pages if some are lost: a disk may mix old and new."""
        flaw = None if self._lost is None else structure_flaw(db)
        bad = verify_newest(db, log.numbered(), CHECKED_AT_START)
        self.note_damage(bad or (None if flaw is None else unsound(flaw)))

    def note_damage(self, bad: BadEvent | str | None) -> None:
        """Take what a verification of the log found (an event, or what else is wrong), or that it found nothing."""
        self._damage = bad if isinstance(bad, str) else None
        if isinstance(bad, str):
            _log.error("database_unsound", why=bad)
        elif bad is not None:
            self._damage = (
                f"the log is damaged at sequence {bad.sequence} of epoch {bad.stream.ordinal}: {bad.why};"
                " what cannot be read is not served, the rest is. Run `hyphae log verify`"
            )
            _log.error("log_damaged", sequence=bad.sequence, why=bad.why)

    # -- asked

    def problems(self, writer: Writer, cluster: Mapping[str, Any] | None) -> list[str]:
        """Return all complaints; empty when all is well.

        Args:
            cluster: status of the mesh around this peer, or None without one.
        """
        found = (self._damage, self._still_lost(writer), writer.problem, writer.behind)
        out = [*_of_forks(writer.quarantined()), *(p for p in found if p is not None)]
        if disk.is_low(self._data_dir):
            out.append(f"the disk is nearly full: {disk.shown(self._data_dir)}; nothing more is stored")
        out += [trouble for ask in self._others if (trouble := ask()) is not None]
        out += _of_members(writer.replica)
        for urls in () if cluster is None else cluster["twins"]:
            out.append(
                f"another process runs as this peer{f' at {urls}' if urls else ''}: its data directory was copied,"
                " or a machine. Stop one of the two; for a second peer, start with an empty directory and --join"
            )
        if cluster is not None and not cluster["connected"]:
            out.append("NATS is down: other peers are not reached; storing and recalling go on")
        return out

    def _still_lost(self, writer: Writer) -> str | None:
        if self._lost is None:
            return None
        recorded, held = self._lost
        stream: StreamId = recorded.stream
        head = writer.heads().get(stream)
        now = held if head is None else head.sequence
        if now >= recorded.sequence:
            return None  # other peers have brought them back
        return (
            f"the disk lost own events {now + 1} to {recorded.sequence} of epoch {stream.ordinal};"
            " what other peers hold of them comes back by itself"
        )


def _of_forks(agreed: Mapping[StreamId, Head]) -> Iterator[str]:
    """Yield, loudly, whose history has two versions; both are kept, everything else goes on."""
    for stream, head in sorted(agreed.items())[:FORKS_SHOWN]:
        yield (
            f"two histories of epoch {stream.ordinal} of peer {format_base32(stream.peer)} differ after event"
            f" {head.sequence}: a process ran twice in one life (a copied machine), or a disk lied. What is held"
            " here stays, nothing further of that epoch is taken or handed on, everything else goes on. Find the"
            " second copy (hyphae peer list), stop it, and restart the peer: it goes on in a new epoch"
        )


def _of_members(replica: Replica) -> Iterator[str]:
    """Yield what is wrong with this peer's own membership, or with what is said about others'."""
    ended = replica.retired(replica.peer)
    if ended is not None:
        yield retired_text(ended).rstrip(".")
    count = replica.unbelieved_joinings()
    if count:
        yield (
            f"{count} event{'s say' if count > 1 else ' says'} that a peer has joined and lack"
            f"{'' if count > 1 else 's'} its signature or that of a member: ignored. Somebody who is no member writes"
            " to this mesh; give NATS other passwords"
        )
