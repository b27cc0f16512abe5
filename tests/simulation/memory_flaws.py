"""The parts of the planted bugs of the memory: classes and functions that break one rule of the product each.

Which of them stands where, and what breaks, is said in `memory_bugs`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import apsw

from mesh.ports import Applied, Segment
from node import draining, inbox_projection, inbox_query, matching
from node.draining import DrainPlan
from node.folding import Changes, Folding
from node.inbox_projection import Judged
from node.inbox_query import ReaderView, Scope
from node.matching import Beacon, Coverages, Diff, Match, Placement
from node.membership_projection import MembershipProjection
from node.readers import Reader, ReaderMemory
from node.replica import Draft, Written
from node.sqlite_log import Logged
from proto.codec import encode
from proto.errors import ProtocolError
from proto.events import parse_header
from proto.ids import diff_id
from proto.payloads import CellStored, PageListed, SceneConsolidated, decode_payload
from proto.streams import Frontier, Links, Position, StreamId, coverage
from tests.simulation.memory_process import DrainCall, MemoryProcess
from tests.simulation.replica_site import Backup, Done, ReplicaSite, SimulatedReplica

# -- the log


class OneEpochReplica(SimulatedReplica):
    """Each process life goes on in the stream of the one before."""

    def _open_epoch(self, now_us: int, written: Written) -> StreamId:
        self._epoch_random = bytes(8)
        stream = StreamId(self.peer, 0, 0, self._epoch_random)
        if self.log.number_of(stream) is None:
            return super()._open_epoch(now_us, written)
        return stream


class HastySite(ReplicaSite):
    """What is written becomes durable at the next `sync`; a crash before it rolls the disk back."""

    def start(self, seed: int) -> None:
        super().start(seed)
        self._durable = self.backup()

    def crash(self) -> None:
        super().crash()
        self.restore(self._durable)

    def hasten(self, drafts: Sequence[Draft], done: Done) -> tuple[Segment, ...]:
        """Write at once and call `done`; return what was written."""
        self.stage(drafts, done)
        segments = super().sync()
        for finished, outcomes in self.take_outcomes():
            finished(outcomes)
        return segments

    def apply(self, segments: Sequence[Segment]) -> Applied:
        applied = super().apply(segments)
        self._flush()
        return applied

    def sync(self) -> tuple[Segment, ...]:
        self._flush()
        return ()

    def _flush(self) -> None:
        self._durable = self.backup()

    def clone(self, backup: Backup) -> ReplicaSite:
        return HastySite(self.peer, content=backup.content, space=self.space)


class HastyProcess(MemoryProcess):
    """Publishes and acknowledges before the group commit."""

    def submit(self, drafts: Sequence[Draft], done: Done) -> None:
        site = self.site
        assert isinstance(site, HastySite)
        segments = site.hasten(drafts, done)
        self.world.checks.acknowledged(segments)
        self._do(self.engine.committed(segments, self.clock()))
        self._commit_soon(150)


# -- beacons


def eligible_by_clock(beacon: Beacon, placement: Placement, diff: Diff, covers: Coverages) -> bool:
    """A placement starts at its HLC: what has an earlier one is taken for known."""
    return (
        placement.space in (None, diff.space)
        and placement.may_read(diff)
        and diff.hlc > placement.hlc
        and diff.hlc.wall_ms < beacon.expires_ms(placement)
        and not any(
            covers.before(w, placement.position) and not covers.before(w, diff.position)
            for w in beacon.withdrawals
        )
    )


class _OlderIsBefore(dict[StreamId, int]):
    """Every epoch older than the one named counts as before, all of it."""

    def get(self, stream: StreamId, default: Any = 0) -> Any:
        newest = max((s.ordinal for s in self if s.peer == stream.peer), default=-1)
        return 2**53 if stream.ordinal < newest else super().get(stream, default)


def coverage_by_ordinal(frontier: Frontier, links: Links) -> dict[StreamId, int]:
    return _OlderIsBefore(coverage(frontier, {}))


_judge = matching.judge


def judge_by_last_placement(
    beacon: Beacon, diff: Diff, scores: Mapping[int, int], covers: Coverages
) -> Match | None:
    """A beacon placed again forgets its earlier placements."""
    last = max(beacon.placements, key=lambda p: (p.hlc, p.position))
    only = Beacon(
        beacon.beacon,
        beacon.tenant,
        beacon.agent_id,
        beacon.agent,
        beacon.interest,
        beacon.filters,
        [last],
        beacon.withdrawals,
        beacon.renewed_ms,
    )
    return _judge(only, diff, scores, covers)


def forget(*_args: object) -> None:
    """Whoever is judged once is never judged again."""


# -- cursors


class SharedCursorProcess(MemoryProcess):
    """Sessions drain with the agent's cursor."""

    def reader_of(self, call: DrainCall) -> Reader:
        return Reader(call.agent.id, None, call.mark)


