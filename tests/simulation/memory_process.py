"""A simulated peer: a replication process with the part of the memory service that lists inboxes.

The rules of cursor and beacon are the product's (`node.draining`, `node.readers`, `node.replica`); what is
here is the glue that `node.service` is in a peer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from mesh.engine import Engine
from node import database
from node.beacons_projection import decode_frontier
from node.draining import Drain, DrainPlan, listing, plan_drain
from node.inbox_query import Entry, Scope, uncommitted
from node.readers import Reader, ReaderMemory
from node.replica import Draft
from node.sqlite_log import Logged
from proto.errors import HyphaeError
from proto.ids import CellId, PageId, SessionId
from proto.payloads import SessionClosed
from proto.streams import StreamId, coverage
from tests.simulation.clocks import WallClock
from tests.simulation.memory_history import Agent, Listing
from tests.simulation.memory_world import MemoryWorld
from tests.simulation.process import Process
from tests.simulation.replica_site import Done, ReplicaSite

RIGHT = WallClock("right", 0.0, 0.0, (), 1.0)
EPOCH_MS = 1_700_000_000_000
LIMIT = 4  # entries on a page: small, so that there are many


@dataclass(frozen=True, slots=True)
class DrainCall:
    """What a reader sends.

    Args:
        named: the page that the reader, or its gateway, says it has had.
        explicit: it names one, or says that there is none.
    """

    agent: Agent
    session: SessionId | None
    mark: bytes
    named: PageId | None
    explicit: bool
    project: str | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """What a peer sends back.

    Args:
        refusal: "unknown" or "closed" session; "" for a page.
        behind: what the reader may have been listed elsewhere was not all known.
    """

    refusal: str = ""
    page: PageId | None = None
    entries: Sequence[Listing] = ()
    may_repeat: bool = False
    behind: bool = False


class MemoryProcess(Process):
    """A process whose site is a `ReplicaSite`.

    Args:
        wall: its wall clock.
    """

    site: ReplicaSite

    def __init__(
        self,
        world: MemoryWorld,
        site: ReplicaSite,
        *,
        wall: WallClock = RIGHT,
        engine_class: type[Engine] = Engine,
    ) -> None:
        super().__init__(world, site, engine_class)
        self.history = world.history
        self.wall = wall
        site.wall_us = self.wall_us

    def wall_us(self) -> int:
        """Return this process's wall clock, microseconds since 1970."""
        return int((EPOCH_MS + self.wall.at(self.world.now)) * 1000)

    @property
    def life(self) -> int:
        return self._life

    # -- life

    def boot(self) -> None:
        self.memory = ReaderMemory()
        self._turns: set[tuple[bytes, bytes | None]] = set()
        super().boot()

    def hear_of_members(self) -> None:
        """Hear who joined; who has retired is in the log."""
        if self.up:
            retired = frozenset(self.site.replica.retired_peers())
            self.tell_members(self.world.members - retired, retired)

    def take_request(self, action: Callable[[], None]) -> None:
        """Take a request: at once, or when the process goes on."""
        self._when_awake(action)

    # -- own events

    def submit(self, drafts: Sequence[Draft], done: Done) -> None:
        """Stage own events; `done` is called when they are durable, never if the process dies before."""
        self.site.stage(drafts, done)
        self.appended()
        self._commit_soon(150)

    def _commit(self) -> None:
        super()._commit()
        self.hear_of_members()
        for done, outcomes in self.site.take_outcomes():
            done(outcomes)

    def _apply(self) -> None:
        super()._apply()
        self.hear_of_members()

    # -- sessions and pages

    def drain(self, call: DrainCall, reply: Callable[[Answer], None]) -> None:
        """Serve drain_inbox as `node.service.inbox` does."""
        covered: Mapping[StreamId, int] = {}
        if call.session is not None:
            refusal, covered = self._session(call.session)
            if refusal:
                reply(Answer(refusal))
                return
        turn = (call.agent.id, call.session)
        if turn in self._turns:  # calls of one reader are taken one after the other
            self._later(5, self.drain, call, reply)
            return
        reader = self.reader_of(call)
        scope = Scope(call.agent.owner, None, call.project)
        standing = self.memory.standing(reader, call.named, explicit=call.explicit, now_ms=self.clock())
        behind = {} if standing.since is None else self.engine.behind_since(standing.since, self.clock())
        drain = Drain(reader, call.named, call.explicit, scope, covered, standing, behind)
        plan = plan_drain(self.site.db, self.memory, drain, LIMIT)
        self._list(call, reader, plan, reply)

    def reader_of(self, call: DrainCall) -> Reader:
        """Return whose cursor a call moves; a planted bug returns another one."""
        return Reader(call.agent.id, call.session, call.mark)

    def knows(self, session: SessionId) -> bool:
        """Tell whether a session has been opened as far as this peer knows."""
        return database.row(self.site.db, "SELECT 1 FROM sessions WHERE session=?", session) is not None

    def _session(self, session: SessionId) -> tuple[str, Mapping[StreamId, int]]:
        """Return (why the session cannot be read here, what lay before its opening)."""
        found = database.row(
            self.site.db,
            "SELECT frontier, EXISTS (SELECT 1 FROM closings x WHERE x.session=s.session)"
            " FROM sessions s WHERE session=?",
            session,
        )
        if found is None:
            return "unknown", {}
        if found[1]:
            return "closed", {}
        return "", coverage(decode_frontier(found[0]), self.site.replica.links)

    def _list(
        self, call: DrainCall, reader: Reader, plan: DrainPlan, reply: Callable[[Answer], None]
    ) -> None:
        listed = plan.entries
        rng, turn = self.world.rng, (call.agent.id, call.session)
        page, skipped = PageId(rng.randbytes(16)), PageId(rng.randbytes(16))
        may_repeat = plan.may_repeat(self.site.db, listed)
        answer = Answer(
            page=page if listed else None,
            entries=[self._as_listing(entry) for entry in listed],
            may_repeat=may_repeat,
            behind=bool(plan.behind),
        )
        events = listing(plan, reader, listed, page, skipped)
        now = self.clock()
        if not events:
            plan.settle(listed)
            reply(answer)
            return

        def done(outcomes: list[Logged | HyphaeError]) -> None:
            self._turns.discard(turn)
            if any(isinstance(o, HyphaeError) for o in outcomes):
                return  # it has just heard that it has retired: the reader hears nothing
            plan.settle(listed)
            if listed:
                self.memory.listed(page, reader, plan.standing, now)
            reply(answer)

        self._turns.add(turn)
        shown = f"{len(listed)} diffs{', may_repeat' if may_repeat else ''}"
        self.world.note(self, "lists a page to {}: {}", call.agent.name, shown)
        self.submit([Draft.of(call.agent.tenant, call.agent.id, event) for event in events], done)

    def _as_listing(self, entry: Entry) -> Listing:
        def cell(number: int | None) -> CellId | None:
            found = database.value(self.site.db, "SELECT cell FROM cells WHERE cell_no=?", number)
            return None if found is None else CellId(found)

        first = cell(entry.cell_no)
        assert first is not None
        return Listing(entry.diff, entry.kind, first, cell(entry.other_no))

    def close_session(self, call: DrainCall) -> None:
        """Serve close_session as `node.service.sessions` does."""
        assert call.session is not None
        if self._session(call.session)[0]:
            return
        pages = self.memory.commits(self.reader_of(call), call.named, implicit=not call.explicit)
        closed = SessionClosed(session=call.session, commits=uncommitted(self.site.db, pages))
        self.submit([Draft.of(call.agent.tenant, call.agent.id, closed)], lambda _outcomes: None)
