"""Long logs, quickly: events of every everyday kind, written into the directory of a peer that does not run.

Texts are not embedded: vectors lie around centres, as those of texts about the same subjects do, and are said
to be of the model's space, so that the peer that is started on the log searches and matches them as its own.
"""

from __future__ import annotations

import random
import secrets
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from node import database
from node.data_directory import PeerDirectory
from node.embedders import choose_embedder
from node.identity import load_identity
from node.peer_config import PeerConfig
from node.principals import DEFAULT_TENANT
from node.replica import Draft, Replica
from node.version import version
from proto.ids import AgentId, agent_id, tenant_id
from proto.payloads import (
    CELL_TYPES,
    BeaconPlaced,
    BeaconsRenewed,
    CellStored,
    PageListed,
    Payload,
    SessionClosed,
    SessionOpened,
    Vector,
    WireFrontier,
)
from proto.scoring import quantise
from tests.benchmarks.texts import memories

AGENTS = 20
BEACONS = 100
SUBJECTS = 50
DIMENSIONS = 384
CELL_SPREAD, BEACON_SPREAD = 0.7, 0.3  # how far they lie from the centre of their subject
THRESHOLD = 6_000
PAGE = 5
BATCH = 1_024
TTL_S = 30 * 24 * 3600
# Of 100 events: 74 memories, 20 pages read, 3 renewals of beacons, 3 sessions opened or closed.
TURNS = ("cell",) * 74 + ("page",) * 20 + ("renewal",) * 3 + ("session",) * 3

Floats = npt.NDArray[np.float32]
Say = Callable[[str], None]


@dataclass(slots=True)
class _Agent:
    name: str
    id: AgentId
    unread: deque[bytes]
    beacons: list[bytes]
    page: bytes | None = None
    session: bytes | None = None
    cell: bytes | None = None


