"""One entry of an inbox with the numbers that put it there, as `explain_entry` shows it.

Scores are those in the entry; threshold and bonus are of the placement that `matching` decides by.  Reads only.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import apsw

from mcp_gateway.moments import format_time_us
from node import database
from node.beacon_index import BeaconIndex
from node.inbox_projection import load_judged, unpack_matches
from node.inbox_query import COLUMNS, Entry
from node.matching import Beacon, Coverages, Diff, Filters, Match, Placement, bonus_of, deciding
from node.principals import Principal
from node.service.full_cells import provenance, visible_of
from node.service.inbox import interest_of
from node.service.views import StoredCell, load_cells
from node.stored_events import read_stored
from proto.errors import Corrupted
from proto.ids import DiffId, format_uuid
from proto.payloads import CellStored

PATH_SHOWN = 50
_ANY = Filters(None, frozenset(), frozenset((0, 1, 2)), 0)


@dataclass(frozen=True, slots=True)
class LoadedEntry:
    """What the database holds of an entry.

    Args:
        events: of the memory, earliest first: each was judged by itself.
        interests: texts of the beacons that matched.
        shown: the part of the result that needs no beacon.
    """

    entry: Entry
    cell: StoredCell
    events: list[Diff]
    interests: Mapping[bytes, str]
    shown: dict[str, Any]


def load_entry(db: apsw.Connection, principal: Principal, diff: DiffId) -> LoadedEntry | None:
    """Return an entry of a principal's agent that it may read, or None.

    Raises:
        Corrupted: the event of its memory is damaged.
    """
    condition, parameters = principal.scope(None).condition("c")
    row = database.row(
        db,
        f"SELECT {COLUMNS}, e.read_local FROM entries e JOIN cells c ON c.cell_no=e.cell_no"  # noqa: S608
        f" WHERE e.agent_id=? AND e.diff=? AND {condition}",
        principal.agent_id,
        diff,
        *parameters,
    )
    if row is None:
        return None
    entry, read = Entry(*row[:-1]), row[-1] is not None
    numbers = [entry.cell_no] if entry.other_no is None else [entry.cell_no, entry.other_no]
    cells = load_cells(db, numbers)
    cell = cells.get(entry.cell_no)
    if cell is None:
        raise Corrupted("the event of this memory cannot be read; run `hyphae log verify`.")
    newer = None if entry.other_no is None else cells.get(entry.other_no)
    interests: dict[bytes, str] = {}
    for match in unpack_matches(entry.matched):
        interest_of(db, match.beacon, interests)
    shown = {
        "read": read,
        **({} if newer is None else {"replaced_by": format_uuid(newer.payload.cell)}),
        "provenance": provenance(db, cell),
        "path": list(_path(db, principal, cell)),
    }
    events = [j.diff for j in load_judged(db, entry.cell_no)]
    return LoadedEntry(entry, cell, events, interests, shown)


def explained(loaded: LoadedEntry, beacons: BeaconIndex, covers: Coverages) -> dict[str, Any]:
    """Return the result of `explain_entry`; runs where the beacons are, between commits."""
    entry, cell, p = loaded.entry, loaded.cell, loaded.cell.payload
    matches = sorted(unpack_matches(entry.matched), key=lambda m: -m.score)
    return {
        "diff_id": format_uuid(entry.diff),
        "kind": entry.kind,
        "node_id": format_uuid(p.cell),
        "cell_type": p.cell_type,
        "project": p.project,
        "source_agent": p.agent,
        "created_at": cell.created_at,
        "delivered_at": format_time_us(entry.arrived_us),
        "why": _why(entry, len(matches)),
        "beacons": [_match(m, loaded, beacons.get(m.beacon), covers) for m in matches],
        "match_bonus": {
            "value": p.match_bonus,
            "cell_type": p.cell_type,
            "salience": p.salience / 10_000,
        },
        **loaded.shown,
    }


def _why(entry: Entry, matched: int) -> str:
    if entry.kind == "superseded":
        return "It was stored by you or listed to you, and has been replaced since."
    return f"{matched} of your beacons let it through."


def _match(match: Match, loaded: LoadedEntry, beacon: Beacon | None, covers: Coverages) -> dict[str, Any]:
    out: dict[str, Any] = {
        "beacon_id": format_uuid(match.beacon),
        "interest": loaded.interests.get(match.beacon, ""),
        "score": match.score,
    }
    decided = None if beacon is None else _decided(match, loaded.events, beacon, covers)
    if beacon is None or decided is None:  # a link that came since has moved what lies before its frontier
        return {**out, "bonus": 0, "filters": []}
    placement, diff = decided
    return {
        **out,
        "bonus": 0 if placement.space is None else bonus_of(placement, diff),
        "threshold": placement.threshold,
        "strict": placement.strict,
        "filters": list(_filters(beacon.filters, placement, diff)),
    }


def _decided(
    match: Match, events: list[Diff], beacon: Beacon, covers: Coverages
) -> tuple[Placement, Diff] | None:
    """Return the placement that let one of a memory's events through, and that event."""
    for diff in events:
        placement = deciding(beacon, diff, covers)
        if placement is None:
            continue
        if placement.space is None or match.score + bonus_of(placement, diff) >= placement.threshold:
            return placement, diff
    return None


