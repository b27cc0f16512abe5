"""What is known of scenes and of the cells that may belong to them.  Reads only, on any connection."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import apsw

from node import database
from node.beacon_index import is_usable, space_of
from node.inbox_query import Scope
from node.principals import RESERVED
from node.scenes_projection import Scope as SceneScope
from node.stored_events import read_stored
from proto.ids import TenantId
from proto.payloads import CellStored, Vector

SCENE_AGENT = f"{RESERVED}scenes"
"""Author of summaries: a name that no key can have."""

AGENTS_SHOWN = 50

_CELLS = "c.tenant_id=?1 AND c.project=?2 AND (?3='' OR c.owner=?3)"


class Place(NamedTuple):
    """A live cell of layer 0 as clustering orders it."""

    wall_ms: int
    counter: int
    cell: bytes
    local: int


@dataclass(frozen=True, slots=True)
class HeldScene:
    """A scene as it is now.

    Args:
        summary_lives: its summary is here and nothing has replaced it.
    """

    scene: bytes
    title: str
    medoid: bytes
    summary: bytes
    summary_lives: bool
    members: tuple[bytes, ...]


def live_cells(db: apsw.Connection, scope: SceneScope, session: bytes | None) -> list[Place]:
    """Return the live cells of layer 0 by (HLC, cell id); of a session: its cells and those in scenes already."""
    found = database.rows(
        db,
        f"SELECT c.wall_ms, c.counter, c.cell, c.local FROM cells c WHERE {_CELLS} AND c.layer=0"  # noqa: S608
        " AND c.superseded=0 AND (?4 IS NULL OR c.session=?4 OR c.cell IN (SELECT m.cell FROM scenes s"
        " JOIN scene_members m ON m.scene_no=s.scene_no"
        " WHERE s.tenant_id=?1 AND s.project=?2 AND s.owner=?3))",
        *scope,
        session,
    )
    return sorted(Place(*row) for row in found)


def comparable_vectors(db: apsw.Connection, places: Iterable[Place], space: str) -> list[Vector | None]:
    """Return per cell its vector, or None where it has none that can be compared in this space."""
    out: list[Vector | None] = []
    for place in places:
        stored = read_stored(db, place.local)
        payload = None if stored is None else stored.payload
        vector = payload.vector if isinstance(payload, CellStored) else None
        fits = vector is not None and is_usable(vector) and space_of(vector) == space
        out.append(vector if fits else None)
    return out


def held_scenes(db: apsw.Connection, scope: SceneScope) -> list[HeldScene]:
    """Return the scenes of a scope by id."""
    found = database.rows(
        db,
        "SELECT s.scene_no, s.scene, s.title, s.medoid, s.summary, EXISTS (SELECT 1 FROM cells c"
        " WHERE c.cell=s.summary AND c.superseded=0) FROM scenes s"
        " WHERE s.tenant_id=? AND s.project=? AND s.owner=? ORDER BY s.scene",
        *scope,
    )
    return [
        HeldScene(scene, title, medoid, summary, bool(lives), tuple(_members(db, number)))
        for number, scene, title, medoid, summary, lives in found
    ]


def _members(db: apsw.Connection, scene_no: int) -> list[bytes]:
    rows = database.rows(db, "SELECT cell FROM scene_members WHERE scene_no=? ORDER BY cell", scene_no)
    return [row[0] for row in rows]


def contents(db: apsw.Connection, cells: Sequence[bytes]) -> dict[bytes, str]:
    """Return the texts of cells; unknown and damaged ones are left out."""
    out = {}
    for cell in cells:
        local = database.value(db, "SELECT local FROM cells WHERE cell=?", cell)
        stored = None if local is None else read_stored(db, local)
        if stored is not None and isinstance(stored.payload, CellStored):
            out[cell] = stored.payload.content
    return out


def live_summaries(db: apsw.Connection, scope: SceneScope) -> list[bytes]:
    """Return the summaries of a scope that nothing has replaced, whether or not a scene has them."""
    found = database.rows(
        db,
        f"SELECT c.cell FROM cells c WHERE {_CELLS} AND c.layer=1 AND c.agent=?4 AND c.superseded=0"  # noqa: S608
        " ORDER BY c.cell",
        *scope,
        SCENE_AGENT,
    )
    return [row[0] for row in found]


def is_replaced(db: apsw.Connection, cell: bytes) -> bool:
    """Tell whether something has replaced a cell, known or not."""
    return database.row(db, "SELECT 1 FROM supersessions WHERE old=?", cell) is not None


def is_stored(db: apsw.Connection, cell: bytes) -> bool:
    """Tell whether a cell is here."""
    return database.row(db, "SELECT 1 FROM cells WHERE cell=?", cell) is not None


class SceneRow(NamedTuple):
    """A scene as readers find it."""

    scene_no: int
    scene: bytes
    title: str
    project: str
    summary: bytes
    from_ms: int
    to_ms: int
    cells: int
    agents: tuple[str, ...]


_ROW = "SELECT s.scene_no, s.scene, s.title, s.project, s.summary, s.from_ms, s.to_ms FROM scenes s"
_OF_SCENE = (
    "FROM scene_members m CROSS JOIN scenes s ON s.scene_no=m.scene_no CROSS JOIN cells c ON c.cell=m.cell"
    " AND c.tenant_id=s.tenant_id AND c.project=s.project AND (s.owner='' OR c.owner=s.owner)"
    " WHERE m.scene_no=?"
)
"""Members; should an event name others, only those of the scene's own tenant, project and owner.

