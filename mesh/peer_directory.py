"""Which peers can be asked, as heard in their digests, and in which order.  Pure; time is an argument.

Each asker keeps to one peer while that is well, so that it reads its own writes, and different askers keep
to different ones.  Source: rendezvous hashing (Thaler and Ravishankar, 1996).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from proto.ids import MeshId, PeerId, digest

FRESH_MS: Final = 5_000  # digests come every second
SUSPECT_MS: Final = 5_000
FORGET_MS: Final = 60_000
ENTRIES_MAX: Final = 4_096


@dataclass(slots=True)
class _Entry:
    heard_ms: int
    in_service: bool
    suspect_until_ms: int = 0


class PeerDirectory:
    """Peers by mesh."""

    def __init__(self) -> None:
        self._entries: dict[tuple[MeshId, PeerId], _Entry] = {}

    def heard(self, mesh: MeshId, peer: PeerId, *, in_service: bool, now_ms: int) -> None:
        """Note a digest.  A peer that did not answer stays suspect until its time is over."""
        entry = self._entries.get((mesh, peer))
        if entry is not None:
            entry.heard_ms, entry.in_service = now_ms, in_service
            return
        if len(self._entries) >= ENTRIES_MAX:
            self._entries = {k: e for k, e in self._entries.items() if now_ms - e.heard_ms < FORGET_MS}
        if len(self._entries) < ENTRIES_MAX:
            self._entries[mesh, peer] = _Entry(now_ms, in_service)

    def suspect(self, mesh: MeshId, peer: PeerId, now_ms: int) -> None:
        """Note that a peer did not answer: for five seconds it comes last."""
        entry = self._entries.get((mesh, peer))
        if entry is not None:
            entry.suspect_until_ms = now_ms + SUSPECT_MS

    def meshes(self, now_ms: int) -> list[MeshId]:
        """Return the meshes that were heard within a minute, sorted."""
        return sorted({mesh for (mesh, _), e in self._entries.items() if now_ms - e.heard_ms < FORGET_MS})

    def candidates(self, mesh: MeshId, asker: bytes, now_ms: int) -> list[PeerId]:
        """Return the peers heard within five seconds, best first.

        Those in service come before those that are not, and among them those that answered last time.
        """
        fresh = [
            (not entry.in_service, entry.suspect_until_ms > now_ms, digest("route", asker, peer), peer)
            for (its_mesh, peer), entry in self._entries.items()
            if its_mesh == mesh and now_ms - entry.heard_ms < FRESH_MS
        ]
        return [peer for *_, peer in sorted(fresh)]
