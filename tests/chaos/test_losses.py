"""What may be lost with a disk is exactly what it alone held: one thing more is a violation."""

from __future__ import annotations

from typing import Any

import pytest

from tests.chaos.checkers import violations
from tests.chaos.expecting import Expecting
from tests.chaos.history import BEGIN, FAULT, HEAL, NOTE
from tests.chaos.losses import Losses
from tests.chaos.script import Script, page

DURABLE = "finally_every_acknowledged_store_is_everywhere"
ONE_DISK = {"durable_on": 1, "wanted": 2}


def struck(s: Script, peer: str = "p2", age_s: float = 3.0, **told: Any) -> None:
    """The disk of a peer is lost; all that it held so many lines before was on the others."""
    s.note(FAULT, "injector", "wipe_peer", targets=[peer], disk_of=peer, age_s=age_s)
    s.note(HEAL, "injector", "wipe_peer", targets=[peer], **told)


def people(s: Script) -> None:
    s.note(NOTE, "observer", "peers", names=["p1", "p2"])
    for who in ("ann", "ben"):
        s.note(NOTE, who, "agent", tenant="here", owner=who)


def holding(s: Script, *held: dict[str, str]) -> None:
    for peer, keys in zip(("p1", "p2"), held, strict=True):
        s.note(NOTE, "observer", "holds", peer, keys=keys)


def lost(stored: dict[str, Any], *, where: str = "p2", before: int = 0) -> set[str]:
    """Store at a peer, wait, lose the disk of p2 with the memory; return what the checkers say of it."""
    s = Script()
    people(s)
    s.did("ann", "store", where, {"key": "k", "project": "alpha"}, {"node": "n", **stored})
    for _ in range(before):
        s.note(NOTE, "observer", "time passes")
    struck(s)
    holding(s, {}, {})
    return violations(s.records).keys() & {DURABLE}


def test_a_memory_that_one_disk_held_may_be_lost_with_it() -> None:
    assert lost(ONE_DISK) == set()


@pytest.mark.parametrize(
    ("stored", "more"),
    [({}, {}), (ONE_DISK, {"where": "p1"}), (ONE_DISK, {"before": 6})],
    ids=["two disks held it", "another disk held it", "it had spread before the disk was struck"],
)
def test_no_other_memory_may_be(stored: dict[str, Any], more: dict[str, Any]) -> None:
    assert lost(stored, **more) == {DURABLE}


def test_a_memory_that_may_be_lost_is_not_lost_by_halves() -> None:
    s = Script()
    people(s)
    s.did("ann", "store", "p2", {"key": "k", "project": "alpha"}, {"node": "n", **ONE_DISK})
    struck(s)
    holding(s, {"n": "k"}, {})
    assert DURABLE in violations(s.records)


def test_what_the_injector_was_acknowledged_has_to_be_everywhere() -> None:
    s = Script()
    people(s)
    struck(s, must_hold={"n": "twin-1"})
    holding(s, {"n": "twin-1"}, {})
    assert DURABLE in violations(s.records)


def due(s: Script) -> set[str]:
    expecting = Expecting(s.records)
    return {key for reader in expecting.readers() for key, _ in expecting.due(reader)}


def a_beacon(where: str, age_s: float) -> Script:
    s = Script()
    people(s)
    s.did("ann", "place", where, {"project": "alpha"}, {"project": "alpha"})
    struck(s, age_s=age_s)
    s.did("ben", "store", "p1", {"key": "k", "project": "alpha"}, {"node": "n"})
    s.note(NOTE, "ann", "drained", "p1", reader="ann")
    return s


def test_nothing_is_due_to_a_beacon_that_may_be_lost_and_all_to_any_other() -> None:
    assert due(a_beacon("p2", 3.0)) == set()
    assert due(a_beacon("p1", 3.0)) == {"k"}
    assert due(a_beacon("p2", 0.1)) == {"k"}


def test_a_withdrawal_at_a_peer_whose_disk_was_struck_ends_what_it_may_not_know_any_more() -> None:
    for disk, expected in (("p1", set[str]()), ("p2", {"k"})):
        s = Script()
        people(s)
        s.did("ann", "place", "p1", {"project": "alpha"}, {"project": "alpha"})
        s.did("ben", "store", "p1", {"key": "k", "project": "alpha"}, {"node": "n"})
        struck(s, disk, 0.1)
        s.did("ann", "withdraw", "p1", {"project": "alpha"}, {"project": "alpha"})
        s.note(NOTE, "ann", "drained", "p1", reader="ann")
        assert due(s) == expected


@pytest.mark.parametrize(("disk", "found"), [("p1", False), ("p2", True)])
def test_a_page_repeats_unmarked_only_at_the_peer_whose_disk_alone_held_it(disk: str, found: bool) -> None:
    s = Script()
    people(s)
    entries = [["d", "n", "k", "alpha"]]
    s.did("ann", "drain", "p1", {"reader": "ann", "acks": True}, page("c1", entries))
    s.did("ann", "drain", "p1", {"reader": "ann", "acks": True, "ack": "c1"}, page("c2", []))
    struck(s, disk)
    s.did("ann", "drain", "p1", {"reader": "ann", "acks": True, "ack": "c2"}, page("c3", entries))
    assert ("anytime_no_unmarked_repeat" in violations(s.records)) is found


def test_a_page_may_repeat_that_was_committed_while_a_copy_ran_and_no_later_one() -> None:
    s = Script()
    s.note(BEGIN, "injector", "run_twice")
    s.note(NOTE, "observer", "time passes")
    s.note(FAULT, "injector", "run_twice", targets=["p1"], twin=True)
    s.note(HEAL, "injector", "run_twice", targets=["p1"])
    losses = Losses(s.records)
    assert losses.may_repeat("p1", -1.0, 0.5)
    assert losses.may_repeat("p1", 2.5, 9.0)
    assert not losses.may_repeat("p1", 3.1, 9.0)
    assert not losses.may_repeat("p2", 0.5, 2.5)


@pytest.mark.parametrize(
    ("where", "aside_s", "found"), [("", 4.0, False), ("p1", 4.0, True), ("", 0.1, True)]
)
def test_what_a_gateway_stored_at_a_peer_that_was_retired_may_be_kept_aside(
    where: str, aside_s: float, found: bool
) -> None:
    s = Script()
    people(s)
    s.did("ann", "store", where, {"key": "k", "project": "alpha"}, {"node": "n"})
    s.note(NOTE, "observer", "time passes")
    s.note(HEAL, "injector", "member_comes_and_goes", targets=["p4"], aside_s=aside_s)
    holding(s, {}, {})
    assert (DURABLE in violations(s.records)) is found
