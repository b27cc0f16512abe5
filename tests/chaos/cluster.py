"""What scenarios need of a mesh: three peers, three NATS servers, and ways to hurt them.

Two implementations: `processes.ProcessCluster` and `containers.ContainerCluster`.  Scenarios know this only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

PEERS = ("peer-1", "peer-2", "peer-3")
SERVERS = ("nats-1", "nats-2", "nats-3")


class Cluster(Protocol):
    """A mesh that is up after `start`.  Members are named as in `PEERS` and `SERVERS`.

    Every harm is undone by its counterpart; doing either twice does no harm.
    """

    @property
    def description(self) -> str:
        """What it runs on, for the report."""

    def start(self) -> None:
        """Bring everything up and return when every peer serves."""

    def stop(self) -> None:
        """End the peers as an operator would, servers last; data stays."""

    def close(self) -> None:
        """Leave nothing behind, whatever state it is in."""

    def url(self, peer: str) -> str:
        """Return the address of a peer; it stays the same over all its lives."""

    def operator_key(self) -> str:
        """Return the bootstrap key of the operator."""

    def kill(self, members: Sequence[str]) -> None:
        """End them with SIGKILL, at the same moment."""

    def revive(self, members: Sequence[str]) -> None:
        """Start them again after `kill` or `end`; need not wait until they serve."""

    def end(self, member: str) -> None:
        """End one with SIGTERM and wait for it."""

    def pause(self, members: Sequence[str]) -> None:
        """Freeze them: their connections stay open and say nothing."""

    def resume(self, members: Sequence[str]) -> None:
        """Let them go on."""

    def disconnect(self, peers: Sequence[str]) -> None:
        """Let nothing through between these peers and the rest of the mesh; agents still reach them."""

    def connect(self, peers: Sequence[str]) -> None:
        """Let it through again."""

    def copy_log(self, peer: str, into: Path) -> None:
        """Copy the files of the log of a peer that does not run, as they lie there."""

    def said(self, peer: str) -> str:
        """Return what a peer wrote for its operator in all its lives."""

    def nats_url(self) -> str | None:
        """Return where gateways of this machine reach NATS, with their credentials; None where they do not."""

    def inspect(self, peer: str) -> Mapping[str, Any]:
        """Return, of a peer that was stopped: `ok` and `streams` of its log, `state_hash` of its fold."""
