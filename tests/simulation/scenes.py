"""Consolidations in the simulated world, as `node.service.consolidation` does them, and what they must come to.

Which scenes there are is worked out once more from the whole log, apart from the product: the newest
consolidation of a scope of which every event is there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

import apsw

from node import database, scenes_query
from node.replica import Draft
from node.scene_planning import as_cell, as_events, comparable, is_new, plan, summary_id
from node.scene_summary import ExtractiveSummariser, Member
from node.scenes_projection import Scope
from proto.clock import Hlc
from proto.events import Event
from proto.payloads import PRIVATE, CellStored, Scene, SceneConsolidated, decode_payload
from proto.streams import Position, StreamId
from tests.simulation.memory_history import Agent

THRESHOLD = 6_000  # one topic of two in common is enough
ROOM = 400  # bytes in one event: small, so that most consolidations are several


class Known(NamedTuple):
    """One scene as far as a state says."""

    scene: bytes
    medoid: bytes
    summary: bytes
    members: frozenset[bytes]


def drafts_of(
    db: apsw.Connection, space: str, dimensions: int, agent: Agent, project: str, run: bytes
) -> list[Draft]:
    """Return the events of a consolidation, none if nothing has changed."""
    scope: Scope = (agent.tenant, project, agent.owner if project == PRIVATE else "")
    places = scenes_query.live_cells(db, scope, None)
    held = scenes_query.held_scenes(db, scope)
    vectors = scenes_query.comparable_vectors(db, places, f"{space}/{dimensions}")
    planned = plan(scope, comparable(places, vectors, dimensions), held, THRESHOLD)
    scenes: list[Scene] = []
    summaries: list[CellStored] = []
    for p in planned:
        if p.held is not None and not p.needs_summary:
            scenes.append(p.named(p.held.title, p.held.summary))
            continue
        texts = scenes_query.contents(db, [cell for cell, _ in p.central])
        summary = ExtractiveSummariser().summarise([Member(c, texts[c], fit) for c, fit in p.central])
        cell = summary_id(p.scene, summary.text, lambda cell: scenes_query.is_replaced(db, cell))
        scenes.append(p.named(summary.title, cell))
        summaries.append(as_cell(scope, p, summary, cell, None, 0))
    named = {s.summary for s in scenes} | {c.supersedes for c in summaries if c.supersedes}
    retired = [cell for cell in scenes_query.live_summaries(db, scope) if cell not in named]
    if not is_new(planned, held, retired):
        return []
    new = [c for c in summaries if not scenes_query.is_stored(db, c.cell)]
    payloads = [*new, *as_events(scope, run, scenes, retired, ROOM)]
    return [Draft.of(agent.tenant, agent.id, payload) for payload in payloads]


def folded(db: apsw.Connection) -> dict[Scope, set[Known]]:
    """Return the scenes that a peer has."""
    out: dict[Scope, set[Known]] = defaultdict(set)
    for number, tenant, project, owner, scene, medoid, summary in database.rows(
        db, "SELECT scene_no, tenant_id, project, owner, scene, medoid, summary FROM scenes"
    ):
        members = database.rows(db, "SELECT cell FROM scene_members WHERE scene_no=?", number)
        out[tenant, project, owner].add(Known(scene, medoid, summary, frozenset(m for (m,) in members)))
    return dict(out)


def due(log: Iterable[Event]) -> dict[Scope, set[Known]]:
    """Return the scenes that a whole log comes to."""
    runs: dict[tuple[StreamId, bytes], list[tuple[Event, SceneConsolidated]]] = defaultdict(list)
    for event in log:
        payload = None if event.payload is None else decode_payload(event.header.kind, event.payload)
        if isinstance(payload, SceneConsolidated):
            runs[event.header.stream, payload.run].append((event, payload))
    newest: dict[Scope, tuple[Hlc, Position]] = {}
    out: dict[Scope, set[Known]] = {}
    for parts in runs.values():
        last, payload = parts[-1]
        scope: Scope = (last.header.tenant, payload.project, payload.owner or "")
        place = (last.header.hlc, last.header.position)
        if len(parts) < payload.parts or place < newest.get(scope, place):
            continue
        newest[scope] = place
        members: dict[bytes, set[bytes]] = defaultdict(set)
        found: dict[bytes, Scene] = {}
        for _, part in parts:
            for scene in part.scenes:
                found.setdefault(scene.scene, scene)
                members[scene.scene].update(scene.members)
        out[scope] = {
            Known(s.scene, s.medoid, s.summary, frozenset(members[s.scene])) for s in found.values()
        }
    return {scope: scenes for scope, scenes in out.items() if scenes}
