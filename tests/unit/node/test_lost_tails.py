"""Lost tails: what links show to have existed and nobody holds, until somebody turns up with it."""

from __future__ import annotations

from node.lost_tails import LostTail, lost_tails
from tests.support.replicas import Peer
from tests.support.sealed import peer


def lives(of: Peer) -> list[tuple[int, int]]:
    """Return (ordinal, first missing) of what is lost here."""
    return [(tail.stream.ordinal, tail.first) for tail in lost_tails(of.db, frozenset())]


def test_a_tail_that_a_later_epoch_names_is_lost_until_it_comes() -> None:
    one, reader = Peer(1), Peer(2)
    one.store("a")
    reader.pull(one)
    one.store("b")
    one.store("c")
    one.restart()
    one.store("d")
    old, new = one.segments()
    assert lost_tails(reader.db, frozenset()) == []
    reader.receive([new])
    assert lost_tails(reader.db, frozenset()) == [LostTail(old.stream, 3, 4)]
    reader.receive([old])
    assert lost_tails(reader.db, frozenset()) == []


def test_what_somebody_is_known_to_hold_is_under_way_and_not_lost() -> None:
    one, reader = Peer(1), Peer(2)
    one.store("a")
    one.restart()
    one.store("b")
    _, new = one.segments()
    reader.receive([new])
    assert lost_tails(reader.db, frozenset((peer(1),))) == []
    assert lost_tails(reader.db, frozenset((peer(3),))) != []


def test_of_several_links_to_one_epoch_the_one_that_names_most_is_believed() -> None:
    one, twin, reader = Peer(1), Peer(1), Peer(2)
    one.store("a")
    twin.receive(one.segments())
    one.store("b")
    one.restart()
    one.store("c")
    for _ in range(2):
        twin.restart()
    twin.store("d")
    reader.receive([s for of in (one, twin) for s in of.segments() if s.stream.ordinal == 1])
    assert lives(reader) == [(0, 1)]
    assert lost_tails(reader.db, frozenset())[0].last == 3


def test_a_whole_epoch_that_is_missing_is_lost_and_so_are_older_ones_only_once_named() -> None:
    one, reader = Peer(1), Peer(2)
    for name in "abc":
        one.store(name)
        one.restart()
    first, second, third = one.segments()
    reader.receive([third])
    assert lives(reader) == [(1, 1)]
    reader.receive([second])
    assert lives(reader) == [(0, 1)]
    reader.receive([first])
    assert lives(reader) == []
