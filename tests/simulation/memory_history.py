"""What agents asked for and what they were given, as the outside of the mesh knows it: the input of the checks.

It is filled by the workload and the readers, and knows nothing of how a peer decides.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from mesh.ports import Head
from proto.clock import Hlc
from proto.ids import AgentId, BeaconId, CellId, DiffId, PageId, SessionId, TenantId, agent_id, tenant_id
from proto.payloads import BeaconPlaced, CellStored
from proto.streams import Position, StreamId
from tests.simulation.replica_site import MESH


@dataclass(frozen=True, slots=True)
class Agent:
    """Somebody who stores and reads."""

    name: str
    owner: str
    tenant: TenantId

    @property
    def id(self) -> AgentId:
        return agent_id(self.tenant, self.name)


_HERE, _ELSEWHERE = tenant_id(MESH, "here"), tenant_id(MESH, "elsewhere")
AGENTS = (
    Agent("ann", "owner-1", _HERE),
    Agent("ben", "owner-1", _HERE),
    Agent("cat", "owner-2", _HERE),
    Agent("dan", "owner-1", _ELSEWHERE),
)


@dataclass(slots=True)
class Stored:
    """One memory, however often it was sent.

    Args:
        begun: virtual time of the first attempt, ms.
        variants: what was sent; more than one only if an idempotency key was used for two payloads.
        events: where it became durable, with its HLC.
    """

    agent: Agent
    cell: CellId
    begun: float
    variants: list[CellStored]
    events: list[tuple[Position, Hlc]] = field(default_factory=list)


@dataclass(slots=True)
class Placed:
    """One placing of a beacon.

    Args:
        acknowledged: virtual time, ms; None as long as it is not.
    """

    agent: Agent
    payload: BeaconPlaced
    acknowledged: float | None = None
    position: Position | None = None


@dataclass(slots=True)
class Withdrawn:
    """An attempt to withdraw a beacon.

    Args:
        had: heads of the peer that was asked, when it was asked: what it certainly knew.
        written: virtual time, ms; None if it perhaps never was.
    """

    beacon: BeaconId
    had: Mapping[StreamId, Head]
    written: float | None = None


@dataclass(slots=True)
class Seen:
    """What one reader was given.

    Args:
        count: by diff, how often it arrived.
        skippable: diffs on pages that count as read although the agent never saw them (HTTP without `ack`).
        hidden: what the agent's side had read when this session opened.
        calling: a call is under way.
        joined: a session that a peer took for idle and closed while it was in use.
    """

    agent: Agent
    session: SessionId | None
    mode: str
    open: bool = True
    calling: bool = False
    joined: bool = False
    count: Counter[DiffId] = field(default_factory=Counter)
    skippable: set[DiffId] = field(default_factory=set)
    hidden: frozenset[DiffId] = frozenset()


@dataclass(frozen=True, slots=True)
class Listing:
    """One entry as it arrived at its reader."""

    diff: DiffId
    kind: str
    cell: CellId
    other: CellId | None


@dataclass(frozen=True, slots=True)
class Repeat:
    """A diff that arrived again without the mark.

    Args:
        pages: all pages on which it came, the last one included.
        named: the call said which page the reader had last, or that it had none.
    """

    seen: Seen
    diff: DiffId
    pages: tuple[PageId, ...]
    named: bool


class History:
    """Everything of one run."""

    def __init__(self) -> None:
        self.stored: dict[CellId, Stored] = {}
        self.placed: list[Placed] = []
        self.withdrawn: list[Withdrawn] = []
        self.readers: list[Seen] = []
        self.repeats: list[Repeat] = []
        self.listings: dict[tuple[str, SessionId | None, DiffId], Listing] = {}
        self.counts: Counter[str] = Counter()

    def read_by_agent(self, agent: Agent) -> frozenset[DiffId]:
        """Return what the agent itself, or a session of it that was closed, has been given so far."""
        out: set[DiffId] = set()
        for seen in self.readers:
            if seen.agent == agent and (seen.session is None or not seen.open or seen.joined):
                out |= seen.count.keys() | seen.skippable
        return frozenset(out)
