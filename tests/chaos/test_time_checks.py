"""Each check about faults in time fails on a history with its fault in it, and the figures count rightly."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.chaos.history import BEGIN, FAULT, HEAL, OK, History
from tests.chaos.time_checks import (
    eventually_what_was_missed_is_caught_up,
    finally_a_retired_member_changes_nothing,
    time_figures,
)
from tests.chaos.time_faults import MEMBER
from tests.chaos.totals import table

GOOD: Mapping[str, Any] = {
    "targets": ["peer-4"],
    "joined_s": 1.0,
    "late": 5,
    "kept_aside": {"peer-1": 5, "peer-2": 6},
    "shown": {"peer-1": [], "peer-2": None},
    "lost": {"peer-1": 0},
    "still_stores": False,
}
REPORT: Mapping[str, Any] = {
    "on": "processes",
    "scenario": "pairs",
    "stores": 1,
    "listed": 1,
    "violations": {},
    "repeats_unmarked_elsewhere": 0,
    "healed_to_delivered_s": None,
}


def healed(what: str, value: Mapping[str, Any]) -> History:
    history = History()
    history.note(HEAL, "injector", what, **value)
    return history


def test_a_member_that_leaves_as_it_should_is_no_violation() -> None:
    assert finally_a_retired_member_changes_nothing(healed(MEMBER, GOOD).records) == []


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"kept_aside": {"peer-1": 4}}, "peer-1 kept 4 of 5 late events of peer-4 aside"),
        ({"shown": {"peer-2": ["n1"]}}, "peer-2 shows what peer-4 stored late: ['n1']"),
        ({"lost": {"peer-3": 2}}, "peer-3 lacks 2 memories that peer-4 stored in time"),
        ({"still_stores": True}, "peer-4 was retired and still stores"),
    ],
)
def test_what_a_retired_member_must_not_do_is_found(wrong: Mapping[str, Any], sentence: str) -> None:
    assert finally_a_retired_member_changes_nothing(healed(MEMBER, {**GOOD, **wrong}).records) == [sentence]


def test_a_backlog_that_was_not_caught_up_is_found() -> None:
    told: dict[str, Any] = {"missed": 300, "caught_up_s": None}
    found = eventually_what_was_missed_is_caught_up(healed("behind_two", told).records)
    assert found == ["after behind_two 300 events were not caught up"]
    told = {"missed": 300, "caught_up_s": 4.0}
    assert eventually_what_was_missed_is_caught_up(healed("behind_two", told).records) == []


def test_the_figures_name_the_instants_of_death_and_the_live_stores_of_a_backlog() -> None:
    history = History()
    history.note(BEGIN, "injector", "kill_after_fsync")
    history.note(FAULT, "injector", "kill_after_fsync", targets=["peer-1"], died_at="after_fsync")
    history.note(FAULT, "injector", "kill_in_snapshot", targets=["peer-2"], died_at="")
    history.note(BEGIN, "injector", "behind_one")
    told: dict[str, Any] = {"targets": ["peer-1"], "missed": 300, "stored": 400}
    history.note(FAULT, "injector", "behind_one", **told)
    op = history.invoke("ann", "store", "peer-2", key="a", project="alpha")
    history.end(OK, op, "ann", "store", "peer-2", node="n")
    history.note(HEAL, "injector", "behind_one", **told, restarted_s=3.0, caught_up_s=4.0)
    figures = time_figures(history.records)
    assert figures["died_at"] == {"after_fsync": 1, "elsewhere": 1}
    (backlog,) = figures["backlogs"]
    assert (backlog["missed"], backlog["caught_up_s"]) == (300, 4.0)
    assert backlog["live_p99_ms"] is not None


def test_a_peer_killed_by_both_faults_of_a_pair_counts_once() -> None:
    history = History()
    history.note(FAULT, "injector", "kill_all_peers", targets=["peer-1", "peer-2", "peer-3"])
    history.note(FAULT, "injector", "kill_peer", targets=["peer-2"])
    history.note(HEAL, "injector", "kill_peer", targets=["peer-2"])
    history.note(HEAL, "injector", "kill_all_peers", targets=["peer-1", "peer-2", "peer-3"])
    history.note(FAULT, "injector", "kill_peer", targets=["peer-2"])
    twice = time_figures(history.records)["killed_twice"]
    assert twice == 1
    rows = table([{**REPORT, "faults": {"kill_all_peers": 1, "kill_peer": 2}, "killed_twice": twice}])
    assert rows.splitlines()[2].split(" | ")[5] == "4"


def test_deaths_at_instants_and_one_way_links_count_as_kills_and_partitions() -> None:
    faults = {
        "kill_before_fsync": 2,
        "behind_two": 1,
        "clocks_apart": 1,
        "deaf_one": 1,
        "bridge": 1,
        "flap": 1,
    }
    row = table([{**REPORT, "faults": faults}]).splitlines()[2].split(" | ")
    assert row[5:7] == ["6", "6"]
