"""Inbox entries: the fold of cells, beacons, withdrawals and links into who is to be told of what.

One entry per (agent, diff).  Entries are a function of the set of events: what arrives late is judged again
over what it concerns, so that peers with equal streams hold equal entries.  Judging waits for the end of the
transaction, when everything that it depends on is known.  Runs on the writer's connection inside its
transaction.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import apsw
import numpy as np

from node import database
from node.beacon_index import BeaconIndex, Floats, is_usable, space_of, unpack_vector
from node.entries import EntryRow, EntryTable
from node.matching import Beacon, Coverages, Diff, Match, judge
from node.replacements import Replacements
from node.sqlite_log import Logged
from node.stored_events import Stored, read_stored
from proto.clock import Hlc
from proto.codec import decode, encode
from proto.ids import AgentId, BeaconId, CellId, SessionId, agent_id, diff_id
from proto.payloads import CellStored
from proto.streams import Position

BATCH = 64  # diffs in one matrix product


@dataclass(frozen=True, slots=True)
class Judged:
    """A cell event ready to be matched.

    Args:
        values: int8 values as float32[dim]; norm: the sum of their squares.
        linked: the cell supersedes another, or another supersedes it, as far as is known.
        repeated: the cell has other events.
    """

    diff: Diff
    space: str | None
    values: Floats | None
    norm: int
    linked: bool = False
    repeated: bool = False


def as_judged(logged: Logged, payload: CellStored, cell_no: int) -> Judged:
    """Return what matching needs of a cell event; a vector that breaks the scoring rule is as none."""
    header = logged.event.header
    cell = CellId(payload.cell)
    vector = payload.vector if payload.vector is not None and is_usable(payload.vector) else None
    diff = Diff(
        logged.local,
        header.position,
        header.hlc,
        header.tenant,
        agent_id(header.tenant, payload.agent),
        payload.owner,
        payload.project,
        None if payload.session is None else SessionId(payload.session),
        payload.cell_type,
        payload.layer,
        payload.salience,
        payload.match_bonus,
        cell,
        cell_no,
        diff_id("created", cell),
        None if vector is None else space_of(vector),
    )
    if vector is None:
        return Judged(diff, None, None, 1)
    return Judged(diff, vector.space, unpack_vector(vector), vector.norm)


class InboxProjection:
    """Decides which entries there are.

    Args:
        db: the writer's connection.
        beacons: all beacons known.
        covers: coverages of frontiers.
    """

    def __init__(self, db: apsw.Connection, beacons: BeaconIndex, covers: Coverages) -> None:
        self._db = db
        self._beacons = beacons
        self._covers = covers
        self._entries = EntryTable(db)
        self._replacements = Replacements(db, self._entries)
        self._fresh: list[tuple[Judged, int]] = []
        self._doubtful: set[int] = set()

    # -- during a transaction

    def add_cell(self, judged: Judged, arrived_us: int) -> None:
        """Take a new cell event, to be matched when the transaction ends."""
        self._fresh.append((judged, arrived_us))

    def judge_again(self, cell_nos: Iterable[int]) -> None:
        """Take cells whose entries may be others now, to be judged when the transaction ends."""
        self._doubtful.update(cell_nos)

    def settle(self, arrived_us: int) -> None:
        """Bring the entries up to date: before the transaction commits, and now and then in a long fold.

        Args:
            arrived_us: of the newest event.
        """
        fresh, self._fresh = self._fresh, []
        once = [pair for pair in fresh if not pair[0].repeated]
        doubtful = self._doubtful | {j.diff.cell_no for j, _ in fresh if j.repeated}
        self._doubtful = set()
        self.match_cells([pair for pair in once if pair[0].diff.cell_no not in doubtful])
        self.judge_cells(sorted(doubtful), arrived_us)

    # -- judging

    def match_cells(self, fresh: Sequence[tuple[Judged, int]]) -> None:
        """Match cells that have one event and no entries yet, given with its arrival in microseconds."""
        for start in range(0, len(fresh), BATCH):
            batch = fresh[start : start + BATCH]
            found = self._matches([j for j, _ in batch])
            for (judged, arrived_us), by_agent in zip(batch, found, strict=True):
                for agent, hits in by_agent.items():
                    self._write(judged.diff, agent, hits, arrived_us)
                if judged.linked:
                    self._replacements.tell(judged.diff.cell, arrived_us)

    def judge_cells(self, cell_nos: Sequence[int], arrived_us: int) -> None:
        """Judge cells anew over all their events: entries appear, change or vanish."""
        for start in range(0, len(cell_nos), BATCH):
            events = [e for number in cell_nos[start : start + BATCH] for e in load_judged(self._db, number)]
            by_cell: dict[int, tuple[Diff, dict[AgentId, list[Match]]]] = {}
            for event, found in zip(events, self._matches(events), strict=True):
                _, merged = by_cell.setdefault(event.diff.cell_no, (event.diff, defaultdict(list)))
                for agent, hits in found.items():
                    merged[agent] += hits
            for first, merged in by_cell.values():
                self._replace(first, merged, arrived_us)

    def _replace(self, first: Diff, merged: Mapping[AgentId, list[Match]], arrived_us: int) -> None:
        """Write what the events of one cell come to; `first` is its earliest."""
        for agent in self._entries.agents_told(first.cell_no, "created") - merged.keys():
            self._entries.remove(agent, first.diff)
        for agent, hits in merged.items():
            self._write(first, agent, hits, arrived_us)
        self._replacements.tell(first.cell, arrived_us)

    def _matches(self, batch: Sequence[Judged]) -> list[dict[AgentId, list[Match]]]:
        """Return per event, and per agent, the beacons that it matches."""
        out: list[dict[AgentId, list[Match]]] = [defaultdict(list) for _ in batch]
        groups: dict[tuple[bytes, str], list[int]] = defaultdict(list)
        for i, judged in enumerate(batch):
            for beacon in self._beacons.unfiltered(judged.diff.tenant):
                self._keep(out[i], beacon, judged.diff, {})
            if judged.diff.space is not None:
                groups[judged.diff.tenant, judged.diff.space].append(i)
        for (_, space), indices in groups.items():
            values = np.stack([v for i in indices if (v := batch[i].values) is not None])
            norms = np.array([batch[i].norm for i in indices], dtype=np.int64)
            bonus = np.array([batch[i].diff.match_bonus for i in indices], dtype=np.int32)
            tenant = batch[indices[0]].diff.tenant
            scores: dict[tuple[int, BeaconId], tuple[Beacon, dict[int, int]]] = {}
            for row, beacon, number, score in self._beacons.candidates(tenant, space, values, norms, bonus):
                scores.setdefault((indices[row], beacon.beacon), (beacon, {}))[1][number] = score
            for (i, _), (beacon, by_vector) in scores.items():
                self._keep(out[i], beacon, batch[i].diff, by_vector)
        return out

    def _keep(
        self, out: dict[AgentId, list[Match]], beacon: Beacon, diff: Diff, scores: Mapping[int, int]
    ) -> None:
        match = judge(beacon, diff, scores, self._covers)
        if match is not None:
            out[beacon.agent_id].append(match)

    def _write(self, diff: Diff, agent: AgentId, hits: Sequence[Match], arrived_us: int) -> None:
        matched = merge_matches(hits)
        own = diff.session if diff.agent_id == agent else None
        if any(m.include_own for m in matched):
            own = None
        row = EntryRow(
            diff.tenant,
            agent,
            diff.diff,
            "created",
            diff.cell_no,
            None,
            diff.local,
            diff.hlc.wall_ms,
            diff.hlc.counter,
            own,
            pack_matches(matched),
        )
        self._entries.put(row, arrived_us)


def load_judged(db: apsw.Connection, cell_no: int) -> list[Judged]:
    """Return the events of a cell, earliest first: each at its own place, all with what that one says.

    Another text under the same idempotency key, stored where the first was not known, is not the cell.
    """
    found: list[tuple[Hlc, Position, Stored]] = []
    for (local,) in database.rows(db, "SELECT local FROM cell_events WHERE cell_no=?", cell_no):
        stored = read_stored(db, local)
        if stored is not None:
            header = stored.logged.event.header
            found.append((header.hlc, header.position, stored))
    found.sort(key=lambda row: row[:2])
    if not found or not isinstance(payload := found[0][2].payload, CellStored):
        return []  # damaged: its entries stay as they are
    judged = as_judged(found[0][2].logged, payload, cell_no)
    if len(found) == 1:
        return [judged]
    return [
        replace(judged, diff=replace(judged.diff, hlc=hlc, position=position)) for hlc, position, _ in found
    ]


def merge_matches(hits: Iterable[Match]) -> list[Match]:
    """Keep per beacon the highest score, and `include_own` if any says so: in whatever order they come."""
    merged: dict[BeaconId, Match] = {}
    for hit in hits:
        held = merged.get(hit.beacon)
        if held is not None:
            hit = Match(hit.beacon, max(hit.score, held.score), hit.include_own or held.include_own)
        merged[hit.beacon] = hit
    return list(merged.values())


def pack_matches(matched: Iterable[Match]) -> bytes:
    return encode(tuple(sorted(tuple(m) for m in matched)))


def unpack_matches(data: bytes) -> list[Match]:
    return [Match(*item) for item in decode(data)]
