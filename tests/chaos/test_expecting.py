"""What is due to whom, from histories written by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tests.chaos.expecting import Expecting
from tests.chaos.history import NOTE, UNKNOWN, Record
from tests.chaos.script import Script, page


def _due(records: Sequence[Record]) -> set[str]:
    expecting = Expecting(records)
    return {key for reader in expecting.readers() for key, _ in expecting.due(reader)}


def test_what_was_stored_before_the_beacon_or_by_oneself_is_not_due() -> None:
    s = Script()
    for who in ("ann", "ben"):
        s.note(NOTE, who, "agent", tenant="here", owner=who)
    s.did("ben", "store", "p1", {"key": "before", "project": "alpha"}, {"node": "n1"})
    s.did("ann", "place", "p1", {"project": "alpha"}, {"project": "alpha"})
    s.did("ann", "store", "p1", {"key": "own", "project": "alpha"}, {"node": "n2"})
    s.did("ben", "store", "p1", {"key": "other", "project": "beta"}, {"node": "n3"})
    s.did("ben", "store", "p1", {"key": "due", "project": "alpha"}, {"node": "n4"})
    s.did("ben", "store", "p1", {"key": "in doubt", "project": "alpha"}, None)
    s.note(NOTE, "ann", "drained", "p1", reader="ann")
    assert _due(s.records) == {"due"}


def test_a_withdrawal_ends_what_its_own_peer_had_not_acknowledged() -> None:
    s = Script()
    for who in ("ann", "ben"):
        s.note(NOTE, who, "agent", tenant="here", owner=who)
    s.did("ann", "place", "p1", {"project": "alpha"}, {"project": "alpha"})
    s.did("ben", "store", "p1", {"key": "here", "project": "alpha"}, {"node": "n1"})
    s.did("ben", "store", "p2", {"key": "elsewhere", "project": "alpha"}, {"node": "n2"})
    s.did("ann", "withdraw", "p1", {"project": "alpha"}, None)
    s.did("ben", "store", "p1", {"key": "after", "project": "alpha"}, {"node": "n3"})
    s.did("ann", "place", "p1", {"project": "alpha"}, {"project": "alpha"})
    s.did("ben", "store", "p1", {"key": "the withdrawal may still come", "project": "alpha"}, {"node": "n4"})
    s.note(NOTE, "ann", "drained", "p1", reader="ann")
    assert _due(s.records) == {"here"}


def test_a_session_is_due_what_came_after_its_opening() -> None:
    s = Script()
    for who in ("ann", "ben"):
        s.note(NOTE, who, "agent", tenant="here", owner=who)
    s.did("ann", "place", "p1", {"project": "alpha"}, {"project": "alpha"})
    s.did("ben", "store", "p1", {"key": "before", "project": "alpha"}, {"node": "n1"})
    s.did("ann", "open", "p1", {}, {"session": "s1"})
    s.did("ben", "store", "p1", {"key": "after", "project": "alpha"}, {"node": "n2"})
    s.note(NOTE, "ann", "drained", "p1", reader="ann/s1")
    assert _due(s.records) == {"after"}


def test_a_reader_without_ack_is_due_nothing_once_a_reply_may_be_lost() -> None:
    s = Script()
    for who in ("ann", "ben"):
        s.note(NOTE, who, "agent", tenant="here", owner=who)
    s.did("ann", "place", "p1", {"project": "alpha"}, {"project": "alpha"})
    s.did("ben", "store", "p1", {"key": "k", "project": "alpha"}, {"node": "n1"})
    certain = list(s.records)
    s.did("ann", "drain", "p1", {"reader": "ann", "acks": False}, None)
    s.note(NOTE, "ann", "drained", "p1", reader="ann")
    assert _due(s.records) == set()
    assert _due([*certain, s.records[-1]]) == {"k"}


def test_what_a_session_gave_up_is_not_due_to_it() -> None:
    s = Script()
    for who in ("ann", "ben"):
        s.note(NOTE, who, "agent", tenant="here", owner=who)
    s.did("ann", "place", "p1", {"project": "alpha"}, {"project": "alpha"})
    s.did("ann", "open", "p1", {}, {"session": "s1"})
    s.did("ben", "store", "p1", {"key": "given up", "project": "alpha"}, {"node": "n1"})
    session = {"reader": "ann/s1", "acks": True}
    s.did("ann", "drain", "p1", {**session, "skips": True}, page("c1", []))
    s.did("ben", "store", "p1", {"key": "after", "project": "alpha"}, {"node": "n2"})
    s.note(NOTE, "ann", "drained", "p1", reader="ann/s1")
    certain = list(s.records)
    s.did("ann", "drain", "p1", {**session, "skips": True}, None)
    assert _due(certain) == {"after"}
    assert _due(s.records) == set()


def test_a_reader_at_a_gateway_is_in_doubt_only_when_the_gateway_said_nothing() -> None:
    s = Script()
    for who in ("ann", "ben"):
        s.note(NOTE, who, "agent", tenant="here", owner=who)
    s.did("ann", "place", "p1", {"project": "alpha"}, {"project": "alpha"})
    s.did("ben", "store", "p1", {"key": "k", "project": "alpha"}, {"node": "n1"})
    s.did("ann", "drain", "", {"reader": "ann", "acks": True, "gateway": True}, None)
    s.note(NOTE, "ann", "drained", "", reader="ann")
    silent = [replace(r, value={"code": "silent"}) if r.kind == UNKNOWN else r for r in s.records]
    assert _due(s.records) == {"k"}
    assert _due(silent) == set()
