"""Who is told that a memory was replaced (decision records 8 and 9)."""

from __future__ import annotations

from tests.support.replicas import (
    EAST,
    Peer,
    assert_alike,
    cell_of,
)
from tests.support.sealed import peer


def test_author_and_readers_of_a_memory_are_told_what_replaced_it() -> None:
    one = Peer(1)
    one.place("north", by="ann")
    one.store("a", by="ben")
    one.store("b", by="cat", vector=EAST, supersedes=cell_of("a"))
    assert one.entries("ann") == {"created a": [10_000], "superseded b": []}
    assert one.entries("ben") == {"superseded b": []}
    assert one.entries("cat") == {}


def test_whoever_replaces_a_memory_is_not_told_of_it() -> None:
    one = Peer(1)
    one.place("north", by="ann")
    one.store("a", by="ben")
    one.store("b", by="ben", vector=EAST, supersedes=cell_of("a"))
    one.store("c", by="ann", vector=EAST, supersedes=cell_of("a"))
    assert one.entries("ben") == {"superseded c": []}
    assert one.entries("ann") == {"created a": [10_000], "superseded b": []}


def test_whoever_was_told_of_a_replacement_is_told_of_the_next_one() -> None:
    one = Peer(1)
    one.place("north", by="ann")
    one.store("a", by="ben")
    one.store("b", by="cat", vector=EAST, supersedes=cell_of("a"))
    one.store("c", by="dan", vector=EAST, supersedes=cell_of("b"))
    assert one.entries("ann") == {"created a": [10_000], "superseded b": [], "superseded c": []}
    assert one.entries("ben") == {"superseded b": [], "superseded c": []}
    assert one.entries("cat") == {"superseded c": []}


def test_a_replacement_that_arrives_before_the_old_memory_is_told_when_it_comes() -> None:
    one, two, three = Peer(1), Peer(2), Peer(3)
    one.place("north", by="ann")
    one.store("a", by="ben")
    two.pull(one)
    two.store("b", by="cat", vector=EAST, supersedes=cell_of("a"))
    two.store("c", by="cat", vector=EAST, supersedes=cell_of("b"))
    three.receive([s for s in two.segments() if s.stream.peer == peer(2)])
    assert three.entries("ann") == {}
    three.pull(one)
    assert three.entries("ann") == {"created a": [10_000], "superseded b": [], "superseded c": []}
    assert_alike(two, three)


def test_a_replacement_never_carries_text_into_another_scope() -> None:
    one = Peer(1)
    one.place("north", by="ann")
    one.store("a", by="ben", project="web")
    one.store("b", by="cat", vector=EAST, project="billing", supersedes=cell_of("a"))
    one.store("c", by="cat", vector=EAST, project="private", supersedes=cell_of("a"))
    assert one.entries("ann") == {"created a": [10_000]}
