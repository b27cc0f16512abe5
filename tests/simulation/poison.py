"""Events that this version cannot make anything of: kept, forwarded, set aside alike everywhere, never in the way.

A peer of another version, or one with a fault, writes them: a kind that nobody here knows, fields that are not
what the kind requires, fields that a later version added, something that may only be said elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from node import database
from node.replica import Draft
from node.sqlite_log import Logged
from proto.errors import HyphaeError, ProtocolError
from proto.events import Event
from proto.payloads import EpochOpened, Payload, decode_payload
from tests.simulation.memory_history import AGENTS
from tests.simulation.memory_world import MemoryWorld

POISON: tuple[tuple[str, Mapping[str, Any]], ...] = (
    ("MoodNoted", {"mood": "fine", "depth": [[[1]]]}),
    ("CellStored", {"cell": 5}),
    ("CellStored", {}),
    ("BeaconPlaced", {"beacon": b"short", "frontier": "everywhere"}),
    ("PageListed", {"page": b"x" * 16, "refs": [b"y"]}),
    ("PeerRetired", {"peer": b"nobody"}),
    ("PeerJoined", {"name": None}),
    ("SceneConsolidated", {"parts": -1}),
    ("EpochOpened", {"previous": None, "version": "9.0.0"}),
    ("KeyRevoked", {"key_id": "simulated", "of_a_later_version": {"reason": 2**40}}),
)
"""Kinds and fields."""


class _Raw:
    """Stands for a payload of any kind and fields."""

    def __init__(self, fields: Mapping[str, Any]) -> None:
        self._fields = fields

    def model_dump(self, **_how: object) -> Mapping[str, Any]:
        return self._fields


def _draft(kind: str, fields: Mapping[str, Any]) -> Draft:
    agent = AGENTS[0]
    payload = type(kind, (_Raw,), {})(fields)
    return Draft.of(agent.tenant, agent.id, cast(Payload, payload))


class Poisoner:
    """Has peers write such events, at random moments."""

    def __init__(self, world: MemoryWorld) -> None:
        self._world = world
        for _ in range(world.settings.poison):
            world.at(world.rng.uniform(0, world.settings.duration_ms), self._write)

    def _write(self) -> None:
        peers = [] if self._world.healed else self._world.peers()
        if peers:
            process = self._world.rng.choice(peers)
            kind, fields = self._world.rng.choice(POISON)
            process.submit([_draft(kind, fields)], self._written)

    def _written(self, outcomes: list[Logged | HyphaeError]) -> None:
        self._world.counts["poison events"] += sum(isinstance(o, Logged) for o in outcomes)


def says_something(event: Event) -> bool:
    """Tell whether an event can be read where it is: what cannot counts for nothing."""
    if event.header.kind == EpochOpened.__name__ and event.header.sequence != 1:
        return False
    try:
        return event.payload is not None and decode_payload(event.header.kind, event.payload) is not None
    except ProtocolError:
        return False


def set_aside(db: Any) -> set[tuple[bytes, str, str]]:
    """Return what a peer keeps without folding it: hash, kind and reason of each event."""
    query = "SELECT e.hash, u.kind, u.why FROM unfolded u JOIN events e ON e.local=u.local"
    return {(hash_, kind, why) for hash_, kind, why in database.rows(db, query)}
