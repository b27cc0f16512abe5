"""Everything that is folded from a log: the projections, and how an event changes them.

No thread, clock, socket or randomness.  The caller owns the transaction; what an event means for others that
came before it, or come after, is settled before the transaction commits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import apsw

from node import database
from node.beacon_index import BeaconIndex
from node.beacons_projection import BeaconsProjection
from node.cells_projection import CellChange, CellsProjection
from node.identity_projection import IdentityProjection
from node.inbox_projection import InboxProjection
from node.lexical_index import LexicalIndex
from node.log_clocks import latest_clocks
from node.matching import Coverages
from node.membership import Retired
from node.membership_projection import LATE, MembershipProjection
from node.readers_projection import ReadersProjection
from node.scenes_projection import ScenesProjection
from node.sqlite_log import Logged, SqliteLog, read_all, read_logged
from node.state_hash import state_hash
from node.unfolded import flaw_of, set_aside, take_known
from proto.errors import Corrupted, ProtocolError
from proto.ids import MeshId, PeerId
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
    decode_payload,
)
from proto.streams import Frontier, Position, StreamId, frontier_of

REBUILD_BATCH = 512


@dataclass(slots=True)
class Changes:
    """What a transaction changed, for everything that is derived outside the database."""

    events: list[Logged] = field(default_factory=list)
    cells: list[CellChange] = field(default_factory=list)
    superseded: list[int] = field(default_factory=list)
    keys: bool = False
    members: bool = False
    refolded: bool = False  # everything was folded anew, with new numbers: nothing derived holds any more


class Folding:
    """One directory's log and what it comes to.

    Args:
        db: the writer's connection.
        peer: this peer; mesh: its mesh.
        space: its embedding space.
    """

    def __init__(self, db: apsw.Connection, peer: PeerId, mesh: MeshId, space: str) -> None:
        self.db, self.peer, self.mesh, self.space = db, peer, mesh, space
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
        self._membership = MembershipProjection(self.db, self.log, self.mesh)
        self._membership.reload()
        self._beacons = BeaconsProjection(
            self.db, self.log, self._inbox, self.beacons, self.links, self.covers
        )
        self._beacons.reload()
        self._scenes = ScenesProjection(self.db)
        self.hlc, self._unseen_hlc = latest_clocks(self.db, self.peer)

    def frontier(self) -> Frontier:
        """Return the frontier of what this peer holds now."""
        return frontier_of(self.log.vector(), self.links)

    def unbelieved_joinings(self) -> int:
        """Return how many events claim that somebody has joined, and are not signed as that takes."""
        return self._membership.unbelieved

    def retired(self, peer: PeerId) -> Retired | None:
        """Return the end of a peer's membership, or None."""
        return self._membership.retired.get(peer)

    # -- folding

    def _take(self, logged: Logged, changes: Changes) -> None:
        changes.events.append(logged)
        self._fold(logged, changes)

    def _fold(self, logged: Logged, changes: Changes) -> None:
        kind = logged.event.header.kind
        if kind != PeerRetired.__name__ and not self._membership.counts(logged.event.header.position):
            set_aside(self.db, logged.local, kind, LATE)
            return
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
                self._membership.join(logged, payload)
                changes.members = True
            case PeerRetired():
                self._membership.retire(logged, payload)
                changes.members = True
            case SceneConsolidated():
                changes.superseded += self._scenes.consolidate(logged, payload)
            case _:  # a model without a fold is a defect that the tests over `MODELS` find
                set_aside(self.db, logged.local, type(payload).__name__, "no fold")

    def _settle(self, changes: Changes) -> None:
        if not changes.events:
            return
        if changes.members:
            self._count_again(changes)
        if not changes.refolded:
            self._inbox.settle(changes.events[-1].arrived_us)

    def _count_again(self, changes: Changes) -> None:
        """After a retirement: fold what counts now, and take back what does not, by folding all anew."""
        if self._membership.settle():
            self.log.write_heads({e.event.header.stream for e in changes.events})
            self._fold_all()
            changes.refolded = changes.keys = True
            return
        for logged in self._taken_out(self._membership.take_counting()):
            self._fold(logged, changes)

    def _fold_what_was_unknown(self) -> None:
        """Fold what an older version kept without knowing its kind, in one transaction."""
        changes = Changes()
        with self.db:
            for logged in self._taken_out(take_known(self.db)):
                self._take(logged, changes)
            self._settle(changes)

    def _taken_out(self, locals_: Sequence[int]) -> Iterator[Logged]:
        """Yield events that are set aside no more, whatever they say; a damaged one is set aside again."""
        for local in locals_:
            try:
                yield read_logged(self.db, local)
            except Corrupted as error:
                set_aside(self.db, local, "", error.message)

    # -- rebuilding

    def rebuild(self, progress: Callable[[int], None] = lambda _done: None) -> int:
        """Fold the whole log anew into empty projections, in one transaction.

        Returns:
            The number of events folded.

        Raises:
            Corrupted: an event's bytes do not fit its header; the projections are as before.
        """
        try:
            with self.db:
                done = self._fold_all(progress)
        finally:
            self.reload()
        return done

    def _fold_all(self, progress: Callable[[int], None] = lambda _done: None) -> int:
        """Fold the whole log into emptied projections, inside the caller's transaction; return its events.

        No number of a cell is given again: whoever found one before finds nothing by it now, never another cell.
        """
        last_no = self._cells.last_no
        database.drop_projections(self.db)
        self.lexical.clear()
        self.reload()
        self._cells.last_no = last_no
        for logged in read_all(self.db, naming=PeerRetired.__name__):
            self._foresee(logged)
        done, arrived_us, changes = 0, 0, Changes()
        for logged in self._cells_last():
            self._fold(logged, changes)
            done, arrived_us = done + 1, logged.arrived_us
            if done % REBUILD_BATCH == 0:
                self._inbox.settle(arrived_us)
                changes = Changes()
                progress(done)
        self._inbox.settle(arrived_us)
        progress(done)
        return done

    def _foresee(self, logged: Logged) -> None:
        """Know of a retirement before what it concerns is folded."""
        try:
            payload = decode_payload(logged.event.header.kind, logged.event.payload or b"")
        except ProtocolError:
            return
        if isinstance(payload, PeerRetired):
            self._membership.expect(logged, payload)

    def _cells_last(self) -> Iterator[Logged]:
        """Yield the whole log: in this order no cell is judged twice because a beacon comes after it."""
        yield from read_all(self.db, naming=CellStored.__name__, absent=True)
        yield from read_all(self.db, naming=CellStored.__name__)

    def state_hash(self) -> bytes:
        """Return a hash over everything folded, equal on all peers that hold equal streams.

        Without order of arrival, index bytes and values computed when read.
        """
        return state_hash(self.db)
