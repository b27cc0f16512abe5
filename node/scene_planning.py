"""What a consolidation comes to: which scenes there are now, which of them changed, and the events that say so.

Pure.  Ids follow from what they name, so that two peers which hold the same cells and scenes plan the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from node.scene_clustering import Former, Points, Progress, cluster
from node.scene_summary import MEMBERS_READ, Summary
from node.scenes_projection import Scope
from node.scenes_query import SCENE_AGENT, HeldScene, Place
from proto.ids import derive
from proto.limits import DERIVED_FROM, SCENE_LEAST
from proto.payloads import CellStored, Scene, SceneConsolidated, Vector
from proto.scoring import scores

THRESHOLD: Final = 4_500
"""Ten-thousandths of cosine that a member scores with the middle of its scene.  Over the 236 memories of
`deploy/demo`, five projects, with the default model: 0.45 puts 68 of them into 15 scenes, in which 63 % of the
pairs share a tag (5 % of all pairs in a project do); 0.40 puts 106 into 20 with 36 %, 0.50 puts 40 into 9 with
82 %."""

EVENT_ROOM: Final = 200_000  # bytes of scenes in one event, below `limits.EVENT_BYTES` with what frames them
_MEMBER_BYTES, _SCENE_BYTES = 18, 256
SALIENCE: Final = 5_000  # of a summary: as of a memory stored without one
_UNKNOWN_FIT = 5_000  # of a member whose vector cannot be compared here


@dataclass(frozen=True, slots=True)
class Planned:
    """One scene as it will be.

    Args:
        members: in order of time.
        central: (member, score with the medoid), the medoid first, for a summariser.
        held: the scene that it continues, if any.
    """

    scene: bytes
    medoid: bytes
    members: tuple[bytes, ...]
    central: tuple[tuple[bytes, int], ...]
    from_ms: int
    to_ms: int
    held: HeldScene | None

    @property
    def changed(self) -> bool:
        """Whether it says something else than the scene that it continues."""
        held = self.held
        return held is None or held.medoid != self.medoid or set(held.members) != set(self.members)

    @property
    def needs_summary(self) -> bool:
        return self.held is None or self.changed or not self.held.summary_lives

    def named(self, title: str, summary: bytes) -> Scene:
        """Return it as events say it."""
        return Scene(
            scene=self.scene,
            title=title,
            medoid=self.medoid,
            summary=summary,
            from_ms=self.from_ms,
            to_ms=self.to_ms,
            members=self.members,
        )


@dataclass(frozen=True, slots=True)
class Cells:
    """The live cells of a scope: those that can be compared, row by row, and the others."""

    places: tuple[Place, ...]
    points: Points
    others: Mapping[bytes, Place]


def comparable(places: Sequence[Place], vectors: Sequence[Vector | None], dimensions: int) -> Cells:
    """Return cells as rows; `places` are in order of (HLC, cell id)."""
    rows = [(p, v) for p, v in zip(places, vectors, strict=True) if v is not None]
    values = np.zeros((len(rows), dimensions), dtype=np.int8)
    for row, (_, vector) in enumerate(rows):
        values[row] = np.frombuffer(vector.values, dtype=np.int8)
    norms = np.array([v.norm for _, v in rows], dtype=np.int64)
    others = {p.cell: p for p, v in zip(places, vectors, strict=True) if v is None}
    return Cells(tuple(p for p, _ in rows), Points(values, norms), others)


def plan(
    scope: Scope,
    cells: Cells,
    held: Sequence[HeldScene],
    threshold: int = THRESHOLD,
    progress: Progress = lambda _done, _total: None,
) -> list[Planned]:
    """Return the scenes of a scope, given its live cells and the scenes it has: by their first member."""
    row_of = {place.cell: row for row, place in enumerate(cells.places)}
    kept = [planned for h in held if (planned := _kept_as_is(h, cells)) is not None]
    compared = [h for h in held if not any(m in cells.others for m in h.members)]
    former = [
        Former(row_of.get(h.medoid), tuple(row_of[m] for m in h.members if m in row_of)) for h in compared
    ]
    groups = cluster(cells.points, former, threshold, progress)
    used = {p.scene for p in kept} | {compared[g.former].scene for g in groups if g.former is not None}
    for group in groups:
        before = None if group.former is None else compared[group.former]
        medoid = cells.places[group.middle].cell
        scene = _new_id(scope, medoid, used) if before is None else before.scene
        used.add(scene)
        kept.append(_planned(scene, group.middle, group.members, cells, before))
    return sorted(kept, key=lambda p: (p.from_ms, p.scene))


def _kept_as_is(held: HeldScene, cells: Cells) -> Planned | None:
    """Return a scene of members that cannot be compared here: those that still live stay together."""
    places = sorted(cells.others[m] for m in held.members if m in cells.others)
    if len(places) < SCENE_LEAST:
        return None
    members = tuple(p.cell for p in places)
    medoid = held.medoid if held.medoid in members else members[0]
    central = [(medoid, 10_000), *((m, _UNKNOWN_FIT) for m in members if m != medoid)]
    first, last = places[0].wall_ms, places[-1].wall_ms
    return Planned(held.scene, medoid, members, tuple(central[:MEMBERS_READ]), first, last, held)


def _new_id(scope: Scope, medoid: bytes, used: set[bytes]) -> bytes:
    """Return the id of a new scene: it follows from the cell it began with, and stays when that moves on."""
    tenant, project, owner = scope
    number = 0
    while True:
        scene = derive("scene", tenant, project.encode(), owner.encode(), medoid, number.to_bytes(4, "big"))
        if scene not in used:
            return scene
        number += 1


def _planned(
    scene: bytes, middle: int, rows: tuple[int, ...], cells: Cells, held: HeldScene | None
) -> Planned:
    at = np.array(rows, dtype=np.int64)
    points, one = cells.points, np.array([middle])
    fits = scores(points.floats(one), points.norms[one], points.floats(at), points.norms[at])[0]
    by_fit = sorted(zip(rows, fits.tolist(), strict=True), key=lambda r: (r[0] != middle, -r[1], r[0]))
    return Planned(
        scene,
        cells.places[middle].cell,
        tuple(cells.places[row].cell for row in rows),
        tuple((cells.places[row].cell, fit) for row, fit in by_fit[:MEMBERS_READ]),
        cells.places[rows[0]].wall_ms,
        cells.places[rows[-1]].wall_ms,
        held,
    )


def is_new(planned: Sequence[Planned], held: Sequence[HeldScene], retired: Sequence[bytes]) -> bool:
    """Tell whether a plan says anything that is not so already."""
    return bool(retired) or len(planned) != len(held) or any(p.needs_summary for p in planned)


def as_events(
    scope: Scope, run: bytes, scenes: Sequence[Scene], retired: Sequence[bytes], room: int = EVENT_ROOM
) -> list[SceneConsolidated]:
    """Return the events of one consolidation, each of at most about `room` bytes."""
    _, project, owner = scope
    batches = list(_batches(scenes, retired, room))
    return [
        SceneConsolidated(
            run=run,
            project=project,
            owner=owner or None,
            part=number,
            parts=len(batches),
            scenes=tuple(found),
            retired=tuple(gone),
        )
        for number, (found, gone) in enumerate(batches, start=1)
    ]


def _batches(
    scenes: Sequence[Scene], retired: Sequence[bytes], size: int
) -> Iterator[tuple[list[Scene], list[bytes]]]:
    batch: list[Scene] = []
    room = size
    for scene in scenes:
        overhead = _SCENE_BYTES + len(scene.title.encode())
        members = scene.members
        while members:
            fitting = (room - overhead) // _MEMBER_BYTES
            if batch and fitting < min(len(members), SCENE_LEAST):
                yield batch, []
                batch, room = [], size
                continue
            part = members[: max(1, fitting)]
            batch.append(scene.model_copy(update={"members": part}))
            room -= overhead + len(part) * _MEMBER_BYTES
            members = members[len(part) :]
    fitting = max(0, room // _MEMBER_BYTES)
    yield batch, list(retired[:fitting])
    most = max(1, size // _MEMBER_BYTES)
    for start in range(fitting, len(retired), most):
        yield [], list(retired[start : start + most])


def summary_id(scene: bytes, text: str, is_replaced: Callable[[bytes], bool]) -> bytes:
    """Return the id of a summary: it follows from what it says, and differs from those that were replaced."""
    number = 0
    while True:
        cell = derive("summary", scene, text.encode(), number.to_bytes(4, "big"))
        if not is_replaced(cell):
            return cell
        number += 1


def as_cell(
    scope: Scope, planned: Planned, summary: Summary, cell: bytes, vector: Vector | None, embedded_chars: int
) -> CellStored:
    """Return a summary as a memory on layer 1; it replaces the summary that the scene had."""
    _, project, owner = scope
    held = planned.held
    former = held.summary if held is not None and held.summary_lives and held.summary != cell else None
    return CellStored(
        cell=cell,
        content=summary.text,
        cell_type="Context",
        salience=SALIENCE,
        project=project,
        owner=owner or SCENE_AGENT,
        agent=SCENE_AGENT,
        layer=1,
        supersedes=former,
        derived_from=summary.quoted[:DERIVED_FROM],
        vector=vector,
        embedded_chars=embedded_chars,
    )
