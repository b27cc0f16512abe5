"""What every operation of a peer can reach, gathered once by the composition root."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from node.commit_signal import CommitSignal
from node.embedding import Embedder
from node.log_verification import BadEvent
from node.loop_watch import LoopWatch
from node.principals import KeyRing, Principal
from node.readers import ReaderMemory
from node.reading import ReadPool
from node.retrieval import Retrieval
from node.service.bounds import Bounds
from node.writer import Writer
from proto.ids import MeshId, PeerId
from proto.messages import Request
from proto.streams import Frontier, Links, StreamId, coverage


class Cluster(Protocol):
    """What an operation may ask about the mesh around this peer."""

    def status(self) -> Mapping[str, Any]:
        """Return {connected, peers_up, members, twins}."""
        ...

    def heard(self) -> Mapping[PeerId, Mapping[str, Any]]:
        """Return what the newest digest of each other peer said."""
        ...

    def urls(self) -> Sequence[str]:
        """Return where agents reach this peer."""
        ...

    async def durable_on(self, stream: StreamId, sequence: int, wanted: int, timeout_s: float) -> int:
        """Return how many members hold an event durably, once it is `wanted` or the time is up."""
        ...

    def lacking(self) -> frozenset[PeerId]:
        """Return the peers of whose streams somebody who is heard holds more than is held here."""
        ...

    def behind_since(self, monotonic_ms: int) -> Mapping[PeerId, bool]:
        """Return the other members that may have held something at that moment that could be had and is not here,
        and whether they are heard.
        """
        ...


@dataclass(slots=True)
class PeerContext:
    """The parts of a running peer.

    Args:
        now_us: wall clock, microseconds since 1970.
        random_bytes: source of ids.
        seed: of the peer's own Ed25519 key.
        nats_url: with the credentials of a peer, for invitations; None without NATS.
        cluster: None while the peer runs without NATS.
        problems: asks every part what is wrong with it; empty when all is well.
        note_damage: told what a verification of the whole log found: an event, or in words what else is wrong.
        stop: ends the process, cleanly.
        bounds: what this peer admits.
        write_concern: members that must hold a store durably; 0 to decide by how many there are.
        member_count: how many members the mesh has, this peer included.
        count_wait: told, of each store that waited for other members, the seconds and whether it fell short.
        watch: how late the event loop runs.
    """

    peer: PeerId
    mesh: MeshId
    name: str
    version: str
    data_dir: str
    seed: bytes
    writer: Writer
    pool: ReadPool
    embedder: Embedder
    retrieval: Retrieval
    keys: KeyRing
    now_us: Callable[[], int]
    random_bytes: Callable[[int], bytes]
    nats_url: str | None = None
    cluster: Cluster | None = None
    problems: Callable[[], list[str]] = list
    note_damage: Callable[[BadEvent | str | None], None] = lambda _bad: None
    stop: Callable[[], None] = lambda: None
    started_s: float = 0.0
    signal: CommitSignal | None = None
    renewals_checked_ms: dict[bytes, int] = field(default_factory=dict)
    readers: ReaderMemory = field(default_factory=ReaderMemory)
    bounds: Bounds = field(default_factory=Bounds)
    write_concern: int = 0
    member_count: Callable[[], int] = lambda: 1
    count_wait: Callable[[float, bool], None] = lambda _seconds, _short: None
    watch: LoopWatch = field(default_factory=LoopWatch)

    @property
    def now_ms(self) -> int:
        return self.now_us() // 1000

    def links(self) -> Links:
        return self.writer.replica.links

    def covered(self, frontier: Frontier) -> dict[StreamId, int]:
        """Return what lies before a frontier, by the links known now."""
        return coverage(frontier, self.links())


@dataclass(frozen=True, slots=True)
class Call:
    """One authenticated call with checked arguments."""

    principal: Principal
    args: Mapping[str, Any]
    request: Request
