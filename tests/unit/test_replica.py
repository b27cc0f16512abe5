"""The fold of a log: the same state in whatever order events arrive."""

from __future__ import annotations

import itertools
import random

import apsw
import pytest

from node import database
from node.replica import Draft, Replica
from proto.ids import NO_TENANT, AgentId
from proto.payloads import (
    BeaconsRenewed,
    PageListed,
    PeerRetired,
)
from tests.support.members import joined
from tests.support.replicas import (
    BOTH,
    EAST,
    MESH,
    SPACE,
    START_MS,
    TENANT,
    Peer,
    agent,
    assert_alike,
    beacon_of,
    cell_of,
    memory,
    vector,
)
from tests.support.sealed import peer

# -- convergence


def test_a_rebuild_gives_the_same_entries_and_the_same_state() -> None:
    one = Peer(1)
    one.place("north")
    one.store("a")
    one.store("b", supersedes=cell_of("a"))
    one.append(PageListed(page=b"p" * 16, refs=()))
    one.withdraw("north")
    one.store("c")
    assert one.entries() == {"created a": [10_000], "created b": [10_000], "superseded b": []}
    assert_alike(one)


def test_the_order_in_which_streams_arrive_does_not_matter() -> None:
    storing, placing, both = Peer(1), Peer(2), Peer(3)
    placing.place("north")
    placing.place("all", interest="*", vector=None, project="web")
    storing.store("a")
    placing.pull(storing)
    placing.place("north", threshold=9_000)
    storing.store("b", vector=BOTH)
    both.pull(placing)
    both.withdraw("north")
    storing.store("c")
    both.store("d", supersedes=cell_of("a"))
    both.pull(storing, placing)
    readers: list[Peer] = []
    for order in itertools.permutations(both.segments()):
        reader = Peer(10 + len(readers))
        reader.receive(order)
        readers.append(reader)
    assert both.entries() == {
        "created a": [10_000, 10_000],
        "created b": [10_000],
        "created c": [10_000],
        "created d": [10_000],
        "superseded d": [],
    }
    assert_alike(both, *readers)


def test_a_beacon_that_arrives_late_finds_what_lies_beyond_its_frontier() -> None:
    storing, placing, late = Peer(1), Peer(2), Peer(3)
    storing.store("a")
    placing.pull(storing)
    placing.place("north")
    storing.store("b")
    late.pull(storing, placing)
    assert late.entries() == {"created b": [10_000]}


def test_a_withdrawal_that_arrives_late_takes_entries_back() -> None:
    one, two = Peer(1), Peer(2)
    one.place("north")
    two.pull(one)
    two.withdraw("north")
    one.store("a")
    assert one.entries() == {"created a": [10_000]}
    one.pull(two)
    assert one.entries() == {}
    assert_alike(one)


def test_a_link_that_arrives_late_is_applied_to_what_was_judged_without_it() -> None:
    storing, placing, late = Peer(1), Peer(2), Peer(3)
    storing.store("a")
    storing.restart()
    storing.store("b")
    old, new = storing.segments()
    placing.receive([old, new])
    placing.place("north")
    late.receive([old, *(s for s in placing.segments() if s.stream.peer == peer(2))])
    assert late.entries() == {"created a": [10_000]}  # the frontier names an epoch of which nothing is known
    late.receive([new])
    assert late.entries() == {}
    storing.pull(placing)
    assert_alike(late, storing)


def test_a_withdrawal_known_only_through_a_link_ends_a_placement() -> None:
    placing, ending, late = Peer(1), Peer(2), Peer(3)
    placing.place("north")
    placing.restart()
    placing.store("a", vector=EAST)
    old, new = placing.segments()
    ending.receive([old, new])
    ending.withdraw("north")
    ending.store("b")
    late.receive([old, *(s for s in ending.segments() if s.stream.peer == peer(2))])
    assert late.entries() == {"created b": [10_000]}
    late.receive([new])
    assert late.entries() == {}
    ending.pull(placing)
    assert_alike(late, ending)


def test_two_peers_may_embed_one_interest_differently() -> None:
    one, two, three = Peer(1), Peer(2), Peer(3)
    one.place("north")
    two.place("north", vector=vector(100, 10, 0, 0))
    three.store("a")
    for reader, others in ((one, (two, three)), (two, (three, one)), (three, (two, one))):
        reader.pull(*others)
    assert_alike(one, two, three)
    assert one.entries()["created a"][0] < 10_000  # by the newer placement, wherever it came first


