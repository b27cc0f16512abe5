"""Beacons: the fold of placements, withdrawals and renewals, in the database and in memory.

What must be judged again because a beacon or a link arrived late is judged here, through the inbox
projection.  Runs on the writer's connection inside its transaction.
"""

from __future__ import annotations

import apsw

from node import database
from node.beacon_index import BeaconIndex
from node.inbox_projection import InboxProjection
from node.matching import Beacon, Coverages, Filters, Placement, names_epoch_from
from node.sqlite_log import Logged, SqliteLog, read_logged
from proto.codec import decode
from proto.ids import AgentId, BeaconId, agent_id
from proto.payloads import (
    BeaconPlaced,
    BeaconsRenewed,
    BeaconWithdrawn,
    EpochOpened,
    decode_payload,
    unpack_frontier,
    unpack_position,
)
from proto.streams import Frontier, Position, StreamId


class BeaconsProjection:
    """Writes `placements`, `withdrawals`, `renewals`, `links`; owns the `BeaconIndex`.

    Args:
        links: epoch -> what its EpochOpened names; shared with `covers`, filled here.
    """

    def __init__(
        self,
        db: apsw.Connection,
        log: SqliteLog,
        inbox: InboxProjection,
        beacons: BeaconIndex,
        links: dict[StreamId, Position | None],
        covers: Coverages,
    ) -> None:
        self._db, self._log, self._inbox = db, log, inbox
        self._beacons, self._links, self._covers = beacons, links, covers

    def reload(self) -> None:
        """Build the state in memory from the database; call once, on empty structures."""
        for number, peer, partition, ordinal, random, sequence in database.rows(
            self._db, "SELECT stream_no, peer, partition, ordinal, random, sequence FROM links"
        ):
            linked = None if peer is None else Position(StreamId(peer, partition, ordinal, random), sequence)
            self._links[self._log.stream_of(number)] = linked
        for (local,) in database.rows(self._db, "SELECT local FROM placements ORDER BY local"):
            logged = read_logged(self._db, local)
            payload = decode_payload("BeaconPlaced", logged.event.payload or b"")
            assert isinstance(payload, BeaconPlaced)
            self._remember(logged, payload)
        for local, beacon in database.rows(self._db, "SELECT local, beacon FROM withdrawals"):
            withdrawn = decode_payload("BeaconWithdrawn", read_logged(self._db, local).event.payload or b"")
            held = self._beacons.get(beacon)
            if isinstance(withdrawn, BeaconWithdrawn) and held is not None:
                held.withdrawals.append(unpack_frontier(withdrawn.frontier))
        for beacon, expires_ms in database.rows(self._db, "SELECT beacon, expires_ms FROM renewals"):
            held = self._beacons.get(beacon)
            if held is not None:
                held.renewed_ms = expires_ms

    # -- folding

    def place(self, logged: Logged, payload: BeaconPlaced) -> None:
        header = logged.event.header
        self._db.execute(
            "INSERT INTO placements VALUES(?,?,?,?)",
            (logged.local, payload.beacon, header.tenant, agent_id(header.tenant, payload.agent)),
        )
        beacon, placement = self._remember(logged, payload)
        if len(beacon.placements) == 1:
            self._catch_up(beacon)  # a withdrawal or renewal may have come first
        self._judge_beyond([placement.frontier], logged)

    def withdraw(self, logged: Logged, payload: BeaconWithdrawn) -> None:
        self._db.execute("INSERT INTO withdrawals VALUES(?,?)", (logged.local, payload.beacon))
        beacon = self._beacons.get(BeaconId(payload.beacon))
        if beacon is not None:
            frontier = unpack_frontier(payload.frontier)
            beacon.withdrawals.append(frontier)
            self._judge_beyond([frontier], logged)

    def renew(self, logged: Logged, payload: BeaconsRenewed) -> None:
        for beacon_id in payload.beacons:
            self._db.execute(
                "INSERT INTO renewals VALUES(?1,?2)"
                " ON CONFLICT(beacon) DO UPDATE SET expires_ms=max(expires_ms, ?2)",
                (beacon_id, payload.expires_ms),
            )
            beacon = self._beacons.get(BeaconId(beacon_id))
            if beacon is not None and payload.expires_ms > beacon.renewed_ms:
                before = min(beacon.expires_ms(p) for p in beacon.placements)
                beacon.renewed_ms = payload.expires_ms
                late = database.rows(
                    self._db,
                    "SELECT cell_no FROM cells WHERE tenant_id=? AND wall_ms>=?",
                    beacon.tenant,
                    before,
                )
                self._inbox.judge_cells_again((c for (c,) in late), logged.arrived_us)

    def link(self, logged: Logged, payload: EpochOpened) -> None:
        stream = logged.event.header.stream
        linked = None if payload.previous is None else unpack_position(payload.previous)
        values = (*linked.stream, linked.sequence) if linked else (None,) * 5
        self._db.execute("INSERT OR IGNORE INTO links VALUES(?,?,?,?,?,?)", (logged.stream_no, *values))
        self._links[stream] = linked
        frontiers = [f for b in self._beacons.all() for f in _frontiers(b)]
        if linked is not None and names_epoch_from(frontiers, stream):
            self._covers.forget()
            self._judge_all(logged)

    # -- judging again

    def _judge_beyond(self, frontiers: list[Frontier], logged: Logged) -> None:
        """Judge the cells that lie beyond any of these frontiers."""
        found: set[int] = set()
        for frontier in frontiers:
            covered = self._covers.of(frontier)
            for stream, held in self._log.vector().items():
                upto = covered.get(stream, 0)
                if upto < held:
                    found.update(
                        c
                        for (c,) in database.rows(
                            self._db,
                            "SELECT cell_no FROM cell_events WHERE stream_no=? AND sequence>? AND local<?",
                            self._log.number_of(stream),
                            upto,
                            logged.local,
                        )
                    )
        self._inbox.judge_cells_again(found, logged.arrived_us)

    def _judge_all(self, logged: Logged) -> None:
        cells = database.rows(self._db, "SELECT cell_no FROM cell_events WHERE local<?", logged.local)
        self._inbox.judge_cells_again((c for (c,) in cells), logged.arrived_us)

    # -- memory

    def _remember(self, logged: Logged, payload: BeaconPlaced) -> tuple[Beacon, Placement]:
        header = logged.event.header
        placement = Placement(
            logged.local,
            header.position,
            header.hlc,
            payload.threshold,
            payload.expires_ms,
            payload.include_own,
            payload.strict,
            payload.owner,
            None if payload.readable is None else frozenset(payload.readable),
            unpack_frontier(payload.frontier),
        )
        beacon = self._beacons.get(BeaconId(payload.beacon))
        if beacon is not None:
            beacon.placements.append(placement)
            self._beacons.refresh(beacon)
            return beacon, placement
        filters = Filters(
            payload.project,
            frozenset(payload.cell_types),
            frozenset(payload.layers),
            payload.min_salience,
        )
        agent = AgentId(agent_id(header.tenant, payload.agent))
        beacon = Beacon(
            BeaconId(payload.beacon),
            header.tenant,
            agent,
            payload.agent,
            payload.interest,
            filters,
            [placement],
        )
        self._beacons.add(beacon, payload.vector)
        return beacon, placement

    def _catch_up(self, beacon: Beacon) -> None:
        for (local,) in database.rows(
            self._db, "SELECT local FROM withdrawals WHERE beacon=?", beacon.beacon
        ):
            payload = decode_payload("BeaconWithdrawn", read_logged(self._db, local).event.payload or b"")
            assert isinstance(payload, BeaconWithdrawn)
            beacon.withdrawals.append(unpack_frontier(payload.frontier))
        renewed = database.value(self._db, "SELECT expires_ms FROM renewals WHERE beacon=?", beacon.beacon)
        beacon.renewed_ms = renewed or 0


def _frontiers(beacon: Beacon) -> list[Frontier]:
    return [p.frontier for p in beacon.placements] + beacon.withdrawals


def decode_frontier(data: bytes) -> Frontier:
    """Return a frontier stored as bytes."""
    return unpack_frontier(decode(data))
