"""The synchronous heart of a peer: one transaction takes own drafts and foreign segments in, and folds them.

No thread, clock, socket or randomness of its own: time and random bytes are arguments, so that the same code
runs under the writer thread of a peer and in the simulation.  After a failed transaction nothing of it is
kept, in the database or in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import apsw

from mesh.ports import Segment
from node import database
from node.beacon_index import BeaconIndex
from node.beacons_projection import BeaconsProjection
from node.cells_projection import CellChange, CellsProjection
from node.identity_projection import IdentityProjection
from node.inbox_projection import InboxProjection
from node.lexical_index import LexicalIndex
from node.log_clocks import latest_clocks
from node.matching import Coverages
from node.readers_projection import ReadersProjection
from node.scenes_projection import ScenesProjection
from node.sqlite_log import Logged, SqliteLog, read_all
from node.state_hash import state_hash
from node.stored_events import read_stored
from node.unfolded import flaw_of, set_aside, take_known
from proto.clock import ZERO, observe, tick
from proto.errors import HyphaeError, ProtocolError
from proto.events import SALT_BYTES
from proto.ids import NO_TENANT, AgentId, MeshId, PeerId, TenantId
from proto.payloads import (
    BeaconPlaced,
    BeaconsRenewed,
    BeaconWithdrawn,
    CellStored,
    EpochOpened,
    KeyIssued,
    KeyRevoked,
    PageListed,
    Payload,
    PeerJoined,
    PeerRetired,
    SceneConsolidated,
    SessionClosed,
    SessionOpened,
    WireFrontier,
    decode_payload,
    encode_payload,
    pack_frontier,
)
from proto.streams import Frontier, Position, StreamId, frontier_of

REBUILD_BATCH = 512


@dataclass(frozen=True, slots=True)
class Draft:
    """An own event before it has a place.

    Args:
        build: given the frontier of what this peer holds at that moment, returns the payload.
    """

    tenant: TenantId
    actor: AgentId
    build: Callable[[WireFrontier], Payload]

    @classmethod
    def of(cls, tenant: TenantId, actor: AgentId, payload: Payload) -> Draft:
        """Return the draft of a payload that does not depend on the frontier."""
        return cls(tenant, actor, lambda _frontier: payload)


@dataclass(slots=True)
class Changes:
    """What a transaction changed, for everything that is derived outside the database."""

    events: list[Logged] = field(default_factory=list)
    cells: list[CellChange] = field(default_factory=list)
    superseded: list[int] = field(default_factory=list)
    keys: bool = False
    members: bool = False


@dataclass(slots=True)
class Written:
    """The outcome of one transaction.

    Args:
        own: per draft, in order, its event or the error that kept it out.
        forks: places where a received segment contradicts the log.
    """

    own: list[Logged | HyphaeError]
    opened: list[Logged]
    changes: Changes
    forks: list[tuple[StreamId, int]]
    refused: int = 0


class Replica:
    """One data directory's log and everything folded from it.

    Args:
        db: the writer's connection.
        peer: this peer; mesh: its mesh.
        space: its embedding space.
        random_bytes: source of epochs and salts.
    """

    def __init__(
        self,
        db: apsw.Connection,
        peer: PeerId,
        mesh: MeshId,
        space: str,
        random_bytes: Callable[[int], bytes],
        version: str = "",
    ) -> None:
        self.db, self.peer, self.mesh, self.space = db, peer, mesh, space
        self._random, self._version = random_bytes, version
        self._epoch_random = random_bytes(8)
        self.log = SqliteLog(db, peer)
        self.lexical = LexicalIndex(db)
        self.reload()
        self._fold_what_was_unknown()

    def reload(self) -> None:
        """Build all memory from the database: at start and after a transaction that failed."""
        self.log.reload()
        self.lexical.reload()
        self.links: dict[StreamId, Position | None] = {}
        self.covers = Coverages(self.links)
        self.beacons = BeaconIndex()
        self._cells = CellsProjection(self.db, self.lexical, self.space)
        self._inbox = InboxProjection(self.db, self.beacons, self.covers)
        self._readers = ReadersProjection(self.db)
        self._identity = IdentityProjection(self.db, self.mesh)
        self._beacons = BeaconsProjection(
            self.db, self.log, self._inbox, self.beacons, self.links, self.covers
        )
        self._beacons.reload()
        self._scenes = ScenesProjection(self.db)
        self.hlc, self._unseen_hlc = latest_clocks(self.db, self.peer)

    def frontier(self) -> Frontier:
        """Return the frontier of what this peer holds now."""
        return frontier_of(self.log.vector(), self.links)

    # -- writing

    def write(self, drafts: Sequence[Draft], segments: Sequence[Segment], now_us: int) -> Written:
        """Append own drafts and keep what extends foreign streams, in one durable transaction.

        Raises:
            apsw.Error: the database refused; nothing was kept and memory was rebuilt.
        """
        written = Written([], [], Changes(), [])
        self.hlc = observe(self.hlc, self._unseen_hlc, now_us // 1000)  # seen in an earlier process life
        self._unseen_hlc = ZERO
        try:
            with self.db:
                for segment in segments:
                    self._receive(segment, now_us, written)
                for draft in drafts:
                    self._append(draft, now_us, written)
                self._settle(written.changes)
                self.log.write_heads({e.event.header.stream for e in written.changes.events})
        except BaseException:
            self.reload()
            raise
        return written

    def _receive(self, segment: Segment, now_us: int, written: Written) -> None:
        try:
            kept, fork = self.log.extend(segment, now_us)
        except ProtocolError:
            written.refused += 1
            return
        if fork is not None:
            written.forks.append(fork)
        for logged in kept:
            self.hlc = observe(self.hlc, logged.event.header.hlc, now_us // 1000)
            self._fold(logged, written.changes)

    def _append(self, draft: Draft, now_us: int, written: Written) -> None:
        stream = self.log.current or self._open_epoch(now_us, written)
        try:
            payload = draft.build(pack_frontier(self.frontier()))
            data = encode_payload(payload)
            logged = self._put(stream, type(payload).__name__, draft.tenant, draft.actor, data, now_us)
        except HyphaeError as error:
            written.own.append(error)
            return
        written.own.append(logged)
        self._fold(logged, written.changes)

    def _open_epoch(self, now_us: int, written: Written) -> StreamId:
        """Mint the epoch of this process life with its first event."""
        newest = self.log.newest_own()
        ordinal = 0 if newest is None else newest.ordinal + 1
        stream = StreamId(self.peer, 0, ordinal, self._epoch_random)
        previous, previous_hash = None, b""
        if newest is not None:
            head = self.log.heads()[newest]
            previous = pack_frontier((Position(newest, head.sequence),))[0]
            previous_hash = head.hash
        payload = EpochOpened(previous=previous, previous_hash=previous_hash, version=self._version)
        data = encode_payload(payload)
        logged = self._put(stream, "EpochOpened", NO_TENANT, AgentId(bytes(16)), data, now_us)
        written.opened.append(logged)
        self._fold(logged, written.changes)
        return stream

    def _put(
        self, stream: StreamId, kind: str, tenant: TenantId, actor: AgentId, data: bytes, now_us: int
    ) -> Logged:
        hlc = tick(self.hlc, now_us // 1000)
        salt = self._random(SALT_BYTES)
        logged = self.log.append(stream, hlc, kind, tenant, actor, data, salt, now_us)
        self.hlc = hlc
        return logged

    # -- folding

    def _fold(self, logged: Logged, changes: Changes) -> None:
        changes.events.append(logged)
        kind = logged.event.header.kind
        try:
            payload = decode_payload(kind, logged.event.payload) if logged.event.payload is not None else None
        except ProtocolError as error:
            set_aside(self.db, logged.local, kind, error.message)  # kept and forwarded, never believed
            return
        flaw = flaw_of(logged, payload)
        if payload is None or flaw is not None:
            set_aside(self.db, logged.local, kind, flaw or "")
        elif isinstance(payload, CellStored):
            judged, cells, hidden = self._cells.store(logged, payload)
            self._identity.know_agent(logged.event.header.tenant, payload.agent)
            changes.cells += cells
            changes.superseded += hidden
            self._inbox.add_cell(judged, logged.arrived_us)
        elif isinstance(payload, PageListed):
            self._readers.list_page(logged, payload)
        else:
            self._fold_rare(logged, payload, changes)

    def _fold_rare(self, logged: Logged, payload: Payload, changes: Changes) -> None:
        match payload:
            case EpochOpened():
                self._beacons.link(logged, payload)
            case BeaconPlaced():
                self._identity.know_agent(logged.event.header.tenant, payload.agent)
                self._beacons.place(logged, payload)
            case BeaconWithdrawn():
                self._beacons.withdraw(logged, payload)
            case BeaconsRenewed():
                self._beacons.renew(payload)
            case SessionOpened():
                self._identity.know_agent(logged.event.header.tenant, payload.agent)
                self._readers.open_session(logged, payload)
            case SessionClosed():
                self._readers.close_session(logged, payload)
            case KeyIssued():
                self._identity.issue(logged, payload)
                changes.keys = True
            case KeyRevoked():
                self._identity.revoke(logged, payload)
                changes.keys = True
            case PeerJoined():
                self._identity.join(logged, payload)
                changes.members = True
            case PeerRetired():
                self._identity.retire(logged, payload)
                changes.members = True
            case SceneConsolidated():
                changes.superseded += self._scenes.consolidate(logged, payload)
            case _:  # a model without a fold is a defect that the tests over `MODELS` find
                set_aside(self.db, logged.local, type(payload).__name__, "no fold")

    def _settle(self, changes: Changes) -> None:
        if changes.events:
            self._inbox.settle(changes.events[-1].arrived_us)

    def _fold_what_was_unknown(self) -> None:
        """Fold what an older version kept without knowing its kind, in one transaction."""
        changes = Changes()
        with self.db:
            for local in take_known(self.db):
                stored = read_stored(self.db, local)
                if stored is not None:
                    self._fold(stored.logged, changes)
            self._settle(changes)

    # -- rebuilding

    def rebuild(self, progress: Callable[[int], None] = lambda _done: None) -> int:
        """Fold the whole log anew into empty projections, in one transaction.

        Returns:
            The number of events folded.

        Raises:
            Corrupted: an event's bytes do not fit its header; the projections are as before.
        """
        done, changes = 0, Changes()
        try:
            with self.db:
                database.drop_projections(self.db)
                self.lexical.clear()
                self.reload()
                for logged in self._cells_last():
                    self._fold(logged, changes)
                    done += 1
                    if done % REBUILD_BATCH == 0:
                        self._settle(changes)
                        changes = Changes()
                        progress(done)
                self._settle(changes)
        finally:
            self.reload()
        progress(done)
        return done

    def _cells_last(self) -> Iterator[Logged]:
        """Yield the whole log: in this order no cell is judged twice because a beacon comes after it."""
        yield from read_all(self.db, naming=CellStored.__name__, absent=True)
        yield from read_all(self.db, naming=CellStored.__name__)

    def state_hash(self) -> bytes:
        """Return a hash over everything folded, equal on all peers that hold equal streams.

        Without order of arrival, index bytes and values computed when read.
        """
        return state_hash(self.db)
