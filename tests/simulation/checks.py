"""What must hold, named by when: at any time, or finally.  Each finding is one sentence with its guarantee.

The checks look at durable content and at messages, never into an engine, save for what it claims about having
caught up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from mesh.digests import decode_live, decode_pull
from mesh.effects import Channel, Fork, Publish
from mesh.ports import Head, Segment
from mesh.segments import NOTHING, last_of, restore_events
from proto.errors import ProtocolError
from proto.events import NO_HASH
from proto.ids import PeerId
from proto.streams import Position, StreamId
from tests.simulation.answers import Answer
from tests.simulation.process import Process
from tests.simulation.trace import Trace
from tests.simulation.world import World

FINDINGS_MAX = 20
LOOKED_BACK = 1  # events before the head whose claims are checked


class Checks:
    """Collects what is wrong in one run."""

    def __init__(self) -> None:
        self.findings: list[str] = []
        self.trace: Trace | None = None  # is told of the first finding
        self.acknowledged_count = 0
        self.claims: Counter[int] = Counter()  # answers looked at, by 1, 2 or more peers
        self._witness: dict[Position, bytes] = {}  # every event that was ever durable anywhere
        self._looked: dict[tuple[int, StreamId], Head] = {}  # how far each process's log was looked through
        self._acknowledged: dict[Position, bytes] = {}
        self._excused: set[Position] = set()
        self._promised: dict[StreamId, list[tuple[int, int]]] = {}  # (sequence, members that hold it)
        self._losses: Counter[Position] = Counter()  # disks that held an event and were replaced

    def find(self, text: str) -> None:
        if self.trace is not None:
            self.trace.found(text)
        if len(self.findings) < FINDINGS_MAX and text not in self.findings:
            self.findings.append(text)

    # -- told by the world

    def acknowledged(self, segments: Iterable[Segment]) -> None:
        """Own events were confirmed to whoever stored them."""
        for segment in segments:
            for event in restore_events(segment):
                self._acknowledged[event.header.position] = event.hash
                self.acknowledged_count += 1

    def answered(self, process: Process, answer: Answer) -> None:
        """A store was answered: as many members as it says hold it, and one of their disks must survive."""
        stream, sequence = answer.position
        self._promised.setdefault(stream, []).append((sequence, answer.known))
        disks = [(p, p.site.heads()) for p in process.world.processes]
        self._judge_claim(process, disks, stream, sequence, answer.known)

    def destroyed(self, process: Process, before: dict[StreamId, Head]) -> None:
        """A disk was replaced by an older one: what no other disk holds may be lost, if it was promised of no more
        disks than were replaced.
        """
        after = process.site.heads()
        others = [other.site.heads() for other in process.world.processes if other is not process]
        for stream, head in before.items():
            here = after.get(stream, NOTHING).sequence
            kept = max([h.get(stream, NOTHING).sequence for h in (after, *others)])
            for sequence in range(here + 1, head.sequence + 1):
                position = Position(stream, sequence)
                self._losses[position] += 1
                if sequence > kept and self._losses[position] >= self._promise_of(position):
                    self._excused.add(position)
            self._looked.pop((process.number, stream), None)

    def _promise_of(self, position: Position) -> int:
        """Return on how many members' disks an event is, by the answers given so far."""
        answers = self._promised.get(position.stream, ())
        return max((known for sequence, known in answers if sequence >= position.sequence), default=1)

    # -- at any time

    def anytime_sent(self, source: Process, publish: Publish) -> None:
        """G1: nothing leaves a process before it is durable there."""
        if publish.channel in (Channel.DIGEST, Channel.ACK):
            return
        if publish.channel is Channel.LIVE:
            segments = decode_live(publish.data).segments
        else:
            segments = getattr(decode_pull(publish.data), "segments", ())
        heads = source.site.heads() if segments else {}
        for segment in segments:
            if last_of(segment) > heads.get(segment.stream, NOTHING).sequence:
                self.find(f"G1: {source.name} sent event {last_of(segment)} before it was durable")

    def anytime_durable(self, process: Process) -> None:
        """G3, G10: streams are whole, and no place ever has two events, on any disk."""
        for stream, head in process.site.heads().items():
            looked = self._looked.get((process.number, stream), NOTHING)
            if head.sequence > looked.sequence:
                self._look(process, stream, looked, head)
                self._looked[process.number, stream] = head
            elif head != looked:
                self.find(f"G10: {process.name} moved a stream back or changed it")

    def anytime_fork(self, process: Process, fork: Fork) -> None:
        """G10: nobody ever writes a place twice, so nobody ever sees it."""
        self.find(f"G10: {process.name} saw two events at {fork.sequence} of a stream")

    def anytime_caught_up_is_true(self, world: World) -> None:
        """Who claims to have caught up with a peer at a moment holds what that peer held then, and has not lost."""
        for process in world.running():
            held = process.site.heads()
            for peer in sorted(process.members - {process.site.peer}):
                moment = process.engine.caught_up(peer)
                if moment is None:
                    continue
                then = process.monotonic.when(moment)
                if not any(_covers(held, other.disk.kept_since(then)) for other in world.of_peer(peer)):
                    self.find(f"G6: {process.name} claims to have caught up and has not")

    def anytime_durable_on_is_true(self, process: Process, of: PeerId | None = None) -> None:
        """G1: as many members hold an event as the engine says, on disks that were not replaced since.

        A replaced disk counts until a digest of the process on it has come: before that nobody can know.

        Args:
            of: look at streams of this peer only.
        """
        disks = [(p, p.site.heads()) for p in process.world.processes]
        for stream, head in process.site.heads().items():
            if of is not None and stream.peer != of:
                continue
            for sequence in range(max(1, head.sequence - LOOKED_BACK), head.sequence + 1):
                claimed = process.engine.durable_on(stream, sequence)
                self.claims[min(claimed, 3)] += 1
                if claimed > 1:
                    self._judge_claim(process, disks, stream, sequence, claimed)

    def _judge_claim(
        self,
        process: Process,
        disks: list[tuple[Process, dict[StreamId, Head]]],
        stream: StreamId,
        sequence: int,
        claimed: int,
    ) -> None:
        members = process.members | {process.site.peer}
        holding = {p.site.peer for p, heads in disks if _holds(heads, stream, sequence)} & members
        if claimed > len(holding):
            unheard = (p for p, _ in disks if not (p.up and p.engine.me in process.heard))
            holding |= {p.site.peer for p in unheard if p.disk.has_held(stream, sequence)} & members
        if claimed > len(holding):
            self.find(
                f"G1: {process.name} says that event {sequence} is durable on {claimed}"
                f" peers; it is on {len(holding)}"
            )

    def anytime_tick_did_what_was_due(self, process: Process) -> None:
        """G12: after a tick the next deadline lies ahead, or a peer would spin."""
        due = process.engine.next_deadline(process.clock())
        if due is not None and due <= process.clock():
            self.find(f"G12: {process.name} is due again at once after a tick")

    # -- finally

    def finally_streams_are_identical(self, world: World) -> None:
        """G3: the same events, byte for byte, on every disk."""
        first = _contents(world.processes[0])
        for process in world.processes[1:]:
            if _contents(process) != first:
                self.find(f"G3: {process.name} holds other events than process 0")

    def finally_acknowledged_events_are_everywhere(self, world: World) -> None:
        """G1: what was confirmed is on every disk, unless every disk that held it was replaced."""
        for process in world.processes:
            heads = process.site.heads()
            missing = sum(
                position.sequence > heads.get(position.stream, NOTHING).sequence
                for position in self._acknowledged.keys() - self._excused
            )
            if missing:
                self.find(f"G1: {process.name} lacks {missing} acknowledged events")

    def finally_everybody_knows_that_it_caught_up(self, world: World, since: float) -> None:
        """Caught-up claims do not stay behind for ever."""
        for process in world.processes:
            if not process.engine.caught_up_with_all(process.monotonic.at(since)):
                self.find(f"G6: {process.name} does not know that it caught up")

    def _look(self, process: Process, stream: StreamId, start: Head, end: Head) -> None:
        previous, sequence = (start.hash if start.sequence else NO_HASH), start.sequence
        while sequence < end.sequence:
            segment = process.site.read(stream, sequence + 1, 2**20)
            if segment is None or segment.first != sequence + 1 or segment.previous != previous:
                self.find(f"G3: {process.name} has a hole before {end.sequence} of a stream")
                return
            try:
                events = restore_events(segment)
            except ProtocolError:
                self.find(f"G3: {process.name} holds an event at a place that is not its own")
                return
            for event in events:
                position = event.header.position
                if self._witness.setdefault(position, event.hash) != event.hash:
                    self.find(f"G10: {process.name} holds another event at {position.sequence}")
                previous, sequence = event.hash, position.sequence


def _holds(heads: dict[StreamId, Head], stream: StreamId, sequence: int) -> bool:
    return stream in heads and heads[stream].sequence >= sequence


def _covers(held: dict[StreamId, Head], wanted: dict[StreamId, Head]) -> bool:
    return all(held.get(s, NOTHING).sequence >= head.sequence for s, head in wanted.items())


def _contents(process: Process) -> dict[StreamId, list[Segment]]:
    out: dict[StreamId, list[Segment]] = {}
    for stream, head in process.site.heads().items():
        first = 1
        while first <= head.sequence:
            segment = process.site.read(stream, first, 2**30)
            if segment is None:
                break
            out.setdefault(stream, []).append(segment)
            first = last_of(segment) + 1
    return out
