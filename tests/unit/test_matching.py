"""One beacon against one diff: filters, placements, withdrawals, expiry, and whose memories are meant."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from node.matching import (
    INTEREST_IN_ALL,
    Beacon,
    Coverages,
    Diff,
    Filters,
    Match,
    Placement,
    current,
    judge,
    names_epoch_from,
)
from proto.clock import Hlc
from proto.ids import AgentId, BeaconId, CellId, DiffId, SessionId, TenantId
from proto.payloads import PRIVATE
from proto.streams import Frontier, Links, Position, StreamId
from tests.support.sealed import stream

ANN, BEN = AgentId(b"a" * 16), AgentId(b"b" * 16)
SPACE = "test/4"
AT_CELLS, AT_BEACONS = stream(1), stream(2)
NO_FILTERS = Filters(None, frozenset(), frozenset(), 0)


def diff(sequence: int = 5, **fields: Any) -> Diff:
    given: dict[str, Any] = {
        "local": 1,
        "position": Position(AT_CELLS, sequence),
        "hlc": Hlc(1_000, 0),
        "tenant": TenantId(bytes(16)),
        "agent_id": BEN,
        "owner": "ben",
        "project": "web",
        "session": None,
        "cell_type": "Decision",
        "layer": 0,
        "salience": 5_000,
        "match_bonus": 0,
        "cell": CellId(bytes(16)),
        "cell_no": 1,
        "diff": DiffId(bytes(16)),
        "space": SPACE,
    }
    return Diff(**{**given, **fields})


def placement(number: int = 1, knew: int = 0, **fields: Any) -> Placement:
    """Return the number-th placement, made by a peer that knew so many events of the cells' stream."""
    given: dict[str, Any] = {
        "local": number,
        "position": Position(AT_BEACONS, number),
        "hlc": Hlc(100 + number, 0),
        "threshold": 3_000,
        "expires_ms": 10_000,
        "include_own": False,
        "strict": False,
        "owner": "ann",
        "readable": None,
        "frontier": (Position(AT_CELLS, knew),) if knew else (),
        "space": SPACE,
        "vector_no": 0,
    }
    return Placement(**{**given, **fields})


def beacon(
    *placements: Placement, filters: Filters = NO_FILTERS, withdrawals: tuple[Frontier, ...] = ()
) -> Beacon:
    return Beacon(
        BeaconId(bytes(16)),
        TenantId(bytes(16)),
        ANN,
        "ann",
        "retries",
        filters,
        list(placements) or [placement()],
        list(withdrawals),
    )


def matched(
    interest: Beacon, change: Diff | None = None, score: int | None = 5_000, links: Links | None = None
) -> Match | None:
    scores = {} if score is None else {0: score}
    return judge(interest, change or diff(), scores, Coverages(links or {}))


# -- score and threshold


@pytest.mark.parametrize(
    ("score", "expected"), [(3_000, True), (2_999, False), (-10_000, False), (None, False)]
)
def test_a_score_at_the_threshold_matches_and_one_below_does_not(score: int | None, expected: bool) -> None:
    assert (matched(beacon(), score=score) is not None) == expected


def test_a_bonus_helps_to_reach_the_threshold_and_is_not_part_of_the_score() -> None:
    found = matched(beacon(), diff(match_bonus=500), 2_500)
    assert found is not None
    assert found.score == 2_500


def test_a_strict_beacon_takes_no_bonus() -> None:
    strict = beacon(placement(strict=True))
    assert matched(strict, diff(match_bonus=500), 2_500) is None
    assert matched(strict, diff(match_bonus=500), 3_000) is not None


def test_a_negative_bonus_keeps_a_memory_out() -> None:
    assert matched(beacon(), diff(match_bonus=-500), 3_400) is None


def test_an_interest_in_everything_needs_no_score_and_no_vector() -> None:
    everything = replace(beacon(placement(space=None)), interest=INTEREST_IN_ALL)
    found = matched(everything, diff(space=None), None)
    assert found is not None
    assert found.score == 10_000


def test_vectors_of_two_spaces_are_not_compared() -> None:
    assert matched(beacon(), diff(space="other/4")) is None
    assert matched(beacon(), diff(space=None)) is None


# -- filters


@pytest.mark.parametrize(
    ("filters", "change"),
    [
        (replace(NO_FILTERS, project="web"), {"project": "billing"}),
        (replace(NO_FILTERS, cell_types=frozenset({"Decision"})), {"cell_type": "Lesson"}),
        (replace(NO_FILTERS, layers=frozenset({0, 1})), {"layer": 2}),
        (replace(NO_FILTERS, min_salience=5_000), {"salience": 4_999}),
    ],
)
def test_a_filter_lets_through_what_it_names_and_nothing_else(
    filters: Filters, change: dict[str, Any]
) -> None:
    assert matched(beacon(filters=filters)) is not None
    assert matched(beacon(filters=filters), diff(**change)) is None


# -- whose memories


def test_an_agent_is_not_told_of_what_it_stored_itself() -> None:
    assert matched(beacon(), diff(agent_id=ANN)) is None


def test_what_a_session_of_the_agent_stored_is_an_entry_for_its_other_readers() -> None:
    assert matched(beacon(), diff(agent_id=ANN, session=SessionId(b"s" * 16))) is not None


