"""A checker that never failed proves nothing: each one fails on a history with its fault in it, and on no other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.chaos.checkers import CHECKS, figures, violations
from tests.chaos.history import FAULT as FAULT_KIND
from tests.chaos.history import HEAL, INVOKE, NOTE, OK, UNKNOWN, History, Record, read_history
from tests.chaos.plants import PLANTS
from tests.chaos.script import (
    CHAIN,
    D1,
    D1_REPLACED,
    D2,
    FOUND,
    MISSED,
    Spoil,
    changed,
    good,
    is_end,
    is_note,
    is_page,
    late,
    without,
)
from tests.chaos.time_checks import TIME_CHECKS
from tests.chaos.totals import table


def is_find(key: str) -> Callable[[Record], bool]:
    """The end of the look for a memory: the second record of its operation."""
    ends = {"k2": FOUND, "k5": {**FOUND, **MISSED}}
    return lambda r: r.what == "find" and r.kind == OK and r.value.items() >= ends[key].items()


def is_strike(record: Record) -> bool:
    return record.kind == FAULT_KIND


def is_heal(record: Record) -> bool:
    return record.kind == HEAL


def lost_session(records: list[Record]) -> list[Record]:
    """A session that was opened before anything broke, and is known nowhere in the end."""
    opened = Record(3.5, OK, 99, "ann", "open", "p2", {"session": "s1"})
    return [opened, Record(records[-1].at_s, NOTE, 0, "ann", "gone", "", {"reader": "ann/s1"})]


def is_look(r: Record) -> bool:
    return "held" in r.value


def is_seen(r: Record) -> bool:
    return r.what == "seen"


def both(*spoils: Spoil) -> Spoil:
    def spoil(records: list[Record]) -> list[Record]:
        for one in spoils:
            records = one(records)
        return records

    return spoil


def answered(key: str) -> Spoil:
    """Let a call that came too late succeed."""

    def spoil(records: list[Record]) -> list[Record]:
        (op,) = (r.op for r in records if r.what == "hurried" and r.value.get("key") == key)
        return [replace(r, kind=OK) if r.op == op and r.kind == UNKNOWN else r for r in records]

    return spoil


HOLED = {"p1": {"s1": CHAIN[:8] + "." * 8 + CHAIN[16:]}}
FORKED = {"p1": {"s1": CHAIN}, "p2": {"s1": CHAIN[:8] + "x" * 8 + CHAIN[16:]}}
FAULTY: list[tuple[str, Spoil]] = [
    ("anytime_one_key_is_one_memory", changed(is_page("c2"), entries=[["d2", "n9", "k2", "alpha"]])),
    ("anytime_late_requests_are_dropped", answered("late")),
    ("anytime_late_requests_are_dropped", answered("later")),
    ("anytime_late_requests_are_dropped", changed(is_seen, keys=["k1", "later"])),
    ("anytime_durable_on_is_true", changed(is_look, held={"p1": ["n1", "n2", "n5"], "p2": []})),
    ("anytime_durable_on_is_true", changed(is_look, held={"p1": ["n1", "n2"], "p2": ["n1", "n2"]})),
    ("anytime_nobody_alone_claims_more", changed(is_end("store", node="n5"), durable_on=2, wanted=3)),
    ("anytime_short_answers_say_so", changed(is_end("store", node="n2"), noted=False)),
    ("anytime_short_answers_say_so", changed(is_end("store", node="n2"), durable_on=2)),
    ("anytime_short_answers_say_so", changed(is_end("store", node="n2"), wanted=None)),
    ("anytime_own_stores_are_found", changed(is_find("k2"), **MISSED)),
    ("anytime_own_stores_are_found", changed(is_find("k5"), stale=False)),
    ("anytime_nothing_leaks", changed(is_page("c2"), canaries=["canary-tenant-elsewhere"])),
    ("anytime_nothing_leaks", changed(is_page("c2"), canaries=["canary-owner-two"])),
    ("finally_logs_hold_no_words", changed(is_note("said", "p2"), words=["canary-tenant-here"])),
    ("finally_logs_hold_no_words", without(is_note("said", "p2"))),
    ("anytime_no_unmarked_repeat", changed(is_page("c4"), entries=[D1])),
    ("anytime_no_unmarked_repeat", changed(is_page("c3"), may_repeat=False)),
    ("anytime_committed_pages_stay_read", changed(is_page("c4"), entries=[D1], may_repeat=True)),
    ("anytime_no_page_lists_twice", changed(is_page("c2"), entries=[D2, D2])),
    ("anytime_only_matches_are_listed", changed(is_page("c4"), entries=[["d7", "n7", "k7", "alpha"]])),
    ("anytime_only_matches_are_listed", changed(is_page("c4"), entries=[["d3", "n3", "o-p1", "default"]])),
    ("anytime_only_matches_are_listed", changed(is_page("c2"), entries=[["d2", "n2", "k2", "beta"]])),
    ("anytime_only_matches_are_listed", changed(is_page("c4"), entries=[[*D2[:4], "superseded"]])),
    (
        "anytime_one_interest_is_one_beacon",
        changed(lambda r: r.where == "p2" and "beacon" in r.value, beacon="b2"),
    ),
    ("anytime_somebody_serves", late(is_end("store", node="n2"), 31.0)),
    ("eventually_every_peer_serves", without(lambda r: r.who == "observer" and r.where == "p2" and r.op > 0)),
    ("eventually_every_peer_serves", late(is_end("store", node="n4"), 31.0)),
    ("eventually_every_peer_hears", without(is_note("heard", "p2"))),
    ("eventually_every_peer_hears", late(is_note("heard", "p2"), 31.0)),
    ("eventually_everything_is_delivered", late(is_note("drained", "p1"), 61.0)),
    ("eventually_everything_is_delivered", without(is_note("drained", "p1"))),
    ("finally_every_acknowledged_store_is_everywhere", changed(is_note("holds", "p2"), keys={"n1": "k1"})),
    ("finally_every_acknowledged_store_is_everywhere", without(is_note("holds", "p2"))),
    ("finally_memories_are_searched", changed(is_note("searched", "p2"), missed=[["k1", "vector"]])),
    ("finally_memories_are_searched", without(is_note("searched", "p2"))),
    ("finally_every_match_was_listed", changed(is_page("c1"), entries=[])),
    (
        "finally_every_match_was_listed",
        changed(is_page("c3"), entries=[D1_REPLACED]),
    ),  # it was on a lost page
    ("finally_every_match_was_listed", changed(is_page("c3"), entries=[D2])),
    (
        "finally_each_stream_came_in_order",
        both(changed(is_page("c1"), entries=[D2]), changed(is_page("c3"), entries=[D1])),
    ),
    ("anytime_one_place_holds_one_event", changed(is_seen, chains=FORKED)),
    ("anytime_one_place_holds_one_event", changed(is_look, chains={"p1": {"s1": "x" * 16}})),
    ("anytime_streams_have_no_holes", changed(is_seen, chains=HOLED)),
    ("anytime_an_epoch_is_opened_once", changed(is_seen, openings={"p1": {"s1": [1, 3]}})),
    ("anytime_an_epoch_is_opened_once", changed(is_look, openings={"p1": {"s1": []}})),
    ("finally_nothing_seen_in_a_log_is_gone", changed(is_seen, chains={"p1": {"s1": CHAIN[:8]}})),
    ("finally_nothing_seen_in_a_log_is_gone", without(is_seen)),
    ("finally_state_hashes_agree", changed(is_note("log", "p2"), state_hash="0ther")),
    ("finally_streams_agree", changed(is_note("log", "p2"), streams=[])),
    ("finally_logs_verify", changed(is_note("log", "p2"), ok=False)),
    ("finally_logs_verify", without(is_note("log", "p2"))),
    ("finally_every_session_is_there", lambda records: [*records, *lost_session(records)]),
    ("anytime_damage_is_never_served", changed(is_heal, wrong=["p2 serves n1 damaged"])),
    ("eventually_faults_show", changed(is_strike, must_show=["refused while full"])),
    ("eventually_faults_show", without(lambda r: r.kind == HEAL)),
]
OF_FAULTS = {check for check, _ in FAULTY[-4:]}  # what they find is planted by the faults of disks themselves


def test_a_history_without_a_fault_passes_every_check() -> None:
    assert violations(good()) == {}


@pytest.mark.parametrize(("check", "spoil"), FAULTY, ids=[f"{n}-{c}" for n, (c, _) in enumerate(FAULTY)])
def test_a_check_fails_on_a_history_with_its_fault(check: str, spoil: Spoil) -> None:
    assert check in violations(spoil(good()))


def test_every_check_is_shown_to_fail() -> None:
    assert {check for check, _ in FAULTY} == CHECKS.keys() - TIME_CHECKS  # those have tests of their own
    assert all(name.startswith(("anytime_", "eventually_", "finally_")) for name in CHECKS)


def test_every_check_is_named_by_a_fault_that_is_planted_into_real_peers() -> None:
    planted = {check for planted in PLANTS.values() for check in planted.checks}
    assert planted == CHECKS.keys() - TIME_CHECKS - OF_FAULTS


def struck_disk(peer: str, age_s: float, before: Callable[[Record], bool]) -> Spoil:
    """Have the disk of a peer struck, and the peer mended, right before the first record that matches."""

    def spoil(records: list[Record]) -> list[Record]:
        at = next(i for i, r in enumerate(records) if before(r))
        told = {"disk_of": peer, "age_s": age_s, "targets": [peer]}
        struck = Record(records[at].at_s - 0.2, FAULT_KIND, 0, "injector", "wipe_peer", "", told)
        healed = replace(struck, kind=HEAL, at_s=records[at].at_s - 0.1)
        return [*records[:at], struck, healed, *records[at:]]

    return spoil


MARKED_AT = changed(
    lambda r: r.what == "drain" and r.kind == INVOKE and r.value.get("ack") == "c3", together=True
)


@pytest.mark.parametrize(
    ("check", "allowed"),
    [
        ("anytime_no_unmarked_repeat", both(MARKED_AT, changed(is_page("c4"), entries=[D1]))),
        ("anytime_committed_pages_stay_read", both(MARKED_AT, changed(is_page("c4"), entries=[D1]))),
        ("anytime_nothing_leaks", changed(is_page("c2"), canaries=["canary-owner-one"])),
        ("finally_every_match_was_listed", without(lambda r: r.who == "ann" and r.what == "place")),
        ("anytime_nobody_alone_claims_more", changed(is_end("store", node="n1"), durable_on=2)),
        (
            "anytime_own_stores_are_found",
            both(
                changed(is_find("k5"), stale=False),
                changed(lambda r: r.what == "find" and r.where == "p2" and r.kind == INVOKE, carried=False),
            ),
        ),
    ],
    ids=[
        "a reader that called twice at once",
        "a page beside another one",
        "its owner's own word",
        "nothing is due without a beacon",
        "it was not cut off",
        "plain HTTP names nothing that it stored",
    ],
)
def test_what_the_promises_allow_is_no_miss(check: str, allowed: Spoil) -> None:
    assert check not in violations(allowed(good()))


def at(at_s: float) -> Callable[[Record], bool]:
    return lambda r: r.at_s >= at_s


K5_LOST = both(
    changed(is_note("searched", "p2"), missed=[["k5", "lexical"]]),
    changed(is_note("holds", "p1"), keys={"n1": "k1"}),
    changed(is_note("holds", "p2"), keys={"n1": "k1"}),
)
STRUCK: list[
    tuple[str, Spoil, float, str, float]
] = [  # check, its fault, when which disk is struck, since when alone
    (
        "anytime_durable_on_is_true",
        changed(is_look, held={"p1": ["n1", "n2", "n5"], "p2": []}),
        *(35.0, "p2", 30.0),
    ),
    ("anytime_no_unmarked_repeat", changed(is_page("c4"), entries=[D1]), 48.0, "p1", 11.0),
    ("anytime_committed_pages_stay_read", changed(is_page("c4"), entries=[D1]), 48.0, "p1", 5.0),
    ("anytime_own_stores_are_found", changed(is_find("k2"), **MISSED), 15.0, "p1", 2.0),
    (
        "finally_nothing_seen_in_a_log_is_gone",
        changed(is_seen, chains={"p1": {"s1": CHAIN[:8]}}),
        38.0,
        "p1",
        5.0,
    ),
    ("finally_memories_are_searched", K5_LOST, 27.0, "p1", 6.0),
    ("finally_every_session_is_there", lambda records: [*records, *lost_session(records)], 9.0, "p2", 8.0),
]


@pytest.mark.parametrize(("check", "fault", "at_s", "peer", "age_s"), STRUCK, ids=[s[0] for s in STRUCK])
def test_a_struck_disk_excuses_what_it_alone_held_and_nothing_else(
    check: str, fault: Spoil, at_s: float, peer: str, age_s: float
) -> None:
    other = {"p1": "p2", "p2": "p1"}[peer]
    assert check not in violations(struck_disk(peer, age_s, at(at_s))(fault(good())))
    assert check in violations(struck_disk(other, 0.1, at(at_s))(fault(good())))
    if check != "anytime_own_stores_are_found":  # it may lack what had spread until it has caught up
        assert check in violations(struck_disk(peer, 0.1, at(at_s))(fault(good())))


def test_deadlines_are_not_judged_while_a_clock_is_wrong_and_only_then() -> None:
    def with_clock(from_s: float, to_s: float) -> list[Record]:
        wrong = [
            Record(at_s, kind, 0, "injector", "clock_slow", "", {"targets": ["p2"]})
            for at_s, kind in ((from_s, FAULT_KIND), (to_s, HEAL))
        ]
        return sorted([*answered("later")(good()), *wrong], key=lambda r: r.at_s)

    check = "anytime_late_requests_are_dropped"
    assert check not in violations(with_clock(30.5, 32.5))
    assert check in violations(with_clock(20.5, 24.5))


def test_a_repeat_at_another_peer_has_to_be_marked_for_who_acknowledges_and_for_nobody_else() -> None:
    elsewhere = changed(is_page("c4"), entries=[D1])

    def at_p2(records: list[Record]) -> list[Record]:
        (op,) = (r.op for r in records if r.value.get("cursor") == "c4")
        return [replace(r, where="p2") if r.op == op else r for r in records]

    def who_names_nothing(records: list[Record]) -> list[Record]:
        return [
            replace(r, value={**r.value, "acks": False}) if r.what == "drain" and r.kind == INVOKE else r
            for r in records
        ]

    check = "anytime_no_unmarked_repeat"
    assert check in violations(both(elsewhere, at_p2)(good()))
    assert check not in violations(both(elsewhere, at_p2, who_names_nothing)(good()))
    assert check in violations(both(elsewhere, who_names_nothing)(good()))


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
        "faults": {"kill_all_peers": 2, "kill_peer": 1, "flap": 1, "kill_all_and_look": 1, "wipe_peer": 1},
        "violations": {"finally_x": [3, ["a"]]},
        "repeats_unmarked_elsewhere": 5,
    }
    other = {**report, "scenario": "kills", "healed_to_delivered_s": None, "violations": {}}
    lines = table([report, other, report]).splitlines()
    assert lines[2] == "| processes | kills | 1 | 10 | 7 | 10 | 4 | 0 | 1 | 0 | 3 | 5 | - | 0 |"
    assert lines[4] == "| **all** |  | 3 | 30 | 21 | 30 | 12 | 0 | 3 | 0 | 9 | 15 | 2.5 | 6 |"
