"""Rows and payloads as the objects that agents read: cells, diffs, beacons, and the byte budget of a result.

Objects leave out empty and default members; times are RFC 3339 in UTC.  Reads only.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import apsw

from mcp_gateway.moments import format_time_us
from node import database
from node.lost_tails import LostTail
from node.stored_events import read_stored
from proto import limits
from proto.ids import format_base32, format_uuid
from proto.payloads import CellStored
from proto.streams import StreamId

DEFAULT_SALIENCE = 5_000


@dataclass(frozen=True, slots=True)
class StoredCell:
    """A cell with its payload."""

    cell_no: int
    local: int
    wall_ms: int
    payload: CellStored
    superseded_by: bytes | None

    @property
    def created_at(self) -> str:
        return format_ms(self.wall_ms)


def format_ms(wall_ms: int) -> str:
    """Return milliseconds since 1970 as RFC 3339 in UTC."""
    return format_time_us(wall_ms * 1000)


def format_stream(stream: StreamId) -> str:
    """Return a stream as people see it: peer, partition, epoch."""
    return f"{format_base32(stream.peer)}.{stream.partition}.{stream.ordinal}-{stream.random.hex()}"


def shown_tails(lost: Sequence[LostTail]) -> dict[str, Any]:
    """Return lost tails as a member of a result; none when there are none."""
    shown = [{"stream": format_stream(t.stream), "from": t.first, "to": t.last} for t in lost]
    return {"lost_tails": shown} if shown else {}


def load_cells(db: apsw.Connection, cell_nos: Iterable[int]) -> dict[int, StoredCell]:
    """Return the cells of these numbers; unknown ones, and those whose event is damaged, are left out."""
    out: dict[int, StoredCell] = {}
    for cell_no in cell_nos:
        found = database.row(
            db, "SELECT local, wall_ms, cell, superseded FROM cells WHERE cell_no=?", cell_no
        )
        if found is None or cell_no in out:
            continue
        local, wall_ms, cell, superseded = found
        stored = read_stored(db, local)
        if stored is not None and isinstance(stored.payload, CellStored):
            newer = _newest_replacement(db, cell) if superseded else None
            out[cell_no] = StoredCell(cell_no, local, wall_ms, stored.payload, newer)
    return out


def _newest_replacement(db: apsw.Connection, cell: bytes) -> bytes | None:
    found: bytes | None = database.value(
        db,
        "SELECT s.new FROM supersessions s JOIN cells c ON c.cell=s.new WHERE s.old=?"
        " ORDER BY c.wall_ms DESC, c.counter DESC, s.new DESC LIMIT 1",
        cell,
    )
    return found


def cut_content(content: str, chars: int = limits.ENTRY_CHARS) -> dict[str, Any]:
    """Return {content} and, when it is cut at a number of characters, {content_chars}: how many there are."""
    if len(content) <= chars:
        return {"content": content}
    return {"content": content[:chars], "content_chars": len(content)}


def fitting_cell(cell: StoredCell, distance: float, max_bytes: int) -> dict[str, Any]:
    """Return a cell with as much of its content as a budget holds, at least as much as among others."""
    size = len(cell.payload.content)
    if size_of(cell_object(cell, distance, size)) <= max_bytes:
        return cell_object(cell, distance, size)
    fits, too_many = limits.ENTRY_CHARS, size
    while too_many - fits > 1:
        chars = (fits + too_many) // 2
        if size_of(cell_object(cell, distance, chars)) <= max_bytes:
            fits = chars
        else:
            too_many = chars
    return cell_object(cell, distance, fits)


def cell_object(cell: StoredCell, distance: float, chars: int = limits.ENTRY_CHARS) -> dict[str, Any]:
    """Return a cell as recall shows it with its content, cut at a number of characters."""
    p = cell.payload
    out: dict[str, Any] = {
        "node_id": format_uuid(p.cell),
        "distance": distance,
        **cut_content(p.content, chars),
        "cell_type": p.cell_type,
        "project": p.project,
        "source_agent": p.agent,
        "created_at": cell.created_at,
    }
    out.update(details(cell))
    return out


def details(cell: StoredCell) -> dict[str, Any]:
    """Return the members of a cell that are left out when they are at their default."""
    p = cell.payload
    out: dict[str, Any] = {}
    if p.salience != DEFAULT_SALIENCE:
        out["salience"] = p.salience / 10_000
    if p.layer:
        out["layer"] = p.layer
    if p.tags:
        out["tags"] = list(p.tags)
    if p.session is not None:
        out["session_id"] = format_uuid(p.session)
    if cell.superseded_by is not None:
        out["superseded_by"] = format_uuid(cell.superseded_by)
    return out


def size_of(item: Mapping[str, Any]) -> int:
    """Return the bytes of an object as it will be written, with its separator."""
    return len(json.dumps(item, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")) + 1


def within_budget(items: Sequence[dict[str, Any]], max_bytes: int) -> list[dict[str, Any]]:
    """Return the leading items that fit a budget: at least one, none of them cut."""
    used, kept = 0, 0
    for item in items:
        used += size_of(item)
        if kept and used > max_bytes:
            break
        kept += 1
    return list(items[:kept])