class LongLog:
    """Writes events as one peer, or as several that have heard one another all the time.

    Args:
        directories: of peers that have run once and do not run now; the log is written into the first.
        seed: the same numbers give the same texts and vectors.
    """

    def __init__(self, *directories: Path, seed: int = 0) -> None:
        self._space = choose_embedder(PeerConfig(directories[0], embedder="none")).space
        self._db = database.open_writer(PeerDirectory(directories[0]).log)
        identities = [load_identity(PeerDirectory(directory), "") for directory in directories]
        mesh = identities[0].mesh
        assert mesh is not None
        self._replicas = [
            Replica(self._db, i.peer, mesh, self._space, secrets.token_bytes, version()) for i in identities
        ]
        self._tenant = tenant_id(mesh, DEFAULT_TENANT)
        self._rng = np.random.default_rng(seed)
        self._pick = random.Random(seed)
        self._seed = seed
        self._subjects = np.random.default_rng(99).standard_normal((SUBJECTS, DIMENSIONS)).astype(np.float32)
        names = [f"writer-{n}" for n in range(AGENTS)]
        self._agents = [_Agent(n, agent_id(self._tenant, n), deque(), []) for n in names]
        self._by_id = {a.id: a for a in self._agents}
        self._entry_no = 0

    def write(self, count: int, beacons: int = BEACONS, say: Say = lambda _text: None) -> None:
        """Append events, among them so many beacons at even distances, fold them, and close the log."""
        texts = iter(memories(count, self._seed))
        kinds = [self._pick.choice(TURNS) for _ in range(count)]
        for n in range(beacons):
            kinds[n * count // beacons] = "beacon"
        began = time.monotonic()
        for start in range(0, count, BATCH):
            drafts = [self._draft(kind, texts) for kind in kinds[start : start + BATCH]]
            replica = self._replicas[start // BATCH % len(self._replicas)]
            if len(self._replicas) > 1:
                replica.reload()  # the one before has written beside it
            replica.write(drafts, (), time.time_ns() // 1000)
            self._take_entries()
            if (start // BATCH) % 20 == 19:
                say(f"  {start + BATCH:,} of {count:,} events written after {time.monotonic() - began:.0f} s")
        self._db.close()

    def _draft(self, kind: str, texts: Iterator[str]) -> Draft:
        agent = self._pick.choice(self._agents)
        if kind == "beacon":
            agent = self._agents[sum(len(a.beacons) for a in self._agents) % AGENTS]
            fields = self._beacon(agent)
            return Draft(self._tenant, agent.id, lambda frontier: BeaconPlaced(**fields, frontier=frontier))
        if kind == "session":
            return self._session(agent)
        payload: Payload | None = None
        if kind == "page":
            payload = self._page(agent)
        elif kind == "renewal":
            payload = self._renewal(agent)
        return Draft.of(self._tenant, agent.id, payload or self._cell(agent, next(texts)))

    def _cell(self, agent: _Agent, text: str) -> CellStored:
        replaced = agent.cell if self._pick.random() < 0.03 else None
        agent.cell = secrets.token_bytes(16)
        return CellStored(
            cell=agent.cell,
            content=text,
            cell_type=self._pick.choice(CELL_TYPES),  # type: ignore[arg-type]
            salience=5_000,
            project="default",
            owner=agent.name,
            agent=agent.name,
            session=agent.session,
            tags=("harbour",) if self._pick.random() < 0.2 else (),
            supersedes=replaced,
            vector=self._vector(CELL_SPREAD),
            embedded_chars=len(text),
            request_digest=secrets.token_bytes(16),
        )

    def _beacon(self, agent: _Agent) -> dict[str, Any]:
        agent.beacons.append(secrets.token_bytes(16))
        return {
            "beacon": agent.beacons[-1],
            "interest": f"a subject of {agent.name}, number {len(agent.beacons)}",
            "vector": self._vector(BEACON_SPREAD),
            "threshold": THRESHOLD,
            "agent": agent.name,
            "owner": agent.name,
            "ttl_s": TTL_S,
            "expires_ms": time.time_ns() // 1_000_000 + TTL_S * 1000,
        }

    def _page(self, agent: _Agent) -> PageListed | None:
        refs = [agent.unread.popleft() for _ in range(min(PAGE, len(agent.unread)))]
        if not refs:
            return None
        before, agent.page = agent.page, secrets.token_bytes(16)
        return PageListed(page=agent.page, refs=tuple(refs), commits=() if before is None else (before,))

    def _renewal(self, agent: _Agent) -> BeaconsRenewed | None:
        expires_ms = time.time_ns() // 1_000_000 + TTL_S * 1000
        return BeaconsRenewed(beacons=tuple(agent.beacons), expires_ms=expires_ms) if agent.beacons else None

    def _session(self, agent: _Agent) -> Draft:
        if agent.session is not None:
            closed, agent.session = agent.session, None
            return Draft.of(self._tenant, agent.id, SessionClosed(session=closed))
        opened = agent.session = secrets.token_bytes(16)

        def build(frontier: WireFrontier) -> SessionOpened:
            return SessionOpened(
                session=opened, agent=agent.name, owner=agent.name, project="default", frontier=frontier
            )

        return Draft(self._tenant, agent.id, build)

    def _vector(self, spread: float) -> Vector:
        centre = self._subjects[self._pick.randrange(SUBJECTS)]
        away = self._rng.standard_normal(DIMENSIONS).astype(np.float32)
        quantised = quantise(centre + np.float32(spread) * away)
        return Vector(space=self._space, values=quantised.q, norm=quantised.n)

    def _take_entries(self) -> None:
        for number, agent, diff in database.rows(
            self._db, "SELECT entry_no, agent_id, diff FROM entries WHERE entry_no>?", self._entry_no
        ):
            self._entry_no = max(self._entry_no, number)
            if agent in self._by_id:
                self._by_id[agent].unread.append(diff)
