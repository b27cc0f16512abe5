"""A checker that never failed proves nothing: each one fails on a history with its fault in it, and on no other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.checkers import CHECKS, figures, violations
from tests.chaos.expecting import Expecting
from tests.chaos.history import FAULT as FAULT_KIND
from tests.chaos.history import HEAL, INVOKE, NOTE, OK, UNKNOWN, History, Record, read_history
from tests.chaos.totals import table

Spoil = Callable[[list[Record]], list[Record]]
HEADS = [{"stream": "p1.0.1", "sequence": 9, "hash": "ab"}]


class Script:
    """Writes a history by hand; time goes on by a second with each line."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self._op = 0

    def note(self, kind: str, who: str, what: str, where: str = "", **value: Any) -> None:
        self._add(kind, 0, who, what, where, value)

    def did(self, who: str, what: str, where: str, asked: dict[str, Any], got: dict[str, Any] | None) -> None:
        """An operation that succeeded, or, with None, one of which nothing is known."""
        self._op += 1
        self._add(INVOKE, self._op, who, what, where, asked)
        self._add(UNKNOWN if got is None else OK, self._op, who, what, where, got or {})

    def _add(self, kind: str, op: int, who: str, what: str, where: str, value: dict[str, Any]) -> None:
        self.records.append(Record(float(len(self.records)), kind, op, who, what, where, value))


def good() -> list[Record]:
    """A history in which everything is right: two agents, two peers, one fault, one page in doubt."""
    s = Script()
    s.note(NOTE, "observer", "peers", names=["p1", "p2"])
    s.note(NOTE, "ann", "agent", tenant="here", owner="one")
    s.note(NOTE, "ben", "agent", tenant="here", owner="two")
    s.did("ann", "place", "p1", {"project": "alpha"}, {"project": "alpha"})
    s.did("ben", "store", "p2", {"key": "k1", "project": "alpha"}, {"node": "n1"})
    s.note(FAULT_KIND, "injector", "kill_peer", targets=["p2"], must_show=["it died"])
    s.did("ben", "store", "p2", {"key": "k2", "project": "alpha"}, None)
    s.did("ben", "store", "p1", {"key": "k2", "project": "alpha"}, {"node": "n2"})
    s.note(HEAL, "injector", "kill_peer", targets=["p2"], signs=["it died"])
    s.did("ann", "drain", "p1", {"reader": "ann", "acks": True}, None)
    first = [["d1", "n1", "k1", "alpha"]]
    s.did("ann", "drain", "p1", {"reader": "ann", "acks": True}, page("c1", first, may_repeat=True))
    second = [["d2", "n2", "k2", "alpha"]]
    s.did("ann", "drain", "p1", {"reader": "ann", "acks": True, "ack": "c1"}, page("c2", second))
    s.did("ann", "drain", "p1", {"reader": "ann", "acks": True, "ack": "c2"}, page("c3", []))
    s.note(NOTE, "ann", "drained", "p1", reader="ann")
    for peer, node in (("p1", "n3"), ("p2", "n4")):
        s.did("observer", "store", peer, {"key": f"o-{peer}", "project": "default"}, {"node": node})
    held = {"n1": "k1", "n2": "k2", "n3": "o-p1", "n4": "o-p2"}
    for peer in ("p1", "p2"):
        s.note(NOTE, "observer", "holds", peer, keys=held)
        s.note(NOTE, "observer", "log", peer, ok=True, streams=HEADS, state_hash="5t4te")
    return s.records


def page(cursor: str, entries: list[list[str]], **more: Any) -> dict[str, Any]:
    return {"cursor": cursor, "remaining": 0, "entries": entries, "canaries": ["canary-tenant-here"], **more}


def changed(match: Callable[[Record], bool], **value: Any) -> Spoil:
    """Change members of the first record that matches."""

    def spoil(records: list[Record]) -> list[Record]:
        at = next(i for i, r in enumerate(records) if match(r))
        new = replace(records[at], value={**records[at].value, **value})
        return [*records[:at], new, *records[at + 1 :]]

    return spoil


def without(match: Callable[[Record], bool]) -> Spoil:
    return lambda records: [r for r in records if not match(r)]


def late(match: Callable[[Record], bool], by_s: float) -> Spoil:
    """Move the first record that matches, and all after it, to a later time."""

    def spoil(records: list[Record]) -> list[Record]:
        at = next(i for i, r in enumerate(records) if match(r))
        return [*records[:at], *(replace(r, at_s=r.at_s + by_s) for r in records[at:])]

    return spoil


def is_page(cursor: str) -> Callable[[Record], bool]:
    return lambda r: r.value.get("cursor") == cursor


def is_end(what: str, **value: str) -> Callable[[Record], bool]:
    return lambda r: r.what == what and r.kind == OK and value.items() <= r.value.items()


def is_note(what: str, where: str) -> Callable[[Record], bool]:
    return lambda r: r.what == what and r.where == where and r.kind == NOTE


def is_strike(record: Record) -> bool:
    return record.kind == FAULT_KIND


def is_heal(record: Record) -> bool:
    return record.kind == HEAL


def _lost_session(records: list[Record]) -> list[Record]:
    """A session that was opened before anything broke, and is known nowhere in the end."""
    opened = Record(3.5, OK, 99, "ann", "open", "p2", {"session": "s1"})
    return [opened, Record(records[-1].at_s, NOTE, 0, "ann", "gone", "", {"reader": "ann/s1"})]


