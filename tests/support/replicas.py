"""Real replicas over SQLite in memory, and short ways to store, place and exchange, for tests of the core."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mesh.ports import Segment
from mesh.segments import segment_of
from node import database
from node.inbox_projection import unpack_matches
from node.replica import Draft, Replica
from node.sqlite_log import Logged, read_segment
from proto.clock import Hlc
from proto.events import NO_HASH, SALT_BYTES, Event, seal
from proto.ids import AgentId, BeaconId, CellId, MeshId, TenantId, agent_id, derive, tenant_id
from proto.payloads import (
    BeaconPlaced,
    BeaconWithdrawn,
    CellStored,
    Payload,
    SessionOpened,
    Vector,
    encode_payload,
)
from tests.support.sealed import peer, stream

MESH = MeshId(bytes(range(16)))
TENANT = tenant_id(MESH, "here")
SPACE = "test"
START_MS = 1_700_000_000_000
FOREVER_MS = START_MS + 10**9


def agent(name: str, tenant: TenantId = TENANT) -> AgentId:
    """Return the id of an agent."""
    return agent_id(tenant, name)


def cell_of(name: str) -> CellId:
    """Return a recognisable cell id."""
    return CellId(derive("cell", name.encode()))


def beacon_of(name: str) -> BeaconId:
    """Return a recognisable beacon id."""
    return BeaconId(derive("beacon", name.encode()))


def vector(*values: int, space: str = SPACE) -> Vector:
    """Return a vector of small whole numbers."""
    return Vector(space=space, values=bytes(v % 256 for v in values), norm=sum(v * v for v in values))


NORTH, EAST, BOTH = vector(100, 0, 0, 0), vector(0, 100, 0, 0), vector(100, 100, 0, 0)


class Peer:
    """A replica with a clock that moves 1 s a write.

    Args:
        number: of its peer id.
        path: a file, or None for memory.
        wall_ms: where its clock starts.
    """

    def __init__(self, number: int, path: Path | None = None, *, wall_ms: int = START_MS) -> None:
        self.db = database.open_writer(path or ":memory:")
        self.wall_ms = wall_ms
        self.number = number
        self._lives = 0
        self.restart()

    def restart(self) -> None:
        """Begin another process life on the same database."""
        self._lives += 1
        rng = random.Random(f"{self.number} {self._lives}")
        self.replica = Replica(self.db, peer(self.number), MESH, SPACE, rng.randbytes)

    # -- own events

    def write(self, *drafts: Draft) -> list[Logged]:
        """Append own events in one transaction."""
        self.wall_ms += 1_000
        outcomes = self.replica.write(drafts, (), self.wall_ms * 1000).own
        assert all(isinstance(o, Logged) for o in outcomes), outcomes
        return [o for o in outcomes if isinstance(o, Logged)]

    def append(self, payload: Payload, by: str = "ann") -> Logged:
        """Append one own event as an agent."""
        return self.write(Draft.of(TENANT, agent(by), payload))[0]

    def store(self, name: str, by: str = "ben", **fields: Any) -> Logged:
        """Store a memory, pointing north unless told otherwise."""
        return self.append(memory(name, by, **fields), by)

    def place(self, name: str, by: str = "ann", **fields: Any) -> Logged:
        """Place a beacon, pointing north unless told otherwise."""
        return self.write(
            Draft(TENANT, agent(by), lambda frontier: placing(name, by, frontier=frontier, **fields))
        )[0]

    def withdraw(self, name: str, by: str = "ann") -> Logged:
        """Withdraw a beacon."""
        return self.write(
            Draft(
                TENANT,
                agent(by),
                lambda frontier: BeaconWithdrawn(beacon=beacon_of(name), frontier=frontier),
            )
        )[0]

    def open_session(self, session: bytes, by: str = "ann") -> Logged:
        """Open a session."""
        return self.write(
            Draft(
                TENANT,
                agent(by),
                lambda frontier: SessionOpened(
                    session=session, agent=by, owner=by, project="web", frontier=frontier
                ),
            )
        )[0]

    # -- others'

    def segments(self) -> list[Segment]:
        """Return everything held, one segment per stream."""
        out: list[Segment] = []
        for at in sorted(self.replica.log.heads()):
            number = self.replica.log.number_of(at)
            assert number is not None
            segment = read_segment(self.db, number, at, 1, 2**30)
            assert segment is not None
            out.append(segment)
        return out

    def receive(self, segments: Sequence[Segment]) -> None:
        """Apply segments, each in a transaction of its own."""
        for segment in segments:
            self.wall_ms += 1
            self.replica.write((), (segment,), self.wall_ms * 1000)

    def pull(self, *others: Peer) -> None:
        """Get everything that others hold."""
        for other in others:
            self.receive(other.segments())

    # -- what it says

    def entries(self, of: str = "ann") -> dict[str, list[int]]:
        """Return an agent's entries: "kind text" (of the newer memory, if superseded) -> scores."""
        found = database.rows(
            self.db,
            "SELECT e.kind, c.cell, e.matched FROM entries e JOIN cells c ON c.cell_no=ifnull(e.other_no, e.cell_no)"
            " WHERE e.agent_id=?",
            agent(of),
        )
        names = {cell_of(name): name for name in self.names}
        return {
            f"{kind} {names.get(CellId(cell), cell.hex())}": [m.score for m in unpack_matches(matched)]
            for kind, cell, matched in found
        }

    names: tuple[str, ...] = tuple("abcdefgh")

    def set_aside(self) -> list[tuple[str, str]]:
        """Return (kind, why) of events kept and not folded."""
        return [(k, w) for k, w in database.rows(self.db, "SELECT kind, why FROM unfolded ORDER BY local")]


