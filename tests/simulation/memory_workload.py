"""What agents do: store memories, place and withdraw beacons, each at a random peer.

Texts are topics, and a topic is a coordinate of a small vector, so that anybody can tell what matches: two
vectors with one topic in common score 10,000, 7,071 or 5,000 ten-thousandths.  Peers embed an interest a
little differently, as processors do.
"""

from __future__ import annotations

from typing import Any

from node import database
from node.replica import Draft
from node.sqlite_log import Logged
from proto.errors import HyphaeError
from proto.ids import BeaconId, CellId, cell_id, derive
from proto.payloads import (
    PRIVATE,
    BeaconPlaced,
    BeaconWithdrawn,
    CellStored,
    SceneConsolidated,
    Vector,
    WireFrontier,
)
from tests.simulation.memory_history import AGENTS, Agent, Placed, Stored, Withdrawn
from tests.simulation.memory_process import MemoryProcess
from tests.simulation.memory_world import MemoryWorld
from tests.simulation.replica_site import MESH
from tests.simulation.scenes import drafts_of

TOPICS = 3
DIMENSIONS = 8
PROJECTS = ("web", "web", "billing", PRIVATE)
STORING = (*AGENTS[:3], *AGENTS)
LONG_MS, SHORT_MS = 10**9, 5_000


def vector(topics: tuple[int, ...], space: str, noise: int = 0) -> Vector:
    """Return the direction of one or two topics; `noise` is what another processor rounds otherwise."""
    values = [0] * DIMENSIONS
    for topic in topics:
        values[topic] = 127
    values[DIMENSIONS - 1] = noise
    return Vector(space=space, values=bytes(values), norm=sum(v * v for v in values))