_conditions = inbox_query._conditions
_SEEN = """ AND NOT EXISTS (
  SELECT 1 FROM refs r JOIN commits k ON k.page=r.page JOIN entries o ON o.agent_id=r.agent_id AND o.diff=r.diff
  JOIN events theirs ON theirs.local=o.local JOIN events ours ON ours.local=e.local
  WHERE r.agent_id=e.agent_id AND theirs.stream_no=ours.stream_no AND theirs.sequence>=ours.sequence)"""


def conditions_by_highest_seen(
    db: apsw.Connection, view: ReaderView, scope: Scope
) -> tuple[str, list[object]]:
    """One vector per agent: whatever lies at or below the highest position listed counts as listed."""
    where, values = _conditions(db, ReaderView(view.agent, None, {}, view.committing), scope)
    return where + _SEEN, values


_listing = draining.listing


def listing_committed(*args: Any) -> list[PageListed]:
    """A page is committed when it is listed."""
    return [event.model_copy(update={"commits": (*event.commits, event.page)}) for event in _listing(*args)]


def never_marked(*_args: object) -> bool:
    """A page in doubt looks like any other."""
    return False


def settled_at_its_end(plan: DrainPlan, listed: Sequence[Any]) -> None:
    """A reader that was once listed to its end has nothing in doubt here, whatever it was listed elsewhere."""
    if not plan.behind or plan.reaches_end(listed):
        plan.standing.since = None


def new_for_any_gateway(_memory: ReaderMemory, reader: Reader) -> bool:
    """A session whose gateway says that it wrote no page was never given one, whichever gateway it is."""
    return reader.session is not None and reader.mark != b""


_as_judged = inbox_projection.as_judged


def as_judged_by_event(logged: Logged, payload: CellStored, cell_no: int) -> Judged:
    """What is listed is an event, not what it says: a retry is another one."""
    judged = _as_judged(logged, payload, cell_no)
    values = {name: getattr(judged.diff, name) for name in Diff.__dataclass_fields__}
    diff = Diff(**{**values, "diff": diff_id("created", logged.event.hash)})
    return Judged(diff, judged.space, judged.values, judged.norm)


class ForgetfulReplica(SimulatedReplica):
    """Cells are matched when they arrive, and each event for itself."""

    def reload(self) -> None:
        super().reload()
        store = self._cells.store

        def store_once(logged: Logged, payload: CellStored) -> Any:
            judged, changes, hidden = store(logged, payload)
            return Judged(judged.diff, judged.space, judged.values, judged.norm), changes, hidden

        self._cells.store = store_once  # type: ignore[method-assign]


class LastScenesReplica(SimulatedReplica):
    """Of two consolidations the one that comes last counts."""

    def reload(self) -> None:
        super().reload()
        consolidate = self._scenes.consolidate

        def forgetting(logged: Logged, payload: SceneConsolidated) -> list[int]:
            self.db.execute("DELETE FROM scene_runs")
            return consolidate(logged, payload)

        self._scenes.consolidate = forgetting  # type: ignore[method-assign]


class PartialScenesReplica(SimulatedReplica):
    """A consolidation counts from its first event on."""

    def reload(self) -> None:
        super().reload()
        consolidate = self._scenes.consolidate

        def hasty(logged: Logged, payload: SceneConsolidated) -> list[int]:
            return consolidate(logged, payload.model_copy(update={"parts": payload.part}))

        self._scenes.consolidate = hasty  # type: ignore[method-assign]


# -- members


def everything_counts(_self: MembershipProjection, _position: Position) -> bool:
    return True


def nothing_is_taken_back(_self: MembershipProjection) -> bool:
    return False


# -- what cannot be read, and what is lost on the way


_fold = Folding._fold


def folds_most(self: Folding, logged: Logged, changes: Changes) -> None:
    """One event in 40 is not folded, by its place of arrival."""
    if logged.local % 40:
        _fold(self, logged, changes)


_decode_payload = decode_payload


def decodes_or_stops(kind: str, data: bytes) -> Any:
    """An event that cannot be read is an error like any other."""
    try:
        return _decode_payload(kind, data)
    except ProtocolError as error:
        raise ValueError(f"an event of kind {kind}: {error.message}") from error


def drops(*_args: object) -> None:
    """What cannot be read is forgotten."""


class RewritingSite(ReplicaSite):
    """Writes received payloads anew, in its own way, before they are checked and kept."""

    def apply(self, segments: Sequence[Segment]) -> Applied:
        return super().apply([replace(s, events=tuple(map(_rewritten, s.events))) for s in segments])


def _rewritten(event: tuple[bytes, bytes | None, bytes | None]) -> tuple[bytes, bytes | None, bytes | None]:
    header, salt, data = event
    kind = parse_header(header).kind
    try:
        payload = None if data is None else _decode_payload(kind, data)
    except ProtocolError:
        payload = None
    return header, salt, data if payload is None else encode(payload.model_dump())
