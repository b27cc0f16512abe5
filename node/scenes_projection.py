"""Scenes: the fold of consolidations into the scenes that each project has now.

A consolidation is one event or several of one stream, and counts when all of them are here; of those that
count, the newest by (HLC, position) says what the scenes of its project are.  So the scenes are a function of
the set of events, and no half consolidation is ever seen.  Runs on the writer's connection inside its
transaction.
"""

from __future__ import annotations

import apsw

from node import database
from node.sqlite_log import Logged
from node.stored_events import read_stored
from proto.clock import Hlc
from proto.ids import PeerId, TenantId
from proto.payloads import PRIVATE, SceneConsolidated
from proto.streams import Position, StreamId

Scope = tuple[TenantId, str, str]
"""Tenant, project, and the owner in the project that is each owner's own; else ""."""


def flaw_of(payload: SceneConsolidated) -> str | None:
    """Return why a consolidation is kept and forwarded but not folded, or None."""
    if payload.part > payload.parts:
        return "a part beyond the last"
    if (payload.project == PRIVATE) != (payload.owner is not None):
        return "an owner belongs to the private project only"
    return None


class ScenesProjection:
    """Writes `scene_parts`, `scene_runs`, `scenes` and `scene_members`."""

    def __init__(self, db: apsw.Connection) -> None:
        self._db = db

    def consolidate(self, logged: Logged, payload: SceneConsolidated) -> list[int]:
        """Fold one event.

        Returns:
            The numbers of cells that are hidden from now: summaries of scenes that are no more.
        """
        self._db.execute(
            "INSERT OR IGNORE INTO scene_parts VALUES(?,?,?,?,?)",
            (logged.stream_no, payload.run, payload.parts, payload.part, logged.local),
        )
        parts = database.rows(
            self._db,
            "SELECT local FROM scene_parts WHERE stream_no=? AND run=? AND parts=? ORDER BY part",
            logged.stream_no,
            payload.run,
            payload.parts,
        )
        if len(parts) == payload.parts:
            self._whole(logged, (logged.event.header.tenant, payload.project, payload.owner or ""), parts)
        return [
            number for cell in payload.retired for number in self._retire(cell, payload.run, logged.local)
        ]

    def _retire(self, cell: bytes, run: bytes, local: int) -> list[int]:
        """Hide a summary, also one that comes later: it is superseded by a run, not by another cell."""
        self._db.execute("INSERT OR IGNORE INTO supersessions VALUES(?,?,?)", (cell, run, local))
        self._db.execute("UPDATE cells SET superseded=1 WHERE cell=?", (cell,))
        return [int(n) for (n,) in database.rows(self._db, "SELECT cell_no FROM cells WHERE cell=?", cell)]

    def _whole(self, logged: Logged, scope: Scope, parts: list[database.Row]) -> None:
        """Let a run count whose last part has come, if it is the newest."""
        header = logged.event.header
        condition = "WHERE tenant_id=? AND project=? AND owner=?"
        newest = f"SELECT wall_ms, counter, local FROM scene_runs {condition}"  # noqa: S608
        held = database.row(self._db, newest, *scope)
        if held is not None and (header.hlc, header.position) <= (Hlc(*held[:2]), self._position(held[2])):
            return
        self._db.execute(
            f"DELETE FROM scene_members WHERE scene_no IN (SELECT scene_no FROM scenes {condition})",  # noqa: S608
            scope,
        )
        self._db.execute(f"DELETE FROM scenes {condition}", scope)  # noqa: S608
        self._db.execute(
            "INSERT OR REPLACE INTO scene_runs VALUES(?,?,?,?,?,?)", (*scope, *header.hlc, logged.local)
        )
        for (local,) in parts:
            stored = read_stored(self._db, local)
            if stored is not None and isinstance(stored.payload, SceneConsolidated):
                self._write(scope, stored.payload)

    def _position(self, local: int) -> Position:
        peer, partition, ordinal, random, sequence = database.rows(
            self._db,
            "SELECT s.peer, s.partition, s.ordinal, s.random, e.sequence FROM events e"
            " JOIN streams s ON s.stream_no=e.stream_no WHERE e.local=?",
            local,
        )[0]
        return Position(StreamId(PeerId(peer), partition, ordinal, random), sequence)

    def _write(self, scope: Scope, payload: SceneConsolidated) -> None:
        for scene in payload.scenes:
            self._db.execute(
                "INSERT OR IGNORE INTO scenes(tenant_id, project, owner, scene, title, medoid, summary,"
                " from_ms, to_ms) VALUES(?,?,?,?,?,?,?,?,?)",
                (*scope, scene.scene, scene.title, scene.medoid, scene.summary, scene.from_ms, scene.to_ms),
            )
            number = database.value(
                self._db,
                "SELECT scene_no FROM scenes WHERE tenant_id=? AND project=? AND owner=? AND scene=?",
                *scope,
                scene.scene,
            )
            self._db.executemany(
                "INSERT OR IGNORE INTO scene_members VALUES(?,?)", [(number, cell) for cell in scene.members]
            )
