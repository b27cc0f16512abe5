"""What agents were promised, checked at the end of a run: G3 to G6 (design section 12).

Durability and the streams themselves are checked by `checks.Checks`.  Three views must agree: what peers
hold, what the reference works out from the log, and what agents asked for and were given.
"""

from __future__ import annotations

from typing import Any, cast

from node import database
from node.beacons_projection import decode_frontier
from node.inbox_projection import unpack_matches
from node.inbox_query import ReaderView, Scope, waiting
from node.sqlite_log import read_all
from proto.events import Event
from proto.ids import AgentId, DiffId, SessionId, diff_id
from proto.limits import SCENE_LEAST
from proto.payloads import PRIVATE, BeaconPlaced, CellStored
from proto.streams import Position, coverage
from tests.simulation import scenes
from tests.simulation.checks import Checks
from tests.simulation.memory_history import AGENTS, Agent, History, Placed, Seen, Stored
from tests.simulation.memory_process import MemoryProcess
from tests.simulation.memory_world import MemoryWorld
from tests.simulation.poison import says_something, set_aside
from tests.simulation.reference import Due, Reference
from tests.simulation.retirement import late_positions
from tests.simulation.world import World

Entries = dict[tuple[AgentId, DiffId], Due]


class MemoryChecks(Checks):
    """All checks of a run; `finally_all` after every open reader was drained to its end."""

    def anytime_caught_up_is_true(self, world: World) -> None:
        """Claims of the replication engine are the business of its own simulation."""

    def finally_all(self, world: MemoryWorld) -> None:
        processes = cast("list[MemoryProcess]", world.processes)
        self.finally_streams_are_identical(world)
        self.finally_acknowledged_events_are_everywhere(world)
        self.finally_what_cannot_be_read_is_set_aside(processes)
        self.finally_states_are_equal(processes)
        self.finally_scenes_are_the_newest_whole_ones(world.history, processes[0])
        entries = _entries(processes[0])
        self.finally_entries_are_the_right_ones(processes[0], entries)
        facts = _Facts(world.history, processes[0], self._excused)
        self.finally_everything_owed_was_listed(facts, entries)
        self.finally_no_reader_skipped(facts, entries)
        self.finally_nothing_else_was_listed(facts)
        self.finally_repeats_were_marked(facts, processes)

    # -- G3

    def finally_states_are_equal(self, processes: list[MemoryProcess]) -> None:
        """G3: the same state everywhere, and a rebuild gives it too."""
        first = processes[0]
        state, readers = first.site.replica.state_hash(), _unread(first)
        for process in processes[1:]:
            if process.site.replica.state_hash() != state:
                self.find(f"G3: the state of {process.name} differs: {_difference(first, process)}")
            elif _unread(process) != readers:
                self.find(f"G3: readers have other places at {process.name} than at process 0")
        before = _entries(first)
        first.site.replica.rebuild()
        if _entries(first) != before:
            self.find("G3: a rebuild gives other entries")
        elif first.site.replica.state_hash() != state:
            self.find("G3: a rebuild gives another state")
        elif _unread(first) != readers:
            self.find("G3: after a rebuild readers have other places")

    def finally_what_cannot_be_read_is_set_aside(self, processes: list[MemoryProcess]) -> None:
        """G11: an event that nobody can read is kept aside, with the same reason everywhere."""
        first = set_aside(processes[0].site.db)
        for process in processes[1:]:
            if set_aside(process.site.db) != first:
                self.find(f"G11: {process.name} sets other events aside than process 0")
        unreadable = {e.event.hash for e in read_all(processes[0].site.db) if not says_something(e.event)}
        if not unreadable <= {hash_ for hash_, _, _ in first}:
            self.find("G11: an event that nobody can read is not set aside")

    def finally_scenes_are_the_newest_whole_ones(self, history: History, process: MemoryProcess) -> None:
        """G3: scenes are those of the newest consolidation that is there as a whole, no cell in two of them."""
        held = scenes.folded(process.site.db)
        if held != scenes.due(_counting(process)):
            self.find("G3: the scenes are not those of the newest whole consolidation")
        for found in held.values():
            members = [cell for scene in found for cell in scene.members]
            if len(members) != len(set(members)):
                self.find("G3: a memory is in two scenes")
            if any(len(scene.members) < SCENE_LEAST or scene.medoid not in scene.members for scene in found):
                self.find("G3: a scene is too small or has lost its middle")
        history.counts["scenes"] += sum(len(found) for found in held.values())

    def finally_entries_are_the_right_ones(self, process: MemoryProcess, entries: Entries) -> None:
        """Entries are what the reference works out from the same events."""
        due = Reference(_counting(process)).entries()
        for key in due.keys() - entries.keys():
            self.find(f"G4: an entry {due[key].kind} is missing")
        for key in entries.keys() - due.keys():
            self.find(f"G4: an entry {entries[key].kind} matches nothing")
        for key in entries.keys() & due.keys():
            if entries[key] != due[key]:
                self.find(f"G4: an entry {due[key].kind} says {entries[key]}, due is {due[key]}")

    # -- G4, G5

    def finally_everything_owed_was_listed(self, facts: _Facts, entries: Entries) -> None:
        """G4: what was stored after a beacon was acknowledged reaches its agent."""
        for agent in AGENTS:
            given = facts.given(agent)
            for stored in facts.history.stored.values():
                diff = diff_id("created", stored.cell)
                if facts.is_owed(agent, stored):
                    facts.history.counts["owed"] += 1
                    if (agent.id, diff) not in entries:
                        self.find(f"G4: {agent.name} is owed {stored.variants[0].content}: no entry")
                    elif diff not in given:
                        self.find(f"G5: {agent.name} never got {stored.variants[0].content}")

    def finally_no_reader_skipped(self, facts: _Facts, entries: Entries) -> None:
        """G5: every entry was listed to every reader, or its agent had read it before the reader began."""
        for (agent_id, diff), due in entries.items():
            for seen in facts.history.readers:
                if seen.agent.id != agent_id or not facts.reads_to_the_end(seen):
                    continue
                had = set(seen.count) | seen.skippable | seen.hidden
                if seen.session is None:
                    had |= facts.history.read_by_agent(seen.agent)
                elif due.own_session == seen.session:
                    continue
                if diff not in had:
                    who = seen.agent.name if seen.session is None else f"a session of {seen.agent.name}"
                    self.find(f"G5: {who} ({seen.mode}) skipped an entry {due.kind}")

    # -- G6

    def finally_nothing_else_was_listed(self, facts: _Facts) -> None:
        """Nobody was listed what no beacon of theirs lets through, or what they may not read."""
        for (name, session, _), entry in facts.history.listings.items():
            agent = next(a for a in AGENTS if a.name == name)
            stored = facts.history.stored[entry.cell]
            if agent.tenant != stored.agent.tenant:
                self.find(f"G7: {name} was listed a memory of another tenant")
            elif all(v.project == PRIVATE and v.owner != agent.owner for v in stored.variants):
                self.find(f"G7: {name} was listed a private memory of {stored.agent.owner}")
            elif entry.kind == "created" and not facts.may_match(agent, session, stored):
                self.find(f"G4: {name} was listed {stored.variants[0].content}, which matches nothing")

    def finally_repeats_were_marked(self, facts: _Facts, processes: list[MemoryProcess]) -> None:
        """G6: a repeat carries the mark, save for what design section 12 declares."""
        peers = [p.site.peer for p in processes]
        twins = {peer for peer in peers if peers.count(peer) > 1}
        for repeat in facts.history.repeats:
            listed_at = [facts.peer_of_page(page) for page in repeat.pages]
            if None in listed_at:
                facts.history.counts["repeats after a roll-back"] += 1
            elif twins.intersection(listed_at):
                facts.history.counts["repeats beside a clone"] += 1
            elif facts.retired.intersection(listed_at):
                facts.history.counts["repeats of a retired peer's pages"] += (
                    1  # kept aside, perhaps let in later
                )
            elif not repeat.named:  # HTTP without `ack`: rare, counted over all seeds
                facts.history.counts["repeats unmarked"] += 1
            else:
                self.find(f"G6: {repeat.seen.agent.name} ({repeat.seen.mode}) got a diff again, unmarked")


