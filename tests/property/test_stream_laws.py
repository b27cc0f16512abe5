"""Laws of version vectors, and of frontiers against a second statement of the rule."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proto.ids import PeerId
from proto.streams import (
    Frontier,
    Links,
    Position,
    StreamId,
    VersionVector,
    coverage,
    descends,
    digest_by_peer,
    frontier_of,
    is_before,
    merge,
)
from tests.support.laws import LAW
from tests.support.sealed import peer

EPOCHS = [
    StreamId(peer(p), partition, ordinal, bytes([branch]) * 8)
    for p in (1, 2)
    for partition in (0, 1)
    for ordinal in (0, 1, 2)
    for branch in (1, 2)
]
streams = st.sampled_from(EPOCHS)
sequences = st.integers(0, 6)
vectors = st.dictionaries(streams, sequences)
links = st.dictionaries(streams, st.none() | st.builds(Position, streams, sequences))
frontiers = st.lists(st.builds(Position, streams, sequences), max_size=4).map(tuple)


def true_links(found: Links) -> Links:
    """Return the links that a mesh can have: to an older epoch of the same peer and partition."""
    return {
        stream: target
        for stream, target in found.items()
        if target is None or (target.stream[:2] == stream[:2] and target.stream.ordinal < stream.ordinal)
    }


def before(frontier: Frontier, known: Links, stream: StreamId, sequence: int) -> bool:
    """The rule in other words: walk from each entry of that peer and partition, one link at a time."""
    for top, limit in frontier:
        if top[:2] != stream[:2]:
            continue
        seen = set()
        here, reach = top, limit
        while here not in seen:
            seen.add(here)
            if here == stream and sequence <= reach:
                return True
            target = known.get(here)
            if target is None:
                break
            here, reach = target
    return False


# -- version vectors


@LAW
@given(vectors, vectors)
def test_merging_is_commutative(a: VersionVector, b: VersionVector) -> None:
    assert merge(a, b) == merge(b, a)


@LAW
@given(vectors, vectors, vectors)
def test_merging_is_associative(a: VersionVector, b: VersionVector, c: VersionVector) -> None:
    assert merge(merge(a, b), c) == merge(a, merge(b, c))


@LAW
@given(vectors, vectors)
def test_merging_is_idempotent(a: VersionVector, b: VersionVector) -> None:
    assert merge(a, a) == {s: n for s, n in a.items() if n}
    assert merge(merge(a, b), b) == merge(a, b)


@LAW
@given(vectors, vectors)
def test_a_merge_is_the_least_that_descends_both(a: VersionVector, b: VersionVector) -> None:
    both = merge(a, b)
    assert descends(both, a)
    assert descends(both, b)
    assert all(n in (a.get(s, 0), b.get(s, 0)) for s, n in both.items())


@LAW
@given(vectors, vectors, vectors)
def test_descending_is_a_partial_order(a: VersionVector, b: VersionVector, c: VersionVector) -> None:
    assert descends(a, a)
    if descends(a, b) and descends(b, c):
        assert descends(a, c)
    if descends(a, b) and descends(b, a):
        assert {s: n for s, n in a.items() if n} == {s: n for s, n in b.items() if n}


# -- frontiers


@LAW
@given(frontiers, links.map(true_links), streams, sequences)
def test_before_is_what_the_second_statement_says(
    frontier: Frontier, known: Links, stream: StreamId, sequence: int
) -> None:
    if sequence == 0:
        return
    assert is_before(frontier, known, Position(stream, sequence)) == before(frontier, known, stream, sequence)


@LAW
@given(frontiers, links)
def test_coverage_ends_and_stays_within_a_peer_and_partition_whatever_the_links_say(
    frontier: Frontier, known: Links
) -> None:
    entries = {stream[:2] for stream, _ in frontier}
    assert {stream[:2] for stream in coverage(frontier, known)} <= entries


@LAW
@given(vectors, links.map(true_links))
def test_all_that_is_held_is_before_the_frontier_of_what_is_held(held: VersionVector, known: Links) -> None:
    covered = coverage(frontier_of(held, known), known)
    assert descends(covered, held)


@LAW
@given(vectors, links.map(true_links))
def test_only_what_is_held_or_linked_is_before(held: VersionVector, known: Links) -> None:
    linked = [target for target in known.values() if target is not None]
    for stream, sequence in coverage(frontier_of(held, known), known).items():
        named = max([n for s, n in linked if s == stream], default=0)
        assert sequence <= max(held.get(stream, 0), named)


@LAW
@given(vectors, links.map(true_links))
def test_no_entry_of_a_frontier_is_covered_by_the_others(held: VersionVector, known: Links) -> None:
    frontier = frontier_of(held, known)
    for entry in frontier[1:]:
        newer = tuple(e for e in frontier if e.stream > entry.stream)
        assert not is_before(newer, known, entry)


@LAW
@given(frontiers, links.map(true_links), streams, st.builds(Position, streams, sequences))
def test_learning_a_link_moves_nothing_from_before_to_beyond(
    frontier: Frontier, known: Links, stream: StreamId, target: Position
) -> None:
    if stream in known:
        return
    more = true_links({**known, stream: target})
    assert descends(coverage(frontier, more), coverage(frontier, known))


# -- three histories in which older must not be read by ordinal


A0, B1, C1 = (StreamId(peer(1), 0, n, bytes([b]) * 8) for n, b in ((0, 1), (1, 2), (1, 3)))


def test_what_the_original_wrote_after_it_was_copied_is_beyond() -> None:
    """A copied directory opens B1 from A0:5; a beacon knows B1; the original goes on in A0, then opens C1."""
    known: dict[StreamId, Position | None] = {A0: None, B1: Position(A0, 5)}
    frontier = frontier_of({A0: 5, B1: 3}, known)
    known[C1] = Position(A0, 8)
    assert not is_before(frontier, known, Position(A0, 7))
    assert is_before(frontier, known, Position(A0, 5))


def test_a_new_line_with_lower_ordinals_is_beyond() -> None:
    """Epochs 0, 1, 2; rolled back to 0 and opened again as D1 from A0:5, then E2 from D1:9."""
    old1, old2 = StreamId(peer(1), 0, 1, b"2" * 8), StreamId(peer(1), 0, 2, b"3" * 8)
    new1, new2 = StreamId(peer(1), 0, 1, b"4" * 8), StreamId(peer(1), 0, 2, b"5" * 8)
    known: dict[StreamId, Position | None] = {A0: None, old1: Position(A0, 9), old2: Position(old1, 4)}
    frontier = frontier_of({A0: 9, old1: 4, old2: 3}, known)
    known.update({new1: Position(A0, 5), new2: Position(new1, 9)})
    assert not is_before(frontier, known, Position(new1, 6))


def test_without_the_links_an_older_epoch_is_beyond_and_with_them_before() -> None:
    old1, old2 = StreamId(peer(1), 0, 1, b"2" * 8), StreamId(peer(1), 0, 2, b"3" * 8)
    all_links: Mapping[StreamId, Position | None] = {A0: None, old1: Position(A0, 9), old2: Position(old1, 4)}
    frontier = frontier_of({A0: 9, old1: 4, old2: 3}, all_links)
    assert not is_before(frontier, {}, Position(A0, 9))
    assert is_before(frontier, all_links, Position(A0, 9))


# -- digests


@LAW
@given(st.dictionaries(streams, st.tuples(st.integers(1, 9), st.sampled_from([b"a" * 32, b"b" * 32]))))
def test_digests_are_equal_exactly_when_the_heads_of_that_peer_are(
    heads: dict[StreamId, tuple[int, bytes]],
) -> None:
    rows = [(s, n, h) for s, (n, h) in heads.items()]
    digests = digest_by_peer(rows)
    assert set(digests) == {s.peer for s in heads}
    for dropped in rows:
        rest = digest_by_peer(row for row in rows if row is not dropped)
        for one in digests:
            same = rest.get(PeerId(one)) == digests[one]
            assert same == (one != dropped[0].peer)


@pytest.mark.parametrize("count", [2_000])
def test_the_frontier_of_a_long_line_of_epochs_is_one_entry(count: int) -> None:
    line = [StreamId(peer(1), 0, n, bytes(8)) for n in range(count)]
    known: Links = {s: Position(line[n - 1], 5) if n else None for n, s in enumerate(line)}
    assert frontier_of(dict.fromkeys(line, 5), known) == (Position(line[-1], 5),)
