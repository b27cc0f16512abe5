"""Events that are kept and passed on and never believed: they stop nothing and match nothing."""

from __future__ import annotations

import pytest

from mesh.ports import Segment
from proto.codec import encode
from proto.events import NO_HASH
from proto.payloads import (
    EpochOpened,
)
from tests.support.replicas import (
    EAST,
    NORTH,
    Peer,
    assert_alike,
    encoded,
    foreign,
    memory,
    vector,
)
from tests.support.sealed import stream


def test_a_payload_that_breaks_its_model_is_set_aside_and_passed_on() -> None:
    one, two = Peer(1), Peer(2)
    one.place("north")
    one.receive([foreign(("CellStored", encode({"cell": b"short"})), *encoded(memory("a")))])
    assert [kind for kind, _ in one.set_aside()] == ["CellStored"]
    assert one.entries() == {"created a": [10_000]}
    two.pull(one)
    assert_alike(one, two)


def test_an_unknown_kind_is_kept_counted_and_passed_on() -> None:
    one, two = Peer(1), Peer(2)
    one.receive([foreign(("CellDreamt", b"\x80"))])
    two.pull(one)
    assert two.set_aside() == [("CellDreamt", "unknown kind")]
    assert two.replica.log.heads() == one.replica.log.heads()


@pytest.mark.parametrize(
    "wrong",
    [
        NORTH.model_copy(update={"norm": 0}),
        NORTH.model_copy(update={"norm": NORTH.norm + 1}),
        vector(0, 0, 0, 0),
        vector(*([1] * 1_041)),
    ],
    ids=["norm 0", "another norm", "no direction", "too many dimensions"],
)
def test_a_vector_that_breaks_the_scoring_rule_matches_nothing_and_stops_nothing(wrong: object) -> None:
    one = Peer(1)
    one.place("north", threshold=-10_000)
    one.place("all", interest="*", vector=None)
    stored = memory("a").model_copy(update={"vector": wrong})
    one.receive([foreign(*encoded(stored, memory("b")))])
    entries = one.entries()
    assert entries["created a"] == [10_000]  # by "*" alone
    assert entries["created b"] == [10_000, 10_000]


def test_vectors_of_two_sizes_under_one_name_stop_nothing() -> None:
    one = Peer(1)
    one.place("north")
    one.place("short", vector=vector(100, 0), threshold=-10_000)
    one.receive([foreign(*encoded(memory("a", vector=vector(100, 0)), memory("b")))])
    assert one.entries() == {"created a": [10_000], "created b": [10_000]}
    assert_alike(one)


def test_a_beacon_that_cannot_be_scored_is_set_aside() -> None:
    one = Peer(1)
    one.place("north", vector=None)
    one.place("east", vector=EAST.model_copy(update={"norm": 1}))
    one.store("a", vector=EAST)
    assert one.entries() == {}
    assert [kind for kind, _ in one.set_aside()] == ["BeaconPlaced", "BeaconPlaced"]
    one.restart()
    assert len(one.replica.beacons) == 0


def test_only_the_first_event_of_a_stream_may_link_it() -> None:
    one = Peer(1)
    later = EpochOpened(previous=(*stream(9), 2**40))
    one.receive([foreign(*encoded(EpochOpened(), later))])
    assert one.replica.links[stream(9)] is None
    assert one.set_aside() == [("EpochOpened", "not the first event of its stream")]
    one.restart()
    assert one.replica.links[stream(9)] is None


def test_a_segment_that_is_not_what_it_claims_is_refused_whole() -> None:
    one = Peer(1)
    good = foreign(*encoded(memory("a")))
    header, salt, payload = good.events[0]
    one.receive([Segment(good.stream, 1, NO_HASH, ((header, salt, (payload or b"") + b"x"),))])
    assert one.replica.log.heads() == {}
    one.receive([good])
    assert len(one.replica.log.heads()) == 1


def test_a_damaged_cell_does_not_stop_what_comes_later() -> None:
    one, two = Peer(1), Peer(2)
    one.store("a")
    one.store("b")
    one.db.execute("UPDATE events SET payload=x'00' WHERE sequence=2")
    two.place("north")
    one.pull(two)  # both memories lie beyond it
    one.store("c")
    assert one.entries() == {"created b": [10_000], "created c": [10_000]}
