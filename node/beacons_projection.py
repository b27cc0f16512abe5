"""Beacons: the fold of placements, withdrawals and renewals, in the database and in memory.

What must be judged again because a beacon or a link arrived late is found here and judged by the inbox
projection.  Runs on the writer's connection inside its transaction.
"""

from __future__ import annotations

from collections.abc import Mapping

import apsw

from node import database
from node.beacon_index import BeaconIndex, is_usable, space_of
from node.inbox_projection import InboxProjection
from node.matching import INTEREST_IN_ALL, Beacon, Coverages, Filters, Placement, names_epoch_from
from node.sqlite_log import Logged, SqliteLog
from node.stored_events import read_stored
from proto.codec import decode
from proto.ids import AgentId, BeaconId, agent_id
from proto.payloads import (
    BeaconPlaced,
    BeaconsRenewed,
    BeaconWithdrawn,
    EpochOpened,
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
            placed = read_stored(self._db, local)
            if placed is not None and isinstance(placed.payload, BeaconPlaced):
                self._remember(placed.logged, placed.payload)
        for beacon in self._beacons.all():
            self._read_withdrawals(beacon)
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
        beacon = self._remember(logged, payload)
        if len(beacon.placements) == 1:
            self._catch_up(beacon)  # a withdrawal or renewal may have come first
        self._judge_beyond(beacon.placements[-1].frontier)

    def withdraw(self, logged: Logged, payload: BeaconWithdrawn) -> None:
        self._db.execute("INSERT INTO withdrawals VALUES(?,?)", (logged.local, payload.beacon))
        beacon = self._beacons.get(BeaconId(payload.beacon))
        if beacon is not None:
            frontier = unpack_frontier(payload.frontier)
            beacon.withdrawals.append(frontier)
            self._judge_beyond(frontier)

    def renew(self, payload: BeaconsRenewed) -> None:
        for beacon_id in payload.beacons:
            self._db.execute(
                "INSERT INTO renewals VALUES(?1,?2)"
                " ON CONFLICT(beacon) DO UPDATE SET expires_ms=max(expires_ms, ?2)",
                (beacon_id, payload.expires_ms),
            )
            beacon = self._beacons.get(BeaconId(beacon_id))
            if beacon is not None and payload.expires_ms > beacon.renewed_ms:
                before_ms = min(beacon.expires_ms(p) for p in beacon.placements)
                beacon.renewed_ms = payload.expires_ms
                self._judge(
                    "SELECT cell_no FROM cell_events WHERE tenant_id=? AND wall_ms>=? AND wall_ms<?",
                    beacon.tenant,
                    before_ms,
                    payload.expires_ms,
                )

    def link(self, logged: Logged, payload: EpochOpened) -> None:
        """Remember what an epoch follows; more may lie before the frontiers that name it or a later one."""
        stream = logged.event.header.stream
        linked = None if payload.previous is None else unpack_position(payload.previous)
        values = (*linked.stream, linked.sequence) if linked else (None,) * 5
        self._db.execute("INSERT INTO links VALUES(?,?,?,?,?,?)", (logged.stream_no, *values))
        named = {
            frontier: self._covers.of(frontier)
            for beacon in self._beacons.all()
            for frontier in _frontiers(beacon)
            if names_epoch_from(frontier, stream)
        }
        self._links[stream] = linked
        if named and linked is not None:
            self._covers.forget()
            self._judge_covered(named)

    # -- judging again

    def _judge_beyond(self, frontier: Frontier) -> None:
        """Judge the cells that lie beyond a frontier."""
        covered = self._covers.of(frontier)
        for stream, held in self._log.vector().items():
            upto = covered.get(stream, 0)
            if upto < held:
                self._judge_range(stream, upto, held)

    def _judge_covered(self, known: Mapping[Frontier, Mapping[StreamId, int]]) -> None:
        """Judge the cells that a link has put before frontiers, or whose beacon it shows to be withdrawn.

        Args:
            known: what lay before each frontier that the link may concern, without it.
        """
        for frontier, old in known.items():
            for stream, upto in self._covers.of(frontier).items():
                if upto > old.get(stream, 0):
                    self._judge_range(stream, old.get(stream, 0), upto)
        for beacon in self._beacons.all():
            for frontier in beacon.withdrawals:
                old = known.get(frontier, {})
                if frontier in known and any(
                    p.position.sequence > old.get(p.position.stream, 0)
                    and self._covers.before(frontier, p.position)
                    for p in beacon.placements
                ):
                    self._judge_beyond(frontier)

    def _judge_range(self, stream: StreamId, after: int, upto: int) -> None:
        self._judge(
            "SELECT cell_no FROM cell_events WHERE stream_no=? AND sequence>? AND sequence<=?",
            self._log.number_of(stream),
            after,
            upto,
        )

    def _judge(self, query: str, *parameters: object) -> None:
        self._inbox.judge_again(int(cell_no) for (cell_no,) in database.rows(self._db, query, *parameters))

    # -- memory

    def _remember(self, logged: Logged, payload: BeaconPlaced) -> Beacon:
        """Add a placement to its beacon, as its last one."""
        header = logged.event.header
        beacon = self._beacons.get(BeaconId(payload.beacon)) or _beacon(logged, payload)
        everything = payload.interest == INTEREST_IN_ALL
        vector = None if everything else payload.vector
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
            None if vector is None else space_of(vector),
            self._beacons.add(beacon, vector),
        )
        beacon.placements.append(placement)
        self._beacons.refresh(beacon)
        return beacon

    def _catch_up(self, beacon: Beacon) -> None:
        self._read_withdrawals(beacon)
        renewed = database.value(self._db, "SELECT expires_ms FROM renewals WHERE beacon=?", beacon.beacon)
        beacon.renewed_ms = renewed or 0

    def _read_withdrawals(self, beacon: Beacon) -> None:
        locals_ = database.rows(self._db, "SELECT local FROM withdrawals WHERE beacon=?", beacon.beacon)
        for (local,) in locals_:
            withdrawn = read_stored(self._db, local)
            if withdrawn is not None and isinstance(withdrawn.payload, BeaconWithdrawn):
                beacon.withdrawals.append(unpack_frontier(withdrawn.payload.frontier))


def flaw_of(payload: BeaconPlaced) -> str | None:
    """Return why a placement cannot be matched by the scoring rule, or None."""
    if payload.interest == INTEREST_IN_ALL:
        return None
    if payload.vector is None:
        return "an interest without a vector"
    return None if is_usable(payload.vector) else "a vector that breaks the scoring rule"


def _beacon(logged: Logged, payload: BeaconPlaced) -> Beacon:
    """Return a beacon that has no placement yet."""
    tenant = logged.event.header.tenant
    return Beacon(
        BeaconId(payload.beacon),
        tenant,
        AgentId(agent_id(tenant, payload.agent)),
        payload.agent,
        payload.interest,
        Filters(
            payload.project,
            frozenset(payload.cell_types),
            frozenset(payload.layers),
            payload.min_salience,
        ),
    )


def _frontiers(beacon: Beacon) -> list[Frontier]:
    return [p.frontier for p in beacon.placements] + beacon.withdrawals


def decode_frontier(data: bytes) -> Frontier:
    """Return a frontier stored as bytes."""
    return unpack_frontier(decode(data))
