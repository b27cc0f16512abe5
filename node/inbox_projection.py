"""Inbox entries: the fold of cells, beacons, withdrawals and links into who is to be told of what.

One entry per (agent, diff).  Entries are a function of the set of events: what arrives late is judged again
over what it concerns, so that peers with equal streams hold equal entries.  Runs on the writer's connection
inside its transaction.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import apsw
import numpy as np

from node import database
from node.beacon_index import BeaconIndex, Floats, unpack_vector
from node.matching import Beacon, Coverages, Diff, Match, judge
from node.sqlite_log import Logged, read_logged
from proto.codec import decode, encode
from proto.ids import AgentId, BeaconId, CellId, DiffId, SessionId, agent_id, diff_id
from proto.payloads import CellStored, decode_payload

BATCH = 64  # diffs in one matrix product


@dataclass(frozen=True, slots=True)
class Judged:
    """A cell event ready to be matched.

    Args:
        values: int8 values as float32[dim]; norm: the sum of their squares.
        replaces: the cell supersedes another.
        replaced: another supersedes it, as far as is known.
    """

    diff: Diff
    space: str | None
    values: Floats | None
    norm: int
    replaces: bool = False
    replaced: bool = False


def as_judged(logged: Logged, payload: CellStored, cell_no: int) -> Judged:
    """Return what matching needs of a cell event."""
    header = logged.event.header
    cell = CellId(payload.cell)
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
    )
    vector = payload.vector
    if vector is None:
        return Judged(diff, None, None, 1)
    return Judged(diff, vector.space, unpack_vector(vector), vector.norm)


class InboxProjection:
    """Writes `entries`.

    Args:
        db: the writer's connection.
        beacons: all beacons known.
        covers: coverages of frontiers, shared with the readers' projection.
    """

    def __init__(self, db: apsw.Connection, beacons: BeaconIndex, covers: Coverages) -> None:
        self._db = db
        self._beacons = beacons
        self._covers = covers
        self.reload()

    def reload(self) -> None:
        self._last_us: int = database.value(self._db, "SELECT max(arrived_us) FROM entries") or 0

    # -- new diffs

    def match_cells(self, fresh: Sequence[tuple[Judged, int]]) -> None:
        """Match new cell events, given with their arrival in microseconds, against every beacon."""
        for start in range(0, len(fresh), BATCH):
            batch = fresh[start : start + BATCH]
            found = self._matches([j for j, _ in batch])
            for (judged, arrived_us), by_agent in zip(batch, found, strict=True):
                for agent, hits in by_agent.items():
                    self._merge(judged.diff, agent, hits, arrived_us)
                if judged.replaces or judged.replaced:
                    self.tell_of_replacements(judged.diff.cell, arrived_us)

    def _matches(self, batch: Sequence[Judged]) -> list[dict[AgentId, list[Match]]]:
        out: list[dict[AgentId, list[Match]]] = [defaultdict(list) for _ in batch]
        groups: dict[tuple[bytes, str], list[int]] = defaultdict(list)
        for i, judged in enumerate(batch):
            for beacon in self._beacons.unfiltered(judged.diff.tenant):
                self._keep(out[i], beacon, judged.diff, None)
            if judged.space is not None:
                groups[judged.diff.tenant, judged.space].append(i)
        for (_, space), indices in groups.items():
            values = np.stack([v for i in indices if (v := batch[i].values) is not None])
            norms = np.array([batch[i].norm for i in indices], dtype=np.int64)
            bonus = np.array([batch[i].diff.match_bonus for i in indices], dtype=np.int32)
            tenant = batch[indices[0]].diff.tenant
            for row, beacon, score in self._beacons.candidates(tenant, space, values, norms, bonus):
                self._keep(out[indices[row]], beacon, batch[indices[row]].diff, score)
        return out

    def _keep(self, out: dict[AgentId, list[Match]], beacon: Beacon, diff: Diff, score: int | None) -> None:
        match = judge(beacon, diff, score, self._covers)
        if match is not None:
            out[beacon.agent_id].append(match)

    # -- judging again

    def judge_cells_again(self, cell_nos: Iterable[int], arrived_us: int) -> None:
        """Judge cells anew against every beacon: entries appear, change or vanish."""
        for cell_no in sorted(set(cell_nos)):
            events = [self._load(local, cell_no) for local in self._locals_of(cell_no)]
            merged: dict[AgentId, dict[BeaconId, Match]] = defaultdict(dict)
            for by_agent in self._matches(events):
                for agent, hits in by_agent.items():
                    merge_matches(merged[agent], hits)
            first = min((e.diff for e in events), key=lambda d: (d.hlc, d.position))
            held = database.rows(
                self._db, "SELECT agent_id FROM entries WHERE diff=? AND kind='created'", first.diff
            )
            for (agent,) in held:
                if agent not in merged:
                    self._db.execute("DELETE FROM entries WHERE agent_id=? AND diff=?", (agent, first.diff))
            for agent, matched in merged.items():
                self._write(first, agent, matched, arrived_us)
            self.tell_of_replacements(first.cell, arrived_us)

    def _locals_of(self, cell_no: int) -> list[int]:
        rows = database.rows(self._db, "SELECT local FROM cell_events WHERE cell_no=?", cell_no)
        return [int(row[0]) for row in rows]

    def _load(self, local: int, cell_no: int) -> Judged:
        logged = read_logged(self._db, local)
        payload = decode_payload("CellStored", logged.event.payload or b"")
        assert isinstance(payload, CellStored)
        return as_judged(logged, payload, cell_no)

    # -- rows

    def _merge(self, diff: Diff, agent: AgentId, hits: Sequence[Match], arrived_us: int) -> None:
        row = database.row(
            self._db, "SELECT matched FROM entries WHERE agent_id=? AND diff=?", agent, diff.diff
        )
        matched = {m.beacon: m for m in unpack_matches(row[0])} if row else {}
        merge_matches(matched, hits)
        self._write(diff, agent, matched, arrived_us)

    def _write(self, diff: Diff, agent: AgentId, matched: dict[BeaconId, Match], arrived_us: int) -> None:
        own = diff.session if diff.agent_id == agent else None
        if any(m.include_own for m in matched.values()):
            own = None
        packed = pack_matches(matched.values())
        self._upsert(diff, agent, diff.diff, "created", diff.cell_no, None, own, packed, arrived_us)

    def _upsert(
        self,
        diff: Diff,
        agent: AgentId,
        entry: DiffId,
        kind: str,
        cell_no: int,
        other_no: int | None,
        own: bytes | None,
        matched: bytes,
        arrived_us: int,
    ) -> None:
        self._last_us = max(arrived_us, self._last_us + 1)
        self._db.execute(
            "INSERT INTO entries(tenant_id, agent_id, diff, kind, cell_no, other_no, local, wall_ms, counter,"
            " own_session, matched, arrived_us, read_local) VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?)"
            " ON CONFLICT(agent_id, diff) DO UPDATE SET matched=excluded.matched,"
            " wall_ms=min(wall_ms, excluded.wall_ms),"
            " counter=iif(excluded.wall_ms<wall_ms, excluded.counter,"
            "   iif(excluded.wall_ms=wall_ms, min(counter, excluded.counter), counter)),"
            " own_session=excluded.own_session",
            (
                diff.tenant,
                agent,
                entry,
                kind,
                cell_no,
                other_no,
                diff.local,
                diff.hlc.wall_ms,
                diff.hlc.counter,
                own,
                matched,
                self._last_us,
                read_since(self._db, agent, entry),
            ),
        )

    # -- replacements

    def tell_of_replacements(self, cell: CellId, arrived_us: int) -> None:
        """Bring the `superseded` entries that concern a cell, as the old or the new one, up to date."""
        pairs = database.rows(
            self._db,
            "SELECT old, new FROM supersessions WHERE old=?1"
            " UNION SELECT old, new FROM supersessions WHERE new=?1",
            cell,
        )
        for old, new in pairs:
            self._tell(old, new, arrived_us)

    def _tell(self, old: bytes, new: bytes, arrived_us: int) -> None:
        found = database.rows(
            self._db, "SELECT cell, cell_no, agent_id, local FROM cells WHERE cell IN (?, ?)", old, new
        )
        rows = {row[0]: row[1:] for row in found}
        if old not in rows or new not in rows:
            return
        old_no, author, _ = rows[old]
        new_no, _, new_local = rows[new]
        diff = self._load(new_local, new_no).diff
        entry = diff_id("superseded", old, new)
        told = {AgentId(author)} | {
            AgentId(agent)
            for (agent,) in database.rows(
                self._db, "SELECT agent_id FROM entries WHERE cell_no=? AND kind='created'", old_no
            )
        }
        if diff.session is None:
            told.discard(diff.agent_id)
        for (agent,) in database.rows(self._db, "SELECT agent_id FROM entries WHERE diff=?", entry):
            if agent not in told:
                self._db.execute("DELETE FROM entries WHERE agent_id=? AND diff=?", (agent, entry))
        for agent in sorted(told):
            own = diff.session if diff.agent_id == agent else None
            self._upsert(diff, agent, entry, "superseded", old_no, new_no, own, b"\x90", arrived_us)


def merge_matches(into: dict[BeaconId, Match], hits: Iterable[Match]) -> None:
    """Keep per beacon the higher score, and `include_own` if any says so: commutative and idempotent."""
    for hit in hits:
        held = into.get(hit.beacon)
        if held is not None:
            hit = Match(hit.beacon, max(hit.score, held.score), hit.include_own or held.include_own)
        into[hit.beacon] = hit


def pack_matches(matched: Iterable[Match]) -> bytes:
    return encode(tuple(sorted(tuple(m) for m in matched)))


def unpack_matches(data: bytes) -> list[Match]:
    return [Match(*item) for item in decode(data)]


def read_since(db: apsw.Connection, agent: bytes, diff: bytes) -> int | None:
    """Return the place of arrival at which the agent's own set came to hold a diff, or None.

    It does once a page that lists the diff is committed and, for a session's page, the session is closed.
    """
    found: int | None = database.value(
        db,
        "SELECT min(max(p.local, c.local, ifnull(x.local, 0))) FROM refs r JOIN pages p ON p.page=r.page"
        " JOIN commits c ON c.page=p.page LEFT JOIN closings x ON x.session=p.session"
        " WHERE r.agent_id=? AND r.diff=? AND (p.session IS NULL OR x.local IS NOT NULL)",
        agent,
        diff,
    )
    return found
