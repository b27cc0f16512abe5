"""What the simulated world needs of one data directory and the process life on it.  Any log may stand in.

All methods are synchronous and take no time; the world decides when they are called and when a process dies
between two calls.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, Protocol

from mesh.ports import Applied, Head, Segment
from proto.ids import PeerId
from proto.streams import StreamId
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

    def clone(self, backup: Any) -> Site:
        """Return another directory of the same peer with the content of a backup, not started."""
        ...


class MemorySite:
    """A site on `MemoryLog`.

    Args:
        log_class: a planted bug may put another one here.
    """

    def __init__(
        self,
        peer: PeerId,
        *,
        payload_bytes: int = 20,
        log_class: type[MemoryLog] = MemoryLog,
        disk: MemoryDisk | None = None,
    ) -> None:
        self.peer = peer
        self._payload_bytes = payload_bytes
        self._log_class = log_class
        self._disk = disk or MemoryDisk()
        self._log: MemoryLog | None = None

    @property
    def log(self) -> MemoryLog:
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

    def staged(self) -> tuple[Segment, ...]:
        return self.log.staged()

    def sync(self) -> tuple[Segment, ...]:
        return self.log.sync()

    def backup(self) -> MemoryDisk:
        return self._disk.copy()

    def restore(self, backup: MemoryDisk) -> None:
        self._disk = backup.copy()

    def clone(self, backup: MemoryDisk) -> MemorySite:
        return MemorySite(
            self.peer, payload_bytes=self._payload_bytes, log_class=self._log_class, disk=backup.copy()
        )