def test_include_own_lets_own_memories_through() -> None:
    found = matched(beacon(placement(include_own=True)), diff(agent_id=ANN))
    assert found is not None
    assert found.include_own


def test_private_memories_match_for_agents_of_their_owner_only() -> None:
    private = diff(project=PRIVATE, owner="ann")
    assert matched(beacon(placement(owner="ann")), private) is not None
    assert matched(beacon(placement(owner="ben")), private) is None


def test_private_needs_no_grant_and_other_projects_do() -> None:
    granted = beacon(placement(readable=frozenset({"web"})))
    assert matched(granted, diff(project="web")) is not None
    assert matched(granted, diff(project="billing")) is None
    assert matched(granted, diff(project=PRIVATE, owner="ann")) is not None


# -- time


def test_a_beacon_expires_for_what_is_stored_at_its_end_or_later() -> None:
    assert matched(beacon(placement(expires_ms=1_001))) is not None
    assert matched(beacon(placement(expires_ms=1_000))) is None


def test_a_renewal_only_ever_adds_time() -> None:
    renewed = beacon(placement(expires_ms=1_000))
    renewed.renewed_ms = 1_001
    assert matched(renewed) is not None
    renewed.renewed_ms = 10
    assert matched(renewed) is None
    assert renewed.expires_ms(renewed.placements[0]) == 1_000


# -- placements


def test_what_the_accepting_peer_knew_already_is_not_a_match() -> None:
    assert matched(beacon(placement(knew=5)), diff(5)) is None
    assert matched(beacon(placement(knew=5)), diff(6)) is not None


def test_clocks_do_not_decide_what_a_placement_covers() -> None:
    late = beacon(placement(hlc=Hlc(9_000, 0)))
    assert matched(late, diff(hlc=Hlc(1, 0))) is not None


def test_the_newest_eligible_placement_gives_the_threshold() -> None:
    raised = beacon(placement(1, threshold=3_000), placement(2, knew=5, threshold=9_000))
    assert matched(raised, diff(6)) is None  # unknown to both: the newer one decides
    assert matched(raised, diff(5)) is not None  # the newer one knew it, so the older one decides


def test_of_equal_clocks_the_later_position_is_newer() -> None:
    same = Hlc(500, 0)
    assert matched(beacon(placement(2, hlc=same, threshold=9_000), placement(1, hlc=same))) is None


def test_an_expired_placement_gives_way_to_an_older_one_that_still_lasts() -> None:
    assert matched(beacon(placement(1), placement(2, threshold=9_000, expires_ms=500))) is not None


def test_a_placement_in_another_space_gives_way_to_one_that_can_be_compared() -> None:
    moved = beacon(placement(1), placement(2, threshold=9_000, space="new/4", vector_no=1))
    assert matched(moved) is not None
    assert judge(moved, diff(space="new/4"), {1: 9_500}, Coverages({})) is not None


def test_each_placement_is_scored_by_the_vector_it_was_placed_with() -> None:
    twice = beacon(placement(1), placement(2, vector_no=1))
    assert judge(twice, diff(), {0: 9_000}, Coverages({})) is None
    found = judge(twice, diff(), {0: 9_000, 1: 4_000}, Coverages({}))
    assert found is not None
    assert found.score == 4_000


# -- withdrawals


def test_a_withdrawal_ends_the_placements_it_knew_for_what_it_did_not_know() -> None:
    knew_both = (Position(AT_CELLS, 5), Position(AT_BEACONS, 1))
    ended = beacon(placement(1), withdrawals=(knew_both,))
    assert matched(ended, diff(6)) is None
    assert matched(ended, diff(5)) is not None


def test_a_withdrawal_does_not_end_a_placement_that_it_did_not_know() -> None:
    knew_first = (Position(AT_CELLS, 5), Position(AT_BEACONS, 1))
    again = beacon(placement(1), placement(2, knew=5), withdrawals=(knew_first,))
    assert matched(again, diff(6)) is not None
    assert current(again, Coverages({})) == again.placements[1]


def test_a_beacon_whose_placements_are_all_withdrawn_says_nothing_now() -> None:
    assert current(beacon(placement(1), withdrawals=((Position(AT_BEACONS, 1),),)), Coverages({})) is None


# -- links


def test_an_older_epoch_lies_before_a_frontier_as_far_as_the_links_say() -> None:
    newer = StreamId(AT_CELLS.peer, 0, 1, b"newer---")
    links: dict[StreamId, Position | None] = {}
    covers = Coverages(links)
    placed = beacon(placement(frontier=(Position(newer, 1),)))
    assert judge(placed, diff(5), {0: 5_000}, covers) is not None
    links[newer] = Position(AT_CELLS, 5)
    covers.forget()
    assert judge(placed, diff(5), {0: 5_000}, covers) is None
    assert judge(placed, diff(6), {0: 5_000}, covers) is not None


def test_a_link_matters_only_to_frontiers_that_name_its_epoch_or_a_later_one() -> None:
    epochs = [StreamId(AT_CELLS.peer, 0, n, bytes(8)) for n in range(3)]
    frontier = (Position(epochs[1], 3),)
    assert names_epoch_from(frontier, epochs[0])
    assert names_epoch_from(frontier, epochs[1])
    assert not names_epoch_from(frontier, epochs[2])
    assert not names_epoch_from(frontier, AT_BEACONS)