def _filters(filters: Filters, placement: Placement, diff: Diff) -> Iterator[dict[str, Any]]:
    """Yield each filter of a beacon by itself."""

    def check(name: str, passed: bool, wanted: object, value: object) -> dict[str, Any]:
        return {"filter": name, "passed": passed, "wanted": str(wanted), "value": str(value)}

    readable = "all" if placement.readable is None else ", ".join(sorted(placement.readable))
    yield check("readable", placement.may_read(diff), readable, diff.project)
    if filters.project is not None:
        alone = replace(_ANY, project=filters.project)
        yield check("project", alone.admit(diff), filters.project, diff.project)
    if filters.cell_types:
        alone = replace(_ANY, cell_types=filters.cell_types)
        yield check("cell_types", alone.admit(diff), ", ".join(sorted(filters.cell_types)), diff.cell_type)
    if filters.layers - {0} or diff.layer:
        alone = replace(_ANY, layers=filters.layers)
        wanted = ", ".join(map(str, sorted(filters.layers))) or "any"
        yield check("layers", alone.admit(diff), wanted, diff.layer)
    if filters.min_salience:
        alone = replace(_ANY, min_salience=filters.min_salience)
        yield check("min_salience", alone.admit(diff), filters.min_salience / 10_000, diff.salience / 10_000)


def _path(db: apsw.Connection, principal: Principal, cell: StoredCell) -> Iterator[dict[str, Any]]:
    """Yield what a memory replaces and rests on, breadth first, as far as a principal may read it."""
    seen, queue = {cell.payload.cell}, deque([(cell.payload, 1)])
    count = 0
    while queue:
        payload, steps = queue.popleft()
        links = [("derived_from", c) for c in payload.derived_from]
        if payload.supersedes is not None:
            links.insert(0, ("supersedes", payload.supersedes))
        for relation, older in links:
            if older in seen or not visible_of(db, principal, [older]):
                continue
            if count == PATH_SHOWN:
                return
            seen.add(older)
            count += 1
            yield {
                "node_id": format_uuid(older),
                "relation": relation,
                "of": format_uuid(payload.cell),
                "steps": steps,
            }
            held = _payload(db, older)
            if held is not None:
                queue.append((held, steps + 1))


def _payload(db: apsw.Connection, cell: bytes) -> CellStored | None:
    local = database.value(db, "SELECT local FROM cells WHERE cell=?", cell)
    stored = read_stored(db, local)
    return stored.payload if stored is not None and isinstance(stored.payload, CellStored) else None