def test_an_interest_placed_in_two_spaces_matches_in_both() -> None:
    one = Peer(1)
    one.place("north")
    one.place("north", vector=vector(0, 0, 100, space="new"))
    one.store("a")
    one.store("b", vector=vector(0, 0, 100, space="new"))
    one.store("c", vector=vector(0, 0, 100, space="third"))
    assert one.entries() == {"created a": [10_000], "created b": [10_000]}


def test_a_renewal_that_arrives_late_brings_back_what_had_expired() -> None:
    one, two = Peer(1), Peer(2)
    one.place("north", expires_ms=START_MS + 1_500)
    one.store("a")
    assert one.entries() == {}
    two.pull(one)
    two.append(BeaconsRenewed(beacons=(beacon_of("north"),), expires_ms=START_MS + 60_000))
    one.pull(two)
    assert one.entries() == {"created a": [10_000]}
    assert_alike(one, two)


def test_a_member_is_retired_even_if_its_joining_arrives_later() -> None:
    one, two, three = Peer(1), Peer(2), Peer(3)
    one.append(joined(7, 7))
    two.append(PeerRetired(peer=peer(7), frontier=()))
    three.pull(two, one)
    one.pull(two)
    two.pull(one)
    found = database.rows(three.db, "SELECT retired_ms IS NOT NULL FROM members")
    assert found == [(1,)]
    assert_alike(one, two, three)


def test_a_stored_memory_without_a_vector_matches_only_interests_in_everything() -> None:
    one = Peer(1)
    one.place("north", threshold=-10_000)
    one.place("all", interest="*", vector=None)
    one.store("a", vector=None)
    assert one.entries() == {"created a": [10_000]}


# -- retries


def test_a_retry_on_another_peer_is_the_same_cell_and_the_same_entry() -> None:
    one, two, three = Peer(1), Peer(2, wall_ms=START_MS + 10_000), Peer(3)
    three.place("north")
    one.store("a")
    two.store("a")
    three.pull(two, one)
    assert three.entries() == {"created a": [10_000]}
    rows = database.rows(three.db, "SELECT wall_ms FROM entries")
    assert rows == [(START_MS + 1_000,)]
    one.pull(two, three)
    two.pull(three, one)
    assert_alike(one, two, three)


def test_a_cell_whose_first_event_was_known_matches_by_its_retry_with_the_time_of_the_first() -> None:
    one, two, three = Peer(1), Peer(2, wall_ms=START_MS + 10_000), Peer(3)
    one.store("a")
    two.store("a")
    three.pull(one)
    three.place("north")
    three.pull(two)
    one.pull(two, three)
    two.pull(three, one)
    assert three.entries() == {"created a": [10_000]}
    assert_alike(one, two, three)


def test_another_text_under_the_same_key_is_not_the_cell() -> None:
    one, two = Peer(1), Peer(2, wall_ms=START_MS + 10_000)
    two.place("north")
    one.store("a", vector=EAST)
    two.store("a", content="another")
    assert two.entries() == {"created a": [10_000]}
    two.pull(one)
    assert two.entries() == {}
    one.pull(two)
    assert_alike(one, two)


def test_a_read_entry_that_vanishes_and_comes_back_is_still_read() -> None:
    one, two, three = Peer(1), Peer(2), Peer(3)
    one.place("north")
    two.pull(one)
    two.withdraw("north")
    three.place("north")
    one.store("a")
    (diff,) = database.rows(one.db, "SELECT diff FROM entries")[0]
    one.append(PageListed(page=b"p" * 16, refs=(diff,)))
    one.append(PageListed(page=b"q" * 16, commits=(b"p" * 16,)))
    one.pull(two)
    assert one.entries() == {}
    one.pull(three)
    assert one.entries() == {"created a": [10_000]}
    assert database.rows(one.db, "SELECT read_local IS NOT NULL FROM entries") == [(1,)]
    two.pull(three, one)
    assert_alike(one, two)


def test_a_replica_needs_nothing_but_its_arguments() -> None:
    first, second = (
        Replica(database.open_writer(":memory:"), peer(1), MESH, SPACE, random.Random(1).randbytes)
        for _ in range(2)
    )
    draft = Draft.of(NO_TENANT, AgentId(bytes(16)), PageListed(page=b"p" * 16))
    for replica in (first, second):
        replica.write([draft], (), START_MS * 1000)
    assert first.log.heads() == second.log.heads()


def test_a_closed_database_fails_the_write_and_nothing_else() -> None:
    one = Peer(1)
    one.db.close()
    with pytest.raises(apsw.Error):
        one.replica.write([Draft.of(TENANT, agent("ben"), memory("a"))], (), START_MS * 1000)
