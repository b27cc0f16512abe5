"""What scenarios need of a mesh: three peers, three NATS servers, and ways to hurt them.

Two implementations: `processes.ProcessCluster` and `containers.ContainerCluster`.  Scenarios know this only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

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

    def offers(self, fault: str) -> bool:
        """Return whether a fault can be done to it."""

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

    # -- disks and data directories

    def directory(self, peer: str) -> Path:
        """Return the data directory of a peer; its files may be changed while it does not run."""

    def starts(self, peer: str) -> str:
        """Start a peer that may refuse to; return what it says then, or nothing once it serves."""

    def fill(self, peer: str, how: str) -> None:
        """Let a peer that runs write nothing more.

        Args:
            how: "to the last byte", "to the watermark" or "every write fails".
        """

    def free(self, peer: str) -> None:
        """Let it write again."""

    def run_copy(self, peer: str, copy: Path) -> str:
        """Start a second process of a peer on a copy of its directory; return its address."""

    def end_copy(self, peer: str) -> None:
        """End the second process with SIGKILL."""

    def join_anew(self, peer: str) -> None:
        """Start a peer whose directory is empty as a new member, as the runbook says; return once it serves."""


@runtime_checkable
class FineCluster(Cluster, Protocol):
    """What can be done besides where peers are processes behind proxies.  `connect` undoes what is about links."""

    def arm(self, peer: str, instant: str) -> None:
        """Have a peer end itself with SIGKILL when it next comes to an instant of `aimed`."""

    def disarm(self, peer: str) -> str:
        """Return at which instant it did, empty for none; it does so no more."""

    def runs(self, member: str) -> bool:
        """Return whether its process is there."""

    def set_clock(self, peer: str, off_ms: int) -> None:
        """Let its wall clock be off from now on, over all its lives."""

    def stall(self, peers: Sequence[str], direction: str) -> None:
        """Let nothing through one way: `OUT` or `IN` of `tests.support.tcp_proxy`, as seen by the peers."""

    def slow(self, peers: Sequence[str], bytes_per_s: int) -> None:
        """Let what comes in to these peers trickle."""

    def reset(self, peers: Sequence[str], *, refuse: bool) -> None:
        """Reset their connections; refuse new ones if told so."""

    def cut_route(self, one: str, other: str) -> None:
        """Let nothing through between two servers; what they say to a third one passes."""

    def join_route(self, one: str, other: str) -> None:
        """Let it through again."""

    def admit(self) -> str:
        """Have a new peer join by an invitation; return its name once it is ready.

        Raises:
            AssertionError: it was not admitted; nothing of it runs.
        """

    def retire(self, peer: str) -> None:
        """End a membership as an operator does, by command, at any peer that runs.

        Raises:
            AssertionError: no peer did it.
        """

    def dismiss(self, peer: str) -> None:
        """End a peer that was admitted, for good."""
