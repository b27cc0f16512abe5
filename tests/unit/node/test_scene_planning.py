"""Plans of consolidations: stable ids, what counts as changed, cells of other spaces, events within their size."""

from __future__ import annotations

import random
from typing import Any

from node.scene_planning import Cells, Planned, as_events, comparable, is_new, plan
from node.scenes_projection import Scope
from node.scenes_query import HeldScene, Place
from proto import limits
from proto.ids import TenantId, derive
from proto.payloads import Scene, Vector, encode_payload
from tests.support.replicas import EAST, NORTH

SCOPE: Scope = (TenantId(bytes(16)), "web", "")


def place(number: int) -> Place:
    return Place(1_000 + number, 0, derive("cell", str(number).encode()), number)


def cells_of(*vectors: Vector | None, first: int = 0) -> Cells:
    return comparable([place(first + n) for n in range(len(vectors))], vectors, 4)


def held(planned: Planned, **fields: Any) -> HeldScene:
    given = {
        "scene": planned.scene,
        "title": "t",
        "medoid": planned.medoid,
        "summary": b"s" * 16,
        "summary_lives": True,
        "members": planned.members,
    }
    return HeldScene(**{**given, **fields})


def test_the_id_of_a_scene_stays_while_it_grows() -> None:
    (before,) = plan(SCOPE, cells_of(NORTH, NORTH, NORTH), [])
    (after,) = plan(SCOPE, cells_of(NORTH, NORTH, NORTH, NORTH), [held(before)])
    assert after.scene == before.scene
    assert after.changed
    assert len(after.members) == 4
    assert (after.from_ms, after.to_ms) == (1_000, 1_003)


def test_nothing_new_is_planned_twice() -> None:
    cells = cells_of(NORTH, NORTH, NORTH, EAST, EAST, EAST)
    planned = plan(SCOPE, cells, [])
    again = plan(SCOPE, cells, [held(p) for p in planned])
    assert [p.changed for p in again] == [False, False]
    assert is_new(planned, [], [])
    assert not is_new(again, [held(p) for p in planned], [])


def test_a_scene_whose_summary_was_replaced_gets_another() -> None:
    cells = cells_of(NORTH, NORTH, NORTH)
    (planned,) = plan(SCOPE, cells, [])
    (again,) = plan(SCOPE, cells, [held(planned, summary_lives=False)])
    assert not again.changed
    assert again.needs_summary


def test_scopes_give_other_ids() -> None:
    cells = cells_of(NORTH, NORTH, NORTH)
    scopes: list[Scope] = [
        SCOPE,
        (SCOPE[0], "ops", ""),
        (SCOPE[0], "private", "ann"),
        (SCOPE[0], "private", "ben"),
    ]
    assert len({plan(scope, cells, [])[0].scene for scope in scopes}) == 4


def test_a_new_scene_never_takes_the_id_of_one_that_goes_on() -> None:
    (first,) = plan(SCOPE, cells_of(NORTH, NORTH, NORTH), [])
    places = [place(n) for n in range(6)]
    moved = held(first, medoid=places[4].cell, members=tuple(p.cell for p in places[3:]))
    planned = plan(SCOPE, comparable(places, (NORTH, NORTH, NORTH, EAST, EAST, EAST), 4), [moved])
    assert len({p.scene for p in planned}) == 2
    assert {p.scene for p in planned if p.held} == {first.scene}


def test_cells_that_cannot_be_compared_are_left_out_and_their_scenes_stay() -> None:
    cells = cells_of(NORTH, None, NORTH, None, NORTH, None, None)
    others = sorted(cells.others.values())
    foreign = HeldScene(b"f" * 16, "t", others[1].cell, b"s" * 16, True, tuple(p.cell for p in others[:3]))
    planned = {p.scene: p for p in plan(SCOPE, cells, [foreign])}
    assert len(planned) == 2
    assert not planned[foreign.scene].changed
    assert others[3].cell not in {m for p in planned.values() for m in p.members}


def test_a_scene_of_cells_that_cannot_be_compared_ends_when_it_is_too_small() -> None:
    cells = cells_of(None, None)
    members = (*cells.others, b"g" * 16)
    assert plan(SCOPE, cells, [HeldScene(b"f" * 16, "t", members[0], b"s" * 16, True, members)]) == []


def scene(number: int, members: int, title: str = "title") -> Scene:
    ids = tuple(derive("m", str((number, n)).encode()) for n in range(members))
    name = derive("s", str(number).encode())
    return Scene(scene=name, title=title, medoid=ids[0], summary=name, from_ms=1, to_ms=2**50, members=ids)


def test_events_hold_every_member_once_and_keep_their_size() -> None:
    rng = random.Random(3)
    scenes = [scene(n, rng.choice((3, 40, 900)), "\U0001f344" * 80) for n in range(150)] + [
        scene(999, 30_000)
    ]
    retired = [derive("r", str(n).encode()) for n in range(20_000)]
    events = as_events(SCOPE, bytes(16), scenes, retired)
    assert len(events) > 3
    assert [(e.part, e.parts) for e in events] == [(n + 1, len(events)) for n in range(len(events))]
    assert all(len(encode_payload(e)) < limits.EVENT_BYTES - 4_096 for e in events)
    told = [(s.scene, m) for e in events for s in e.scenes for m in s.members]
    assert len(told) == len(set(told))
    assert set(told) == {(s.scene, m) for s in scenes for m in s.members}
    assert [cell for e in events for cell in e.retired] == retired


def test_no_scenes_at_all_is_one_event() -> None:
    (event,) = as_events((SCOPE[0], "private", "ann"), bytes(16), [], [])
    assert (event.owner, event.part, event.parts, event.scenes) == ("ann", 1, 1, ())