D2 = ["d2", "n2", "k2", "alpha"]
FAULTY: list[tuple[str, Spoil]] = [
    ("anytime_one_key_is_one_memory", changed(is_page("c2"), entries=[["d2", "n9", "k2", "alpha"]])),
    ("anytime_nothing_leaks", changed(is_page("c2"), canaries=["canary-tenant-elsewhere"])),
    ("anytime_nothing_leaks", changed(is_page("c2"), canaries=["canary-owner-two"])),
    ("anytime_no_unmarked_repeat", changed(is_page("c3"), entries=[["d1", "n1", "k1", "alpha"]])),
    ("anytime_no_page_lists_twice", changed(is_page("c2"), entries=[D2, D2])),
    ("anytime_only_matches_are_listed", changed(is_page("c3"), entries=[["d7", "n7", "k7", "alpha"]])),
    ("anytime_only_matches_are_listed", changed(is_page("c3"), entries=[["d3", "n3", "o-p1", "default"]])),
    ("anytime_only_matches_are_listed", changed(is_page("c2"), entries=[["d2", "n2", "k2", "beta"]])),
    ("anytime_somebody_serves", late(is_end("store", node="n2"), 31.0)),
    ("eventually_every_peer_serves", without(lambda r: r.who == "observer" and r.where == "p2" and r.op > 0)),
    ("eventually_every_peer_serves", late(is_end("store", node="n4"), 31.0)),
    ("eventually_everything_is_delivered", late(is_note("drained", "p1"), 61.0)),
    ("eventually_everything_is_delivered", without(is_note("drained", "p1"))),
    ("finally_every_acknowledged_store_is_everywhere", changed(is_note("holds", "p2"), keys={"n1": "k1"})),
    ("finally_every_acknowledged_store_is_everywhere", without(is_note("holds", "p2"))),
    ("finally_every_match_was_listed", changed(is_page("c2"), entries=[])),
    ("finally_every_match_was_listed", changed(is_page("c1"), entries=[])),
    ("finally_every_session_is_there", lambda records: [*records, *_lost_session(records)]),
    ("anytime_damage_is_never_served", changed(is_heal, wrong=["p2 serves n1 damaged"])),
    ("eventually_faults_show", changed(is_strike, must_show=["refused while full"])),
    ("eventually_faults_show", without(lambda r: r.kind == HEAL)),
    ("finally_state_hashes_agree", changed(is_note("log", "p2"), state_hash="0ther")),
    ("finally_streams_agree", changed(is_note("log", "p2"), streams=[])),
    ("finally_logs_verify", changed(is_note("log", "p2"), ok=False)),
    ("finally_logs_verify", without(is_note("log", "p2"))),
]


def test_a_history_without_a_fault_passes_every_check() -> None:
    assert violations(good()) == {}


@pytest.mark.parametrize(("check", "spoil"), FAULTY, ids=[f"{n}-{c}" for n, (c, _) in enumerate(FAULTY)])
def test_a_check_fails_on_a_history_with_its_fault(check: str, spoil: Spoil) -> None:
    assert check in violations(spoil(good()))


def test_every_check_is_shown_to_fail() -> None:
    assert {check for check, _ in FAULTY} == set(CHECKS)
    assert all(name.startswith(("anytime_", "eventually_", "finally_")) for name in CHECKS)


@pytest.mark.parametrize(
    "allowed",
    [
        changed(is_page("c3"), entries=[["d1", "n1", "k1", "alpha"]], may_repeat=True),
        changed(is_page("c2"), canaries=["canary-owner-one"]),
        without(lambda r: r.who == "ann" and r.what == "place"),
    ],
    ids=["a marked repeat", "its owner's own word", "nothing is due without a beacon"],
)
def test_what_the_promises_allow_is_no_miss(allowed: Spoil) -> None:
    found = violations(allowed(good()))
    assert (
        not {"anytime_no_unmarked_repeat", "anytime_nothing_leaks", "finally_every_match_was_listed"}
        & found.keys()
    )


def _due(records: Sequence[Record]) -> set[str]:
    expecting = Expecting(records)
    return {key for reader in expecting.readers() for key in expecting.due(reader)}


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


def test_a_history_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    history = History(tmp_path / "h.jsonl")
    op = history.invoke("ann", "store", "p1", key="k\u20ac")
    history.end(OK, op, "ann", "store", "p1", node="n")
    history.note(HEAL, "injector", "kill_peer")
    history.close()
    assert read_history(tmp_path / "h.jsonl") == history.records
    assert figures(history.records)["operations"] == {"ok": 1}


def test_reports_are_summed_up_by_scenario_and_over_all() -> None:
    report = {
        "on": "processes",
        "scenario": "mixed",
        "stores": 10,
        "listed": 7,
        "healed_to_delivered_s": 2.5,
        "faults": {"kill_all_peers": 2, "kill_peer": 1, "flap": 1, "wipe_peer": 1},
        "violations": {"finally_x": [3, ["a"]]},
        "repeats_unmarked_elsewhere": 5,
    }
    other = {**report, "scenario": "kills", "healed_to_delivered_s": None, "violations": {}}
    lines = table([report, other, report]).splitlines()
    assert lines[2] == "| processes | kills | 1 | 10 | 7 | 7 | 4 | 0 | 1 | 0 | 5 | - | 0 |"
    assert lines[4] == "| **all** |  | 3 | 30 | 21 | 21 | 12 | 0 | 3 | 0 | 15 | 2.5 | 6 |"
