"""The mesh around a peer, for tests of what its service asks of it: no process, no network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from proto.ids import PeerId
from proto.streams import StreamId


@dataclass
class ScriptedCluster:
    """A mesh around a peer that answers as it is told, at once, and notes what it was asked."""

    on: int = 1
    up: int = 3
    connected: bool = True
    asked: list[tuple[StreamId, int, int, float]] = field(default_factory=list)

    def status(self) -> Mapping[str, Any]:
        return {"connected": self.connected, "peers_up": self.up, "members": 3}

    def heard(self) -> Mapping[PeerId, Mapping[str, Any]]:
        return {}

    def urls(self) -> Sequence[str]:
        return ()

    def lacking(self) -> frozenset[PeerId]:
        return frozenset()

    def behind_since(self, monotonic_ms: int) -> Mapping[PeerId, bool]:
        return {}

    async def durable_on(self, stream: StreamId, sequence: int, wanted: int, timeout_s: float) -> int:
        self.asked.append((stream, sequence, wanted, timeout_s))
        return self.on
