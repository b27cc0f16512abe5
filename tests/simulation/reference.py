"""Who is to be told of what, worked out from a whole log at once: slow, plain, and written apart from the product.

The rules are those of design sections 4 and 7 and of the decision records on placements and on superseded
memories.  It uses the event models of `proto` and nothing of `node`.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from proto.clock import Hlc
from proto.events import Event
from proto.ids import AgentId, DiffId, agent_id, diff_id
from proto.payloads import (
    PRIVATE,
    BeaconPlaced,
    BeaconsRenewed,
    BeaconWithdrawn,
    CellStored,
    EpochOpened,
    Vector,
    decode_payload,
    unpack_frontier,
    unpack_position,
)
from proto.streams import Frontier, Position, StreamId


class Due(NamedTuple):
    """An inbox entry as it should be: matches are (beacon, score, include_own)."""

    kind: str
    matched: frozenset[tuple[bytes, int, bool]]
    own_session: bytes | None


@dataclass(slots=True)
class _Cell:
    """The events of one cell, earliest first once the log was read; the earliest says what it is."""

    events: list[tuple[Event, CellStored]] = field(default_factory=list)

    @property
    def first(self) -> CellStored:
        return self.events[0][1]

    @property
    def author(self) -> AgentId:
        return agent_id(self.events[0][0].header.tenant, self.first.agent)


@dataclass(slots=True)
class _Beacon:
    placements: list[tuple[Event, BeaconPlaced, Frontier]] = field(default_factory=list)
    withdrawals: list[Frontier] = field(default_factory=list)
    renewed_ms: int = 0


class Reference:
    """Entries due, as a function of the set of events.

    Args:
        events: of all streams, in any order.
    """

    def __init__(self, events: Iterable[Event]) -> None:
        self._links: dict[StreamId, Position | None] = {}
        self._cells: dict[bytes, _Cell] = defaultdict(_Cell)
        self._beacons: dict[bytes, _Beacon] = defaultdict(_Beacon)
        for event in events:
            self._read(event)
        for cell in self._cells.values():
            cell.events.sort(key=lambda pair: _order(pair[0]))

    def _read(self, event: Event) -> None:
        payload = decode_payload(event.header.kind, event.payload or b"")
        match payload:
            case EpochOpened():
                previous = payload.previous
                self._links[event.header.stream] = None if previous is None else unpack_position(previous)
            case CellStored():
                self._cells[payload.cell].events.append((event, payload))
            case BeaconPlaced():
                placement = event, payload, unpack_frontier(payload.frontier)
                self._beacons[payload.beacon].placements.append(placement)
            case BeaconWithdrawn():
                self._beacons[payload.beacon].withdrawals.append(unpack_frontier(payload.frontier))
            case BeaconsRenewed():
                for beacon in payload.beacons:
                    held = self._beacons[beacon]
                    held.renewed_ms = max(held.renewed_ms, payload.expires_ms)

    def entries(self) -> dict[tuple[AgentId, DiffId], Due]:
        """Return what every agent is to be told of."""
        created: dict[bytes, dict[AgentId, Due]] = {c: self._created(cell) for c, cell in self._cells.items()}
        out = {
            (agent, diff_id("created", cell)): due
            for cell, by_agent in created.items()
            for agent, due in by_agent.items()
        }
        pairs = {(p.supersedes, c) for c, cell in self._cells.items() for _, p in cell.events if p.supersedes}
        for old, new in pairs:
            if old in self._cells:
                told = self._to_be_told(old, pairs, created) if self._alike(old, new) else ()
                for agent in told:
                    due = self._superseded(self._cells[new], agent)
                    if due is not None:
                        out[agent, diff_id("superseded", old, new)] = due
        return out

    # -- created

    def _created(self, cell: _Cell) -> dict[AgentId, Due]:
        found: dict[AgentId, dict[bytes, tuple[bytes, int, bool]]] = defaultdict(dict)
        for event, _ in cell.events:
            for beacon_id, beacon in self._beacons.items():
                match = self._match(beacon, event, cell.first)
                if match is None:
                    continue
                placed = beacon.placements[0]
                matched = found[agent_id(placed[0].header.tenant, placed[1].agent)]
                _, score, own = matched.get(beacon_id, (b"", -10_000, False))
                matched[beacon_id] = beacon_id, max(score, match[0]), own or match[1]
        out: dict[AgentId, Due] = {}
        for agent, matches in found.items():
            include_own = any(own for _, _, own in matches.values())
            own_session = cell.first.session if cell.author == agent and not include_own else None
            out[agent] = Due("created", frozenset(matches.values()), own_session)
        return out

    def _match(self, beacon: _Beacon, event: Event, cell: CellStored) -> tuple[int, bool] | None:
        """Return (score, include_own) if the newest placement that may decide lets the memory through."""
        able = [p for p in beacon.placements if self._may_decide(beacon, p, event, cell)]
        if not able:
            return None
        placed, payload, _ = max(able, key=lambda p: _order(p[0]))
        own = cell.session is None and agent_id(event.header.tenant, cell.agent) == agent_id(
            placed.header.tenant, payload.agent
        )
        if (own and not payload.include_own) or not _admits(payload, cell):
            return None
        if payload.vector is None:
            return 10_000, payload.include_own
        assert cell.vector is not None
        score = _score(payload.vector, cell.vector)
        bonus = 0 if payload.strict else cell.match_bonus
        return (score, payload.include_own) if score + bonus >= payload.threshold else None

    def _may_decide(
        self, beacon: _Beacon, placement: tuple[Event, BeaconPlaced, Frontier], event: Event, cell: CellStored
    ) -> bool:
        placed, payload, frontier = placement
        if placed.header.tenant != event.header.tenant:
            return False
        if payload.vector is not None and (cell.vector is None or payload.vector.space != cell.vector.space):
            return False
        if cell.project == PRIVATE:
            if cell.owner != payload.owner:
                return False
        elif payload.readable is not None and cell.project not in payload.readable:
            return False
        if event.header.wall_ms >= max(payload.expires_ms, beacon.renewed_ms):
            return False
        at = event.header.position
        if self._before(frontier, at):
            return False
        return not any(
            self._before(w, placed.header.position) and not self._before(w, at) for w in beacon.withdrawals
        )

    def _before(self, frontier: Frontier, at: Position) -> bool:
        for entry in frontier:
            step: Position | None = entry
            while step is not None:
                if step.stream == at.stream:
                    if at.sequence <= step.sequence:
                        return True
                    break
                step = self._links.get(step.stream)
        return False

    # -- superseded

    def _to_be_told(
        self,
        old: bytes,
        pairs: set[tuple[bytes, bytes]],
        created: Mapping[bytes, Mapping[AgentId, Due]],
    ) -> set[AgentId]:
        """Return who wrote a memory, matched it, or was told that it replaces an older one."""
        chain, rest = {old}, [old]
        while rest:
            newer = rest.pop()
            for older in {o for o, n in pairs if n == newer and o in self._cells} - chain:
                if not self._alike(older, newer):
                    continue
                chain.add(older)
                rest.append(older)
        return {self._cells[c].author for c in chain} | {a for c in chain for a in created[c]}

    def _alike(self, old: bytes, new: bytes) -> bool:
        """Tell whether two memories have the same readers."""
        a, b = self._cells[old].first, self._cells[new].first
        return a.project == b.project and (a.project != PRIVATE or a.owner == b.owner)

    @staticmethod
    def _superseded(new: _Cell, agent: AgentId) -> Due | None:
        if new.author != agent:
            return Due("superseded", frozenset(), None)
        return None if new.first.session is None else Due("superseded", frozenset(), new.first.session)


def _order(event: Event) -> tuple[Hlc, Position]:
    return event.header.hlc, event.header.position


def _admits(payload: BeaconPlaced, cell: CellStored) -> bool:
    return (
        payload.project in (None, cell.project)
        and (not payload.cell_types or cell.cell_type in payload.cell_types)
        and (not payload.layers or cell.layer in payload.layers)
        and cell.salience >= payload.min_salience
    )


def _score(a: Vector, b: Vector) -> int:
    dot = sum(x * y for x, y in zip(a.values, b.values, strict=True))
    return math.floor(10_000 * dot / math.sqrt(a.norm * b.norm))
