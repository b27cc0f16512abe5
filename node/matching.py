"""Which agents a diff is for: beacons, frontiers and filters, as a pure function of events.

A diff matches a beacon when some placement of it was made without knowing the diff (the diff lies beyond the
placement's frontier), can be compared with it, was not ended for it by a withdrawal, and lets it through: the
score reaches the threshold and the filters pass.  Of several such placements the newest decides.  Nothing
here looks at a clock or at the order of arrival, so every peer decides alike.  Frontiers and links:
`proto.streams`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from proto.clock import Hlc
from proto.ids import AgentId, BeaconId, CellId, DiffId, SessionId, TenantId
from proto.payloads import PRIVATE
from proto.streams import Frontier, Links, Position, StreamId, coverage

INTEREST_IN_ALL = "*"


@dataclass(frozen=True, slots=True)
class Diff:
    """What matching needs to know of a cell event.

    Args:
        local: place of the event in this peer's order of arrival.
        salience: ten-thousandths.
        match_bonus: ten-thousandths of cosine, added to the score unless the beacon is strict.
        space: what its vector can be compared in; None when it has none.
    """

    local: int
    position: Position
    hlc: Hlc
    tenant: TenantId
    agent_id: AgentId
    owner: str
    project: str
    session: SessionId | None
    cell_type: str
    layer: int
    salience: int
    match_bonus: int
    cell: CellId
    cell_no: int
    diff: DiffId
    space: str | None = None


@dataclass(frozen=True, slots=True)
class Placement:
    """One placing of a beacon.

    Args:
        readable: projects that the key which placed it could read; None for all of the tenant.
        threshold: ten-thousandths of cosine.
        space: what the vector of the interest can be compared in; None for "*", which needs no comparison.
        vector_no: which of the beacon's vectors it was placed with: another peer may have embedded the same
            interest a little differently, or in another space.
    """

    local: int
    position: Position
    hlc: Hlc
    threshold: int
    expires_ms: int
    include_own: bool
    strict: bool
    owner: str
    readable: frozenset[str] | None
    frontier: Frontier
    space: str | None = None
    vector_no: int = 0

    def may_read(self, diff: Diff) -> bool:
        """Tell whether whoever placed it may read a diff."""
        if diff.project == PRIVATE:
            return diff.owner == self.owner
        return self.readable is None or diff.project in self.readable


@dataclass(frozen=True, slots=True)
class Filters:
    """The part of a beacon that is in its id, so that it is the same in every placement.

    No layers are all of them, as version 0.1.0 wrote its beacons; what a call leaves out is written as layer 0.
    """

    project: str | None
    cell_types: frozenset[str]
    layers: frozenset[int]
    min_salience: int

    def admit(self, diff: Diff) -> bool:
        """Tell whether a diff is of the kind that the beacon asks for."""
        return (
            (self.project is None or diff.project == self.project)
            and (not self.cell_types or diff.cell_type in self.cell_types)
            and (not self.layers or diff.layer in self.layers)
            and diff.salience >= self.min_salience
        )


@dataclass(slots=True)
class Beacon:
    """All that is known of one standing interest."""

    beacon: BeaconId
    tenant: TenantId
    agent_id: AgentId
    agent: str
    interest: str
    filters: Filters
    placements: list[Placement] = field(default_factory=list)
    withdrawals: list[Frontier] = field(default_factory=list)
    renewed_ms: int = 0

    def lowest_threshold(self, vector_no: int) -> int:
        """Return the lowest threshold among the placements with one of its vectors."""
        return min(p.threshold for p in self.placements if p.vector_no == vector_no)

    def expires_ms(self, placement: Placement) -> int:
        return max(placement.expires_ms, self.renewed_ms)


class Coverages:
    """Remembers `coverage(frontier, links)` by frontier until a link becomes known."""

    def __init__(self, links: Links) -> None:
        self._links = links
        self._known: dict[Frontier, dict[StreamId, int]] = {}

    def of(self, frontier: Frontier) -> Mapping[StreamId, int]:
        found = self._known.get(frontier)
        if found is None:
            found = self._known[frontier] = coverage(frontier, self._links)
        return found

    def before(self, frontier: Frontier, position: Position) -> bool:
        return position.sequence <= self.of(frontier).get(position.stream, 0)

    def forget(self) -> None:
        """Call after a link was added."""
        self._known.clear()


class Match(NamedTuple):
    """Why a diff is in an inbox: the beacon, and the score in ten-thousandths (10,000 for "*")."""

    beacon: BeaconId
    score: int
    include_own: bool


def judge(beacon: Beacon, diff: Diff, scores: Mapping[int, int], covers: Coverages) -> Match | None:
    """Decide one pair.

    Args:
        scores: of the cell against the beacon's vectors, by `vector_no`, ten-thousandths of cosine; those
            below every threshold of their vector may be left out.

    Returns:
        The match by the newest placement that is eligible, or None.
    """
    if not beacon.filters.admit(diff):
        return None
    newest = deciding(beacon, diff, covers)
    if newest is None:
        return None
    own = diff.agent_id == beacon.agent_id and diff.session is None
    if own and not newest.include_own:
        return None
    if newest.space is None:
        return Match(beacon.beacon, 10_000, newest.include_own)
    score = scores.get(newest.vector_no)
    if score is None or score + bonus_of(newest, diff) < newest.threshold:
        return None
    return Match(beacon.beacon, score, newest.include_own)


def deciding(beacon: Beacon, diff: Diff, covers: Coverages) -> Placement | None:
    """Return the placement that decides about a diff which the filters admit: the newest eligible one."""
    eligible = [p for p in beacon.placements if _eligible(beacon, p, diff, covers)]
    return max(eligible, key=lambda p: (p.hlc, p.position), default=None)


def bonus_of(placement: Placement, diff: Diff) -> int:
    """Return what is added to the score of a diff, in ten-thousandths of cosine."""
    return 0 if placement.strict else diff.match_bonus


def _eligible(beacon: Beacon, placement: Placement, diff: Diff, covers: Coverages) -> bool:
    if placement.space is not None and placement.space != diff.space:
        return False
    if not placement.may_read(diff) or covers.before(placement.frontier, diff.position):
        return False
    if diff.hlc.wall_ms >= beacon.expires_ms(placement):
        return False
    return not any(
        covers.before(w, placement.position) and not covers.before(w, diff.position)
        for w in beacon.withdrawals
    )


def current(beacon: Beacon, covers: Coverages) -> Placement | None:
    """Return the newest placement that is not withdrawn: what the beacon says now."""
    standing = [
        p for p in beacon.placements if not any(covers.before(w, p.position) for w in beacon.withdrawals)
    ]
    return max(standing, key=lambda p: (p.hlc, p.position), default=None)


def names_epoch_from(frontier: Frontier, stream: StreamId) -> bool:
    """Tell whether a frontier names this epoch of a peer or a later one: only then can its link matter."""
    return any(
        entry.stream.peer == stream.peer
        and entry.stream.partition == stream.partition
        and entry.stream.ordinal >= stream.ordinal
        for entry in frontier
    )
