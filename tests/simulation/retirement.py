"""Members in the simulated world: operators that invite and retire peers, and which events of a log count.

What counts is worked out from the log at once, apart from the product: retirements in the order of (HLC,
position), each adding to what counts of a peer, none by an author who had retired before it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from node import database
from node.membership_projection import LATE
from node.replica import Draft
from node.retiring import retiring_drafts
from proto.events import Event
from proto.ids import NO_TENANT, AgentId, PeerId
from proto.payloads import PeerRetired, decode_payload
from proto.streams import Position
from tests.simulation import steps
from tests.simulation.memory_process import MemoryProcess
from tests.simulation.memory_world import MemoryWorld
from tests.simulation.poison import says_something
from tests.support.members import joined

NAMES = 8  # one more than there are peers to invite


class Operators:
    """Invite and retire peers at random moments, each as the peer that is asked knows it.

    Who is invited is a name in the log and runs nowhere; some were invited by somebody that nobody knows yet.
    """

    def __init__(self, world: MemoryWorld) -> None:
        self._world = world
        end = world.settings.duration_ms
        for _ in range(world.settings.retirements):
            world.at(world.rng.uniform(end * 0.2, end), self._retire)
        for _ in range(world.settings.invitations):
            world.at(world.rng.uniform(0, end), self._invite)

    def _invite(self) -> None:
        world = self._world
        asked = [] if world.healed else world.peers()
        if not asked:
            return
        process, number = world.rng.choice(asked), world.rng.randrange(1, NAMES)
        by = number if world.rng.random() < 0.4 else world.rng.randrange(1, NAMES)
        world.counts["joinings written"] += 1
        draft = Draft.of(NO_TENANT, AgentId(bytes(16)), joined(number, by))
        process.submit([draft], lambda _outcomes: None)

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
        world.note(process, "retires {}", steps.named(peer))
        process.submit(retiring_drafts(process.site.replica.log, peer, ""), lambda _outcomes: None)


def late_positions(log: Iterable[Event]) -> set[Position]:
    """Return the places of the events that do not count; retirements themselves are not among them."""
    events = list(log)
    retirements = sorted(
        (e for e in events if e.header.kind == PeerRetired.__name__ and says_something(e)),
        key=lambda e: (e.header.hlc, e.header.position),
    )
    counting: dict[PeerId, set[Position]] = {}
    for event in retirements:
        at = event.header.position
        said = decode_payload(event.header.kind, event.payload or b"")
        assert isinstance(said, PeerRetired)  # what cannot be read is none of them
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


def count_members(world: MemoryWorld) -> None:
    """Count what is kept aside where the most is, and who has joined by what the log says."""
    db = cast(MemoryProcess, world.processes[0]).site.db
    world.counts["joinings believed"] += database.value(db, "SELECT count(*) FROM members")
    world.counts["joinings not believed"] += database.value(
        db, "SELECT count(*) FROM unfolded u JOIN joinings j ON j.local=u.local"
    )
    kept = "SELECT count(*) FROM unfolded WHERE why=?"
    counts = [database.value(p.site.db, kept, LATE) for p in world.peers()]
    world.history.counts["late events"] += max(counts, default=0)