class _Facts:
    """The history, read against the log that all peers hold in the end."""

    def __init__(self, history: History, process: MemoryProcess, excused: set[Position]) -> None:
        self.history = history
        self._process = process
        self._heads = process.site.heads()
        self._late = late_positions(logged.event for logged in read_all(process.site.db))
        self.retired = {r[0] for r in database.rows(process.site.db, "SELECT peer FROM retirements")}
        self._excused = excused
        self._given = {a: self._given_to(a) for a in AGENTS}

    def given(self, agent: Agent) -> set[DiffId]:
        """Return what an agent got in any of its readers, or lost in a way that counts as read."""
        return self._given[agent]

    def _given_to(self, agent: Agent) -> set[DiffId]:
        out: set[DiffId] = set()
        for seen in self.history.readers:
            if seen.agent == agent:
                out |= seen.count.keys() | seen.skippable
        return out

    def survived(self, position: Position) -> bool:
        held = self._heads.get(position.stream)
        return held is not None and held.sequence >= position.sequence and position not in self._late

    def peer_of_page(self, page: bytes) -> bytes | None:
        """Return which peer listed a page; None if its record is on no disk any more."""
        found: bytes | None = database.value(
            self._process.site.db,
            "SELECT s.peer FROM pages p JOIN events e ON e.local=p.local JOIN streams s"
            " ON s.stream_no=e.stream_no WHERE p.page=?",
            page,
        )
        return found

    def reads_to_the_end(self, seen: Seen) -> bool:
        """Tell whether a reader is open, as far as the mesh knows too."""
        if seen.session is None:
            return True
        found = database.row(
            self._process.site.db,
            "SELECT NOT EXISTS (SELECT 1 FROM closings x WHERE x.session=s.session) FROM sessions s"
            " WHERE session=?",
            seen.session,
        )
        return seen.open and found is not None and bool(found[0])

    # -- beacons

    def is_owed(self, agent: Agent, stored: Stored) -> bool:
        """Tell whether a memory must reach an agent, whatever its newer placements say."""
        events = [(p, hlc) for p, hlc in stored.events if self.survived(p)]
        if not events or agent.tenant != stored.agent.tenant:
            return False
        placed = [p for p in self.history.placed if p.agent == agent]
        return any(
            self._stands(p, stored, [p for p, _ in events])
            and all(hlc.wall_ms < p.payload.expires_ms for _, hlc in events)
            and all(_may_read(p.payload, v) and _fits(p.payload, v) for v in stored.variants)
            and all(
                _accepts(other.payload, v, stored, agent)
                for other in placed
                if other.payload.beacon == p.payload.beacon
                for v in stored.variants
                if _fits(other.payload, v)
            )
            for p in placed
        )

    def _stands(self, placed: Placed, stored: Stored, events: list[Position]) -> bool:
        """Tell whether a placing was acknowledged before a memory was stored, and not withdrawn for it."""
        if placed.acknowledged is None or placed.position is None or not self.survived(placed.position):
            return False
        if stored.begun <= placed.acknowledged:
            return False
        return all(
            (w.written is not None and w.written < placed.acknowledged)
            or all(p.stream in w.had and p.sequence <= w.had[p.stream].sequence for p in events)
            for w in self.history.withdrawn
            if w.beacon == placed.payload.beacon
        )

    def may_match(self, agent: Agent, session: SessionId | None, stored: Stored) -> bool:
        """Tell whether some placing of an agent lets some form of a memory through to this reader."""
        for placed in self.history.placed:
            if placed.agent != agent:
                continue
            for variant in stored.variants:
                own = stored.agent == agent and variant.session in (None, session)
                if (
                    _fits(placed.payload, variant)
                    and _may_read(placed.payload, variant)
                    and _passes(placed.payload, variant)
                    and (placed.payload.include_own or not own)
                ):
                    return True
        return False


