"""Retired peers: what counts of their streams is decided by the events, in whatever order they come."""

from __future__ import annotations

import itertools

import pytest

from mesh.joining import joining_bytes
from node import database
from node.membership import OTHER_KEY, UNINVITED, UNSIGNED
from node.membership_projection import LATE
from node.replica import Draft
from proto.errors import Unavailable
from proto.ids import NO_TENANT, AgentId
from proto.payloads import KeyRevoked, PeerRetired
from tests.support.members import joined, key_of, retire
from tests.support.replicas import MESH, Peer, assert_alike, cell_of
from tests.support.sealed import peer


def members(of: Peer) -> dict[str, bool]:
    """Return name -> whether it has retired."""
    found = database.rows(of.db, "SELECT name, retired_ms IS NOT NULL FROM members ORDER BY name")
    return {name: bool(retired) for name, retired in found}


def cells(of: Peer) -> list[str]:
    """Return the texts of the memories that count."""
    known = {row[0] for row in database.rows(of.db, "SELECT cell FROM cells")}
    return [name for name in of.names if cell_of(name) in known]


def late(of: Peer) -> int:
    """Return how many events are kept aside because their peer had retired."""
    return sum(why == LATE for _, why in of.set_aside())


# -- what is late


def test_late_events_of_a_retired_peer_are_kept_and_not_folded() -> None:
    one, gone = Peer(1), Peer(7)
    one.place("north")
    gone.store("a")
    one.pull(gone)
    retire(one, 7)
    gone.store("b")
    one.pull(gone)
    assert (cells(one), one.entries(), late(one)) == (["a"], {"created a": [10_000]}, 1)
    assert one.replica.log.heads() == gone.replica.log.heads() | one.replica.log.heads()
    assert_alike(one)


def test_whoever_holds_more_of_a_retired_peer_takes_it_back() -> None:
    one, more, gone = Peer(1), Peer(2), Peer(7)
    more.place("north", by="ann")
    gone.store("a")
    one.pull(gone)
    gone.store("b")
    gone.restart()
    gone.store("c")
    more.pull(gone)
    assert cells(more) == ["a", "b", "c"]
    retire(one, 7)
    more.pull(one)
    assert (cells(more), late(more)) == (["a"], 3)  # b, the opening of an epoch, c
    one.pull(more)
    assert_alike(one, more)


def test_retiring_again_lets_in_what_is_held_by_then() -> None:
    one, two, gone = Peer(1), Peer(2), Peer(7)
    one.place("north")
    gone.store("a")
    one.pull(gone)
    retire(one, 7)
    gone.store("b")
    one.pull(gone)
    retire(one, 7)
    assert (cells(one), late(one)) == (["a", "b"], 0)
    assert one.entries() == {"created a": [10_000], "created b": [10_000]}
    two.pull(gone, one)
    assert_alike(one, two)


def test_two_peers_that_retire_a_third_at_once_let_count_what_either_held() -> None:
    one, two, gone = Peer(1), Peer(2), Peer(7)
    gone.store("a")
    one.pull(gone)
    gone.store("b")
    two.pull(gone)
    gone.store("c")
    retire(one, 7)
    retire(two, 7)
    readers: list[Peer] = []
    for order in itertools.permutations([*one.segments()[:1], *two.segments()[:1], *gone.segments()]):
        reader = Peer(10 + len(readers))
        reader.receive(order)
        assert (cells(reader), late(reader)) == (["a", "b"], 1)
        readers.append(reader)
    one.pull(two, gone)
    two.pull(one, gone)
    assert_alike(one, two, *readers)


def test_of_two_peers_that_retire_each_other_the_earlier_stays() -> None:
    one, two, three = Peer(1), Peer(2), Peer(3)
    one.append(joined(1, 1))
    one.append(joined(2, 1))
    two.pull(one)
    two.wall_ms += 60_000
    retire(one, 2)
    retire(two, 1)
    three.pull(two)
    assert members(three) == {"peer 1": True, "peer 2": False}  # as far as it knows by now
    three.pull(one)
    two.pull(one)
    one.pull(two)
    assert members(three) == {"peer 1": False, "peer 2": True}
    assert_alike(one, two, three)


