"""Which scenes there are is a function of the events: newest whole run wins, halves are never seen."""

from __future__ import annotations

from typing import Any

from node import database, scenes_query
from node.inbox_query import Scope
from proto.payloads import PRIVATE, Payload, Scene, SceneConsolidated, encode_payload
from tests.support.replicas import START_MS, TENANT, Peer, assert_alike, cell_of, foreign, memory

A, B = b"a" * 16, b"b" * 16
ANN = Scope("ann")


def scene(name: bytes = A, *members: str, **fields: Any) -> Scene:
    cells = tuple(cell_of(m) for m in members or ("a", "b", "c"))
    given = {"title": "t", "medoid": cells[0], "summary": cell_of("h"), "from_ms": 1, "to_ms": 2}
    return Scene(**{**given, "scene": name, "members": cells, **fields})


def run(number: int, *scenes: Scene, **fields: Any) -> SceneConsolidated:
    return SceneConsolidated(**{"run": bytes([number] * 16), "project": "web", "scenes": scenes, **fields})


def titles(at: Peer, scope: Scope = ANN) -> list[str]:
    return sorted(s.title for s in scenes_query.latest_scenes(at.db, TENANT, scope, 100, None))


def encoded(*payloads: Payload) -> list[tuple[str, bytes]]:
    return [(type(p).__name__, encode_payload(p)) for p in payloads]


def test_a_consolidation_counts_when_its_last_part_is_there() -> None:
    one = Peer(1)
    for name in "abc":
        one.store(name)
    parts = encoded(
        run(1, scene(A, "a", "b", "c", title="whole")),
        run(2, scene(B, "a", "b", title="new"), part=1, parts=2),
        run(2, scene(B, "c", title="new"), part=2, parts=2),
    )
    segment = foreign(*parts, wall_ms=START_MS + 10**7)
    first = segment.__class__(segment.stream, segment.first, segment.previous, segment.events[:2])
    one.receive([first])
    assert titles(one) == ["whole"]
    one.receive([segment])
    assert titles(one) == ["new"]
    (row,) = scenes_query.latest_scenes(one.db, TENANT, ANN, 9, None)
    assert (row.cells, row.agents) == (3, ("ben",))
    assert_alike(one)


def test_the_newest_consolidation_counts_whatever_comes_first() -> None:
    one, two, three = Peer(1), Peer(2, wall_ms=START_MS + 60_000), Peer(3)
    one.append(run(1, scene(A, title="older")))
    two.append(run(2, scene(B, title="newer")))
    one.pull(two)
    two.pull(one)
    three.pull(two, one)
    assert titles(one) == titles(two) == titles(three) == ["newer"]
    assert_alike(one, two, three)


def test_members_may_come_after_their_scene() -> None:
    one, two = Peer(1), Peer(2)
    two.append(run(1, scene()))
    two.store("a")
    two.store("b")
    one.pull(two)
    assert scenes_query.latest_scenes(one.db, TENANT, ANN, 9, None)[0].cells == 2
    one.store("c")
    assert scenes_query.latest_scenes(one.db, TENANT, ANN, 9, None)[0].cells == 3
    two.pull(one)
    assert_alike(one, two)


def test_a_retired_summary_is_hidden_also_when_it_comes_later_or_the_run_does_not_count() -> None:
    one, two, late = Peer(1), Peer(2, wall_ms=START_MS + 60_000), Peer(3)
    one.append(memory("h", layer=1))
    two.append(run(2, scene(B, title="newer")))
    one.append(run(1, retired=(cell_of("h"),)))
    late.pull(two)
    late.pull(one)
    two.pull(one)
    for at in (one, two, late):
        assert database.value(at.db, "SELECT superseded FROM cells WHERE cell=?", cell_of("h")) == 1
    assert titles(late) == ["newer"]
    one.pull(two)
    assert_alike(one, two, late)


def test_scenes_of_private_are_each_owners_own() -> None:
    one = Peer(1)
    one.append(run(1, scene(A, title="of ann"), project=PRIVATE, owner="ann"))
    one.append(run(2, scene(B, title="of ben"), project=PRIVATE, owner="ben"))
    one.append(run(3, scene(A, title="of web")))
    assert titles(one, Scope("ann")) == ["of ann", "of web"]
    assert titles(one, Scope("ben", frozenset({"ops"}))) == ["of ben"]
    assert titles(one, Scope("ann", None, "web")) == ["of web"]


def test_members_of_another_project_or_owner_are_not_shown() -> None:
    one = Peer(1)
    one.store("a")
    one.store("b", project="ops")
    one.store("c", project=PRIVATE)
    one.append(run(1, scene()))
    one.append(run(2, scene(B), project=PRIVATE, owner="ann"))
    rows = {r.project: r for r in scenes_query.latest_scenes(one.db, TENANT, ANN, 9, None)}
    assert (rows["web"].cells, rows[PRIVATE].cells) == (1, 0)


def test_what_makes_no_sense_is_kept_and_not_folded() -> None:
    one = Peer(1)
    one.append(run(1, scene(), part=3, parts=2))
    one.append(run(2, scene(), owner="ann"))
    one.append(run(3, scene(), project=PRIVATE))
    assert [kind for kind, _ in one.set_aside()] == ["SceneConsolidated"] * 3
    assert titles(one) == []


def test_a_part_that_comes_twice_changes_nothing() -> None:
    one = Peer(1)
    one.append(run(1, scene(A, title="first"), part=1, parts=2))
    one.append(run(1, scene(A, title="again"), part=1, parts=2))
    assert titles(one) == []
    one.append(run(1, scene(B, title="second"), part=2, parts=2))
    assert titles(one) == ["first", "second"]
    assert_alike(one)


def test_what_an_older_version_did_not_know_is_folded_after_the_upgrade() -> None:
    one = Peer(1)
    logged = one.append(run(1, scene()))
    with one.db:
        for table in ("scenes", "scene_members", "scene_runs", "scene_parts"):
            one.db.execute(f"DELETE FROM {table}")
        one.db.execute("INSERT INTO unfolded VALUES(?, 'SceneConsolidated', 'unknown kind')", (logged.local,))
    assert titles(one) == []
    one.restart()
    assert titles(one) == ["t"]
    assert one.set_aside() == []
    assert_alike(one)


def test_a_scene_is_part_of_the_state() -> None:
    one = Peer(1)
    before = one.replica.state_hash()
    one.append(run(1, scene()))
    assert one.replica.state_hash() != before


def test_a_summary_is_heard_by_beacons_that_ask_for_its_layer_only() -> None:
    one = Peer(1)
    one.place("plain", layers=(0,))
    one.place("layered", by="dan", layers=(1,))
    one.append(memory("h", layer=1))
    one.store("a")
    assert set(one.entries("ann")) == {"created a"}
    assert set(one.entries("dan")) == {"created h"}


def test_a_beacon_written_without_layers_hears_of_all_as_it_always_did() -> None:
    one = Peer(1)
    one.place("of version 0.1.0")
    one.append(memory("h", layer=1))
    one.store("a")
    assert set(one.entries("ann")) == {"created a", "created h"}