class Workload:
    """Schedules everything at the start of a run."""

    def __init__(self, world: MemoryWorld) -> None:
        self._world, self._history, self._rng = world, world.history, world.rng
        end = world.settings.duration_ms
        for number in range(world.settings.stores):
            world.at(self._rng.uniform(0, end), self._store, number)
        for _ in range(world.settings.consolidations):
            world.at(self._rng.uniform(end * 0.2, end * 1.1), self._consolidate)
        for _ in range(world.settings.beacons):
            world.at(self._rng.uniform(0, end * 0.5), self._place_new)

    def _peer(self) -> MemoryProcess | None:
        """Return whom to ask; None when nobody is up, or all work is over."""
        running = [] if self._world.healed else self._world.peers()
        return self._rng.choice(running) if running else None

    # -- memories

    def _store(self, number: int) -> None:
        peer = self._peer()
        if peer is None:
            return
        agent = self._rng.choice(STORING)
        cell = cell_id(MESH, agent.tenant, agent.id, f"key {number}")
        payload = self._memory(peer, agent, cell, number)
        stored = Stored(agent, cell, self._world.now, [payload])
        self._history.stored[cell] = stored
        self._send(peer, stored, payload)
        if self._rng.random() < 0.2:  # no answer came: again with the same key, perhaps elsewhere
            self._world.at(self._rng.uniform(50, 1_500), self._store_again, stored)

    def _store_again(self, stored: Stored) -> None:
        peer = self._peer()
        if peer is None:
            return
        held = "SELECT 1 FROM cells WHERE cell=?"
        if database.row(peer.site.db, held, stored.cell):
            return  # the peer answers from what it holds
        payload = stored.variants[0]
        if self._rng.random() < 0.15:  # the key is used for something else: a conflict that nobody sees yet
            self._history.counts["conflicting keys"] += 1
            payload = payload.model_copy(
                update={
                    "content": "something else",
                    "vector": vector((self._topic(),), peer.site.space),
                    "project": self._rng.choice(PROJECTS),
                    "supersedes": None,
                }
            )
            stored.variants.append(payload)
        self._send(peer, stored, payload)

    def _memory(self, peer: MemoryProcess, agent: Agent, cell: CellId, number: int) -> CellStored:
        rng = self._rng
        project = rng.choice(PROJECTS)
        sessions = [r.session for r in self._history.readers if r.agent == agent and r.session and r.open]
        known = [s for s in sessions if peer.knows(s)]
        topics = (self._topic(),) if rng.random() < 0.6 else (self._topic(), self._topic())
        return CellStored(
            cell=cell,
            content=f"memory {number}",
            cell_type=rng.choice(("Decision", "Lesson")),
            salience=rng.choice((2_000, 8_000)),
            project=project,
            owner=agent.owner,
            agent=agent.name,
            session=rng.choice(known) if known and rng.random() < 0.5 else None,
            supersedes=self._older(peer, agent, project) if rng.random() < 0.25 else None,
            vector=vector(topics, peer.site.space),
            match_bonus=rng.choice((0, 0, 2_000)),
        )

    def _older(self, peer: MemoryProcess, agent: Agent, project: str) -> bytes | None:
        """Return a memory that the agent may replace, as this peer knows it."""
        found = database.rows(
            peer.site.db,
            "SELECT cell FROM cells WHERE tenant_id=? AND project=? AND (project<>'private' OR owner=?)"
            " ORDER BY cell",
            agent.tenant,
            project,
            agent.owner,
        )
        return self._rng.choice(found)[0] if found else None

    def _topic(self) -> int:
        return self._rng.randrange(TOPICS)

    def _send(self, peer: MemoryProcess, stored: Stored, payload: CellStored) -> None:
        def done(outcomes: list[Logged | HyphaeError]) -> None:
            for outcome in outcomes:
                if not isinstance(outcome, Logged):
                    return  # the peer has retired
                header = outcome.event.header
                stored.events.append((header.position, header.hlc))

        self._world.note(peer, "takes {} of {}", payload.content, stored.agent.name)
        peer.submit([Draft.of(stored.agent.tenant, stored.agent.id, payload)], done)

    # -- scenes

    def _consolidate(self) -> None:
        peer = self._peer()
        if peer is None:
            return
        agent, project, run = self._rng.choice(STORING), self._rng.choice(PROJECTS), self._rng.randbytes(16)
        drafts = drafts_of(peer.site.db, peer.site.space, DIMENSIONS, agent, project, run)
        self._history.counts["consolidations"] += bool(drafts)
        self._history.counts["consolidations in parts"] += (
            sum(isinstance(d.build(()), SceneConsolidated) for d in drafts) > 1
        )
        if drafts:
            peer.submit(drafts, lambda _outcomes: None)

    # -- beacons

    def _place_new(self) -> None:
        agent, rng = self._rng.choice(AGENTS), self._rng
        topic = None if rng.random() < 0.1 else self._topic()
        filters: dict[str, Any] = {}
        if rng.random() < 0.2:
            filters["project"] = rng.choice(PROJECTS)
        if rng.random() < 0.2:
            filters["cell_types"] = ("Decision",)
        if rng.random() < 0.1:
            filters["min_salience"] = 5_000
        self._place(agent, topic, filters)

    def _place(self, agent: Agent, topic: int | None, filters: dict[str, Any]) -> None:
        peer = self._peer()
        if peer is None:
            return
        rng = self._rng
        beacon = BeaconId(derive("beacon", agent.id, repr((topic, filters)).encode()))
        ttl_ms = SHORT_MS if rng.random() < 0.15 else LONG_MS
        payload = BeaconPlaced(
            beacon=beacon,
            interest="*" if topic is None else f"topic {topic}",
            vector=None if topic is None else vector((topic,), peer.site.space, noise=peer.number % 2 * 3),
            threshold=rng.choice((5_000, 6_000, 8_000)),
            agent=agent.name,
            owner=agent.owner,
            readable=("web",) if rng.random() < 0.1 else None,
            include_own=rng.random() < 0.2,
            strict=rng.random() < 0.2,
            ttl_s=ttl_ms // 1000,
            expires_ms=peer.wall_us() // 1000 + ttl_ms,
            frontier=(),
            layers=(0,),  # as the service writes what names none; summaries are compared as state
            **filters,
        )
        placed = Placed(agent, payload)
        self._history.placed.append(placed)
        self._submit_placing(peer, placed)
        if rng.random() < 0.35:
            self._world.at(rng.uniform(500, 5_000), self._place, agent, topic, filters)
        if rng.random() < 0.25:
            self._world.at(rng.uniform(1_000, 6_000), self._withdraw, agent, beacon)

    def _submit_placing(self, peer: MemoryProcess, placed: Placed) -> None:
        def build(frontier: WireFrontier) -> BeaconPlaced:
            return placed.payload.model_copy(update={"frontier": frontier})

        def done(outcomes: list[Logged | HyphaeError]) -> None:
            (outcome,) = outcomes
            if not isinstance(outcome, Logged):
                return  # the peer has retired
            placed.acknowledged = self._world.now
            placed.position = outcome.event.header.position

        self._world.note(peer, "places a beacon of {}: {}", placed.agent.name, placed.payload.interest)
        peer.submit([Draft(placed.agent.tenant, placed.agent.id, build)], done)

    def _withdraw(self, agent: Agent, beacon: BeaconId) -> None:
        if self._world.healed:
            return
        knowing = [p for p in self._world.peers() if p.site.replica.beacons.get(beacon) is not None]
        if not knowing:
            return
        peer = self._rng.choice(knowing)
        withdrawn = Withdrawn(beacon, peer.site.heads())
        self._history.withdrawn.append(withdrawn)
        self._history.counts["withdrawals"] += 1
        self._world.note(peer, "withdraws a beacon of {}", agent.name)

        def done(outcomes: list[Logged | HyphaeError]) -> None:
            if not isinstance(outcomes[0], Logged):
                return
            withdrawn.written = self._world.now

        def build(frontier: WireFrontier) -> BeaconWithdrawn:
            return BeaconWithdrawn(beacon=beacon, frontier=frontier)

        peer.submit([Draft(agent.tenant, agent.id, build)], done)