def test_what_a_retired_peer_says_of_members_after_its_end_says_nothing() -> None:
    one, gone, three = Peer(1), Peer(7), Peer(3)
    one.append(joined(1, 1))
    one.append(joined(7, 1))
    one.append(joined(3, 1))
    gone.pull(one)
    gone.store("a")
    one.pull(gone)
    retire(one, 7)
    gone.wall_ms += 60_000
    retire(gone, 3)
    three.pull(one, gone)
    assert members(three) == {"peer 1": False, "peer 3": False, "peer 7": True}
    one.pull(gone)
    assert_alike(one, three)


def test_nobody_retires_itself() -> None:
    one = Peer(1)
    one.append(joined(1, 1))
    one.append(PeerRetired(peer=peer(1), frontier=()))
    assert members(one) == {"peer 1": False}
    one.store("a")
    assert cells(one) == ["a"]


def test_a_retired_peer_stores_nothing_and_says_why() -> None:
    one, gone = Peer(1), Peer(7)
    gone.store("a")
    one.pull(gone)
    retire(one, 7, why="the laptop was sold")
    gone.pull(one)
    held = gone.replica.log.heads()
    draft = Draft.of(NO_TENANT, AgentId(bytes(16)), KeyRevoked(key_id="abcd"))
    (outcome,) = gone.replica.write([draft], (), gone.wall_ms * 1000).own
    assert isinstance(outcome, Unavailable)
    assert "was retired on 2023-11-14" in outcome.message
    assert "the laptop was sold" in outcome.message
    assert gone.replica.log.heads() == held
    gone.restart()
    assert gone.replica.retired(peer(7)) is not None
    assert_alike(one, gone)


def test_what_counts_survives_a_restart() -> None:
    one, gone = Peer(1), Peer(7)
    gone.store("a")
    one.pull(gone)
    retire(one, 7)
    one.restart()
    gone.store("b")
    one.pull(gone)
    assert (cells(one), late(one)) == (["a"], 1)


def test_numbers_of_cells_are_never_given_again() -> None:
    one, more, gone = Peer(1), Peer(2), Peer(7)
    gone.store("a")
    one.pull(gone)
    gone.store("b")
    more.pull(gone)
    more.store("c")
    before = {n for (n,) in database.rows(more.db, "SELECT cell_no FROM cells")}
    retire(one, 7)
    more.pull(one)
    after = {n for (n,) in database.rows(more.db, "SELECT cell_no FROM cells")}
    assert cells(more) == ["a", "c"]
    assert not before & after


# -- who joins


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"signature": bytes(64)}, UNSIGNED),
        ({"inviter_signature": bytes(64)}, UNINVITED),
        ({"inviter_signature": b""}, UNINVITED),
        ({"inviter": peer(9)}, UNINVITED),
        ({"name": "another name"}, UNSIGNED),
    ],
)
def test_a_joining_that_is_not_signed_makes_nobody_a_member(fields: dict[str, object], why: str) -> None:
    one = Peer(1)
    one.append(joined(1, 1))
    one.append(joined(2, 1, **fields))
    assert members(one) == {"peer 1": False}
    assert one.set_aside() == [("PeerJoined", why)]
    assert_alike(one)


def test_who_has_joined_does_not_depend_on_the_order_in_which_joinings_come() -> None:
    one, two, three = Peer(1), Peer(2), Peer(3)
    one.append(joined(1, 1))
    one.append(joined(2, 1))
    two.append(joined(3, 2))
    three.append(joined(4, 3))
    readers: list[Peer] = []
    for order in itertools.permutations([*one.segments(), *two.segments(), *three.segments()]):
        reader = Peer(10 + len(readers))
        reader.receive(order)
        readers.append(reader)
    assert set(members(readers[0])) == {f"peer {n}" for n in range(1, 5)}
    assert all(reader.set_aside() == [] for reader in readers)
    assert_alike(*readers)


def test_another_key_under_the_id_of_a_member_is_ignored_wherever_it_comes_first() -> None:
    one, two = Peer(1), Peer(2, wall_ms=1_800_000_000_000)
    one.append(joined(1, 1))
    one.append(joined(2, 1))
    public_key = key_of(9).public_key().public_bytes_raw()
    forged = key_of(9).sign(joining_bytes(MESH, peer(1), public_key, "peer 1"))
    two.append(joined(1, 1, public_key=public_key, signature=forged, inviter_signature=forged))
    readers = [Peer(3), Peer(4)]
    readers[0].pull(one, two)
    readers[1].pull(two, one)
    for reader in readers:
        assert members(reader) == {"peer 1": False, "peer 2": False}
        assert reader.set_aside() == [("PeerJoined", OTHER_KEY)]
    assert_alike(*readers)