CROSS, because SQLite reads every cell of the tenant for each scene when it may choose the order.
"""


def find_scene(db: apsw.Connection, tenant: TenantId, scope: Scope, scene: bytes) -> SceneRow | None:
    """Return a scene that a principal may see, or None."""
    condition, parameters = scope.condition("s")
    found = database.row(
        db, f"{_ROW} WHERE s.tenant_id=? AND s.scene=? AND {condition}", tenant, scene, *parameters
    )
    return None if found is None else _whole_row(db, found)


def latest_scenes(
    db: apsw.Connection, tenant: TenantId, scope: Scope, limit: int, after: tuple[int, bytes] | None
) -> list[SceneRow]:
    """Return the scenes that a principal may see, those with the latest members first.

    Args:
        after: (to_ms, scene) of the last one of the page before.
    """
    condition, parameters = scope.condition("s")
    to_ms, scene = after or (2**60, b"")
    found = database.rows(
        db,
        f"{_ROW} WHERE s.tenant_id=? AND s.to_ms<=? AND (s.to_ms<? OR s.scene>?) AND {condition}"
        " ORDER BY s.to_ms DESC, s.scene LIMIT ?",
        tenant,
        to_ms,
        to_ms,
        scene,
        *parameters,
        limit,
    )
    return [_whole_row(db, row) for row in found]


def _whole_row(db: apsw.Connection, row: database.Row) -> SceneRow:
    count = database.value(db, f"SELECT count(*) {_OF_SCENE}", row[0])
    agents = database.rows(
        db, f"SELECT DISTINCT c.agent {_OF_SCENE} ORDER BY c.agent LIMIT {AGENTS_SHOWN}", row[0]
    )
    number, scene, title, project, summary, from_ms, to_ms = row
    names = tuple(agent for (agent,) in agents)
    return SceneRow(number, scene, title, project, summary, from_ms, to_ms, count, names)


def member_numbers(db: apsw.Connection, scene_no: int, limit: int) -> list[int]:
    """Return the numbers of a scene's first members in order of time."""
    found = database.rows(
        db, f"SELECT c.cell_no {_OF_SCENE} ORDER BY c.wall_ms, c.counter, c.cell LIMIT ?", scene_no, limit
    )
    return [int(row[0]) for row in found]


def cell_number(db: apsw.Connection, cell: bytes) -> int | None:
    """Return the number of a cell, if it is here."""
    found: int | None = database.value(db, "SELECT cell_no FROM cells WHERE cell=?", cell)
    return found
