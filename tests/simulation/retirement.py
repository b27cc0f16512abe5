"""Retirement in the simulated world: operators that retire peers, and which events of a whole log count.

What counts is worked out from the log at once, apart from the product: retirements in the order of (HLC,
position), each adding to what counts of a peer, none by an author who had retired before it.
"""

from __future__ import annotations

from collections.abc import Iterable

from node import database
from node.retiring import retiring_drafts
from proto.events import Event
from proto.ids import PeerId
from proto.payloads import PeerRetired, decode_payload
from proto.streams import Position
from tests.simulation.memory_world import MemoryWorld


class Operators:
    """Retire peers at random moments, each as the peer that is asked knows it."""

    def __init__(self, world: MemoryWorld) -> None:
        self._world = world
        end = world.settings.duration_ms
        for _ in range(world.settings.retirements):
            world.at(world.rng.uniform(end * 0.2, end), self._retire)

    def _retire(self) -> None:
        world = self._world
        asked = [] if world.healed else world.peers()
        if not asked:
            return
        process = world.rng.choice(asked)
        others = sorted(world.members - {process.site.peer})
        if not others:
            return
        peer = world.rng.choice(others)
        world.history.counts["retirements"] += 1
        process.submit(retiring_drafts(process.site.replica.log, peer, ""), lambda _outcomes: None)


def late_positions(log: Iterable[Event]) -> set[Position]:
    """Return the places of the events that do not count; retirements themselves are not among them."""
    events = list(log)
    retirements = sorted(
        (e for e in events if e.header.kind == PeerRetired.__name__),
        key=lambda e: (e.header.hlc, e.header.position),
    )
    counting: dict[PeerId, set[Position]] = {}
    for event in retirements:
        at = event.header.position
        said = decode_payload(event.header.kind, event.payload or b"")
        assert isinstance(said, PeerRetired)
        if at.stream.peer == said.peer or (at.stream.peer in counting and at not in counting[at.stream.peer]):
            continue
        ends = {position[:4]: position[4] for position in said.frontier}
        counting.setdefault(PeerId(said.peer), set()).update(
            e.header.position
            for e in events
            if e.header.peer == said.peer and e.header.sequence <= ends.get((*e.header.stream,), 0)
        )
    return {
        e.header.position
        for e in events
        if e.header.peer in counting
        and e.header.position not in counting[PeerId(e.header.peer)]
        and e.header.kind != PeerRetired.__name__
    }


def count_late(world: MemoryWorld) -> None:
    """Count what is kept aside where the most is."""
    kept = "SELECT count(*) FROM unfolded"
    counts = [database.value(p.site.db, kept) for p in world.peers()]
    world.history.counts["late events"] += max(counts, default=0)
