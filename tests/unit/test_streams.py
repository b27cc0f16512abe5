"""Positions, links and frontiers: what counts as before, and what must not."""

from __future__ import annotations

from proto.ids import PeerId
from proto.streams import (
    Links,
    Position,
    StreamId,
    coverage,
    descends,
    digest_by_peer,
    frontier_of,
    is_before,
    merge,
)
from tests.support.sealed import peer, stream

FIRST, SECOND, THIRD = stream(1, 0), stream(1, 1), stream(1, 2)
OTHER = stream(2, 0)


def test_merging_takes_the_larger_sequence_of_each_stream() -> None:
    assert merge({FIRST: 3, OTHER: 1}, {FIRST: 2, SECOND: 5}) == {FIRST: 3, OTHER: 1, SECOND: 5}


def test_a_vector_descends_another_when_it_holds_all_of_it() -> None:
    assert descends({FIRST: 3, OTHER: 1}, {FIRST: 3})
    assert descends({}, {FIRST: 0})
    assert not descends({FIRST: 2}, {FIRST: 3})
    assert not descends({}, {OTHER: 1})


def test_an_entry_covers_its_own_stream_up_to_its_sequence() -> None:
    frontier = (Position(FIRST, 5),)
    assert is_before(frontier, {}, Position(FIRST, 5))
    assert not is_before(frontier, {}, Position(FIRST, 6))
    assert not is_before(frontier, {}, Position(OTHER, 1))


def test_links_lead_back_through_the_epochs() -> None:
    links: Links = {THIRD: Position(SECOND, 4), SECOND: Position(FIRST, 9), FIRST: None}
    covered = coverage((Position(THIRD, 2),), links)
    assert covered == {THIRD: 2, SECOND: 4, FIRST: 9}


def test_an_older_epoch_beyond_what_the_link_names_is_beyond() -> None:
    links: Links = {SECOND: Position(FIRST, 5)}
    assert is_before((Position(SECOND, 1),), links, Position(FIRST, 5))
    assert not is_before((Position(SECOND, 1),), links, Position(FIRST, 6))


def test_a_link_that_is_not_known_leaves_the_older_epoch_beyond_until_it_is() -> None:
    frontier = (Position(SECOND, 3),)
    assert not is_before(frontier, {}, Position(FIRST, 1))
    assert is_before(frontier, {SECOND: Position(FIRST, 1)}, Position(FIRST, 1))


def test_a_newer_epoch_is_beyond_whatever_its_ordinal() -> None:
    links: Links = {SECOND: Position(FIRST, 5)}
    assert not is_before((Position(FIRST, 9),), links, Position(SECOND, 1))


def test_links_that_form_a_circle_end() -> None:
    links: Links = {FIRST: Position(SECOND, 3), SECOND: Position(FIRST, 7)}
    assert coverage((Position(FIRST, 2),), links) == {FIRST: 7, SECOND: 3}


def test_no_link_leads_into_the_streams_of_another_peer_or_partition() -> None:
    elsewhere = StreamId(FIRST.peer, 1, 0, FIRST.random)
    for target in (OTHER, elsewhere):
        assert coverage((Position(SECOND, 1),), {SECOND: Position(target, 99)}) == {SECOND: 1}


def test_the_frontier_of_one_line_of_epochs_is_one_entry() -> None:
    links: Links = {SECOND: Position(FIRST, 5), THIRD: Position(SECOND, 2)}
    held = {FIRST: 5, SECOND: 2, THIRD: 8, OTHER: 4}
    assert frontier_of(held, links) == (Position(THIRD, 8), Position(OTHER, 4))


def test_what_the_links_do_not_cover_gets_an_entry_of_its_own() -> None:
    links: Links = {SECOND: Position(FIRST, 5)}
    held = {FIRST: 7, SECOND: 2}
    assert frontier_of(held, links) == (Position(SECOND, 2), Position(FIRST, 7))


def test_a_frontier_has_an_entry_for_each_peer_and_partition() -> None:
    elsewhere = StreamId(FIRST.peer, 3, 0, FIRST.random)
    assert frontier_of({FIRST: 1, elsewhere: 2, OTHER: 3, SECOND: 0}, {}) == (
        Position(FIRST, 1),
        Position(elsewhere, 2),
        Position(OTHER, 3),
    )


def test_the_digest_of_a_peer_does_not_depend_on_the_order_of_its_heads() -> None:
    rows = [(FIRST, 3, b"a" * 32), (SECOND, 1, b"b" * 32), (OTHER, 2, b"c" * 32)]
    digests = digest_by_peer(rows)
    assert digests == digest_by_peer(reversed(rows))
    assert set(digests) == {peer(1), peer(2)}
    assert {len(d) for d in digests.values()} == {16}


def test_the_digest_of_a_peer_changes_with_sequence_hash_and_stream() -> None:
    def one(stream_id: StreamId, sequence: int, head: bytes) -> bytes:
        return digest_by_peer([(stream_id, sequence, head)])[PeerId(stream_id.peer)]

    base = one(FIRST, 3, b"a" * 32)
    assert len({base, one(FIRST, 4, b"a" * 32), one(FIRST, 3, b"b" * 32), one(SECOND, 3, b"a" * 32)}) == 4
