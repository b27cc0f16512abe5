"""The own head outside SQLite: two checksummed slots in a preallocated file, overwritten in turn.

SQLite drops a damaged tail of its write-ahead log without a word; this file remembers how far the own stream
had come, so that a loss is seen at the next start.  Overwriting in place costs one fdatasync and never
changes the file's size (measured elsewhere: 0.16 ms, against 4 ms for an append).
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from proto.codec import decode, encode
from proto.errors import ProtocolError
from proto.ids import PeerId
from proto.streams import StreamId

SLOT_BYTES = 512
_MAGIC = b"HYH1"
_SUM = 32


@dataclass(frozen=True, slots=True)
class RecordedHead:
    """The last own event that a group commit made durable."""

    stream: StreamId
    sequence: int
    hash: bytes


class HeadsFile:
    """Owns one file; used by the writer thread only.

    Args:
        path: created with mode 0600 when absent.

    Raises:
        OSError: the file cannot be created or opened; nothing else changed.
    """

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        if os.fstat(self._fd).st_size < 2 * SLOT_BYTES:
            os.pwrite(self._fd, bytes(2 * SLOT_BYTES), 0)
            os.fsync(self._fd)
        newest = _newest(self._fd)
        self._turn = newest[0] if newest else 0
        self.recorded = newest[1] if newest else None

    def record(self, head: RecordedHead) -> None:
        """Overwrite the older slot and flush it to disk."""
        turn = self._turn + 1
        s = head.stream
        body = encode((turn, s.peer, s.partition, s.ordinal, s.random, head.sequence, head.hash))
        slot = _MAGIC + len(body).to_bytes(2, "big") + body
        slot += hashlib.sha256(slot).digest()
        os.pwrite(self._fd, slot.ljust(SLOT_BYTES, b"\0"), (turn % 2) * SLOT_BYTES)
        os.fdatasync(self._fd) if hasattr(os, "fdatasync") else os.fsync(self._fd)
        self._turn, self.recorded = turn, head

    def close(self) -> None:
        os.close(self._fd)


def recorded_in(path: Path) -> RecordedHead | None:
    """Return what a heads file remembers, without writing to it; None when it is absent or says nothing."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        newest = _newest(fd)
    finally:
        os.close(fd)
    return newest[1] if newest else None


def _newest(fd: int) -> tuple[int, RecordedHead] | None:
    slots = [s for s in (_read(fd, 0), _read(fd, 1)) if s is not None]
    return max(slots, key=lambda pair: pair[0], default=None)


def _read(fd: int, index: int) -> tuple[int, RecordedHead] | None:
    slot = os.pread(fd, SLOT_BYTES, index * SLOT_BYTES)
    if slot[:4] != _MAGIC:
        return None
    end = 6 + int.from_bytes(slot[4:6], "big")
    if hashlib.sha256(slot[:end]).digest() != slot[end : end + _SUM]:
        return None
    try:
        turn, peer, partition, ordinal, random, sequence, hash_ = decode(slot[6:end])
    except (ProtocolError, ValueError):
        return None
    stream = StreamId(PeerId(peer), partition, ordinal, random)
    return turn, RecordedHead(stream, sequence, hash_)
