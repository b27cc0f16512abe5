"""What the simulated world needs of one data directory and the process life on it.  Any log may stand in.

All methods are synchronous and take no time; the world decides when they are called and when a process dies
between two calls.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol

from mesh.ports import Applied, Head, Segment
from proto.codec import decode, encode
from proto.events import chain_hash
from proto.ids import PeerId
from proto.streams import Position, StreamId
from tests.support.memory_log import MemoryDisk, MemoryLog


class Site(Protocol):
    """One data directory."""

    peer: PeerId

    def start(self, seed: int) -> None:
        """Begin a process life on what is durable: a new epoch, nothing staged."""
        ...

    def crash(self) -> None:
        """End the process life; what was appended and not synced is gone."""
        ...

    def heads(self) -> dict[StreamId, Head]:
        """Return the durable heads."""
        ...

    def read(self, stream: StreamId, first: int, max_bytes: int) -> Segment | None:
        """Return durable events, as `EventLog.read`."""
        ...

    def apply(self, segments: Sequence[Segment]) -> Applied:
        """Keep received events durably, as `EventLog.apply`."""
        ...

    def append(self) -> None:
        """Stage an own event."""
        ...

    def staged(self) -> tuple[Segment, ...]:
        """Return what `sync` would make durable."""
        ...

    def sync(self) -> tuple[Segment, ...]:
        """Group commit: make what is staged durable and return it."""
        ...

    def backup(self) -> Any:
        """Return a copy of what is durable."""
        ...

    def restore(self, backup: Any) -> None:
        """Replace what is durable by a backup.  Only between `crash` and `start`."""
        ...

    def blank(self) -> Any:
        """Return the backup of an empty directory."""
        ...

    def clone(self, backup: Any) -> Site:
        """Return another directory of the same peer with the content of a backup, not started."""
        ...


class MixedLog(MemoryLog):
    """Writes some headers as another version might: other bytes that say the same.

    Hashes cover the bytes that came, so nobody may write them anew in its own way.
    """

    foreign = 0

    def append(self) -> Position:
        position = super().append()
        event = self._staged[-1]
        if event.hash[0] % 8 == 0 and event.header.sequence > 1:
            self.foreign += 1
            held = self.disk.streams.get(self.stream, [])
            before = [*held[-1:], *self._staged][-2]
            data = _widely(decode(event.header_bytes))
            self._staged[-1] = replace(event, header_bytes=data, hash=chain_hash(before.hash, data))
        return position


def _widely(fields: Sequence[Any]) -> bytes:
    """Return the msgpack array of a header, its sequence in nine bytes whatever its value."""
    sequence = b"\xcf" + fields[5].to_bytes(8, "big")
    return bytes([0x90 + len(fields)]) + b"".join(
        sequence if place == 5 else encode(value) for place, value in enumerate(fields)
    )


class MemorySite:
    """A site on `MixedLog`.

    Args:
        log_class: a planted bug may put another one here.
        counts: of situations.
    """

    def __init__(
        self,
        peer: PeerId,
        *,
        payload_bytes: int = 20,
        log_class: type[MixedLog] = MixedLog,
        disk: MemoryDisk | None = None,
        counts: Counter[str] | None = None,
    ) -> None:
        self.peer = peer
        self._payload_bytes = payload_bytes
        self._log_class = log_class
        self._disk = disk or MemoryDisk()
        self._log: MixedLog | None = None
        self._counts = Counter() if counts is None else counts

    @property
    def log(self) -> MixedLog:
        assert self._log is not None, "the process is not running"
        return self._log

    def start(self, seed: int) -> None:
        self._log = self._log_class(
            self.peer, self._disk, random.Random(seed), payload_bytes=self._payload_bytes
        )

    def crash(self) -> None:
        self._log = None

    def heads(self) -> dict[StreamId, Head]:
        return self._disk.heads()

    def read(self, stream: StreamId, first: int, max_bytes: int) -> Segment | None:
        return self._disk.read(stream, first, max_bytes)

    def apply(self, segments: Sequence[Segment]) -> Applied:
        return self.log.apply_now(segments)

    def append(self) -> None:
        self.log.append()
        self._counts["headers of another version"] += self.log.foreign
        self.log.foreign = 0

    def staged(self) -> tuple[Segment, ...]:
        return self.log.staged()

    def sync(self) -> tuple[Segment, ...]:
        return self.log.sync()

    def backup(self) -> MemoryDisk:
        return self._disk.copy()

    def restore(self, backup: MemoryDisk) -> None:
        self._disk = backup.copy()

    def blank(self) -> MemoryDisk:
        return MemoryDisk()

    def clone(self, backup: MemoryDisk) -> MemorySite:
        return MemorySite(
            self.peer,
            payload_bytes=self._payload_bytes,
            log_class=self._log_class,
            disk=backup.copy(),
            counts=self._counts,
        )