def memory(name: str, by: str = "ben", **fields: Any) -> CellStored:
    """Return a stored memory."""
    given: dict[str, Any] = {
        "cell": cell_of(name),
        "content": f"text of {name}",
        "cell_type": "Decision",
        "salience": 5_000,
        "project": "web",
        "owner": by,
        "agent": by,
        "vector": NORTH,
    }
    return CellStored(**{**given, **fields})


def placing(name: str, by: str = "ann", **fields: Any) -> BeaconPlaced:
    """Return a placing of a beacon."""
    given: dict[str, Any] = {
        "beacon": beacon_of(name),
        "interest": name,
        "vector": NORTH,
        "threshold": 8_000,
        "agent": by,
        "owner": by,
        "ttl_s": 10**6,
        "expires_ms": FOREVER_MS,
        "frontier": (),
    }
    return BeaconPlaced(**{**given, **fields})


def foreign(*events: tuple[str, bytes], number: int = 9, wall_ms: int = START_MS) -> Segment:
    """Return a stream of another peer, by ben, with any kinds and payloads."""
    out: list[Event] = []
    at, previous = stream(number), NO_HASH
    for sequence, (kind, payload) in enumerate(events, 1):
        clock = Hlc(wall_ms, sequence)
        event = seal(at, sequence, clock, kind, TENANT, agent("ben"), payload, bytes(SALT_BYTES), previous)
        out.append(event)
        previous = event.hash
    return segment_of(out, NO_HASH)


def encoded(*contents: Payload) -> list[tuple[str, bytes]]:
    """Return (kind, bytes) of payloads, for `foreign`."""
    return [(type(p).__name__, encode_payload(p)) for p in contents]


def assert_alike(*peers: Peer) -> None:
    """Peers with equal streams hold equal state, and a rebuild gives it again."""
    states = {p.replica.state_hash() for p in peers}
    assert len(states) == 1
    for p in peers:
        entries = p.entries("ann"), p.entries("ben")
        p.replica.rebuild()
        assert (p.entries("ann"), p.entries("ben")) == entries
        assert p.replica.state_hash() in states