def _fits(placed: BeaconPlaced, cell: CellStored) -> bool:
    """Tell whether the two can be compared at all."""
    return placed.vector is None or (cell.vector is not None and placed.vector.space == cell.vector.space)


def _may_read(placed: BeaconPlaced, cell: CellStored) -> bool:
    if cell.project == PRIVATE:
        return cell.owner == placed.owner
    return placed.readable is None or cell.project in placed.readable


def _accepts(placed: BeaconPlaced, cell: CellStored, stored: Stored, agent: Agent) -> bool:
    """Tell whether a placing, if it is the one that decides, lets a memory through to all readers."""
    return _passes(placed, cell) and (placed.include_own or stored.agent != agent)


def _passes(placed: BeaconPlaced, cell: CellStored) -> bool:
    if placed.project not in (None, cell.project) or cell.salience < placed.min_salience:
        return False
    if placed.cell_types and cell.cell_type not in placed.cell_types:
        return False
    if placed.vector is None:
        return True
    assert cell.vector is not None
    topic = placed.vector.values.index(127)
    topics = [t for t, v in enumerate(cell.vector.values) if v == 127]
    score = 0 if topic not in topics else (10_000, 7_071)[len(topics) - 1]
    return score - 20 + (0 if placed.strict else cell.match_bonus) >= placed.threshold


# -- what a process holds


def _counting(process: MemoryProcess) -> list[Event]:
    """Return the events of the log, without those of retired peers that do not count, and what nobody can read."""
    events = [logged.event for logged in read_all(process.site.db)]
    late = late_positions(events)
    return [event for event in events if event.header.position not in late and says_something(event)]


def _entries(process: MemoryProcess) -> Entries:
    return {
        (AgentId(agent), DiffId(diff)): Due(
            kind, frozenset((bytes(m.beacon), m.score, m.include_own) for m in unpack_matches(matched)), own
        )
        for agent, diff, kind, matched, own in database.rows(
            process.site.db, "SELECT agent_id, diff, kind, matched, own_session FROM entries"
        )
    }


def _unread(process: MemoryProcess) -> list[Any]:
    """Return what waits for every reader that this process knows."""
    db, out = process.site.db, []
    for agent in AGENTS:
        scope = Scope(agent.owner)
        out.append([e.diff for e in waiting(db, ReaderView(agent.id), scope, 500)[0]])
        for session, frontier in database.rows(
            db, "SELECT session, frontier FROM sessions WHERE agent_id=? ORDER BY session", agent.id
        ):
            covered = coverage(decode_frontier(frontier), process.site.replica.links)
            view = ReaderView(agent.id, SessionId(session), covered)
            out.append([e.diff for e in waiting(db, view, scope, 500)[0]])
    return out


def _difference(a: MemoryProcess, b: MemoryProcess) -> str:
    left, right = _entries(a), _entries(b)
    keys = [k for k in left.keys() | right.keys() if left.get(k) != right.get(k)]
    return f"{len(keys)} entries" if keys else "not in what entries say"
