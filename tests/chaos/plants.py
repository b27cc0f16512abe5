"""Faults planted into a real peer, one function of the product each, so that every check is seen to fail for real.

A plant is a few lines that wrap what they break; `PLANTS` says which checks have to find it, and under which faults.
Test-only: `hash_peer` installs the one that an environment variable names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tests.chaos import plants_in_calls as calls
from tests.chaos import plants_in_logs as logs

PLANT_VARIABLE: Final = "CHAOS_PLANT"


@dataclass(frozen=True, slots=True)
class Planted:
    """One plant.

    Args:
        install: changes the product in this process.
        checks: must find it, each of them.
        faults: of the scenario in which they do.
    """

    install: Callable[[], None]
    checks: Sequence[str]
    faults: Sequence[str] = ("pause_server",)


def plant(name: str) -> None:
    """Install a plant in this process."""
    PLANTS[name].install()


_LISTED: Final = "finally_every_match_was_listed"
_LOOKS: Final = ("kill_all_and_look",)

PLANTS: Final[Mapping[str, Planted]] = {
    "acknowledges_before_commit": Planted(
        calls.acknowledges_before_commit, ["anytime_durable_on_is_true"], ("kill_all_and_look",) * 3
    ),
    "claims_one_more": Planted(
        calls.claims_one_more,
        ["anytime_durable_on_is_true", "anytime_nobody_alone_claims_more"],
        ("cut_off_kill_and_look", "cut_off_each"),
    ),
    "hides_what_was_wanted": Planted(
        calls.hides_what_was_wanted, ["anytime_short_answers_say_so"], ("cut_off_each",)
    ),
    "forgets_idempotency_keys": Planted(calls.forgets_idempotency_keys, ["anytime_one_key_is_one_memory"]),
    "serves_late_requests": Planted(calls.serves_late_requests, ["anytime_late_requests_are_dropped"]),
    "does_not_wait_for_own_stores": Planted(
        calls.does_not_wait_for_own_stores, ["anytime_own_stores_are_found"], ("cut_off_one",)
    ),
    "searches_for_something_else": Planted(
        calls.searches_for_something_else, ["finally_memories_are_searched"]
    ),
    "skips_matches": Planted(calls.skips_matches, [_LISTED]),
    "has_one_cursor_for_sessions": Planted(calls.has_one_cursor_for_sessions, [_LISTED]),
    "commits_what_it_lists": Planted(calls.commits_what_it_lists, [_LISTED]),
    "commits_nothing": Planted(calls.commits_nothing, ["anytime_committed_pages_stay_read"]),
    "never_marks": Planted(calls.never_marks, ["anytime_no_unmarked_repeat"]),
    "lists_twice": Planted(calls.lists_twice, ["anytime_no_page_lists_twice"]),
    "lists_newest_first": Planted(calls.lists_newest_first, ["finally_each_stream_came_in_order"]),
    "filters_nothing": Planted(calls.filters_nothing, ["anytime_only_matches_are_listed"]),
    "makes_another_beacon": Planted(calls.makes_another_beacon, ["anytime_one_interest_is_one_beacon"]),
    "has_no_walls": Planted(calls.has_no_walls, ["anytime_nothing_leaks"]),
    "logs_contents": Planted(calls.logs_contents, ["finally_logs_hold_no_words"]),
    "reuses_its_epoch": Planted(logs.reuses_its_epoch, ["anytime_an_epoch_is_opened_once"], ("kill_peer",)),
    "rots": Planted(logs.rots, ["finally_logs_verify"]),
    "loses_one": Planted(logs.loses_one, ["anytime_streams_have_no_holes"], _LOOKS),
    "writes_another_header": Planted(
        logs.writes_another_header, ["anytime_one_place_holds_one_event"], _LOOKS
    ),
    "forgets_at_start": Planted(logs.forgets_at_start, ["finally_nothing_seen_in_a_log_is_gone"], _LOOKS),
    "goes_deaf": Planted(
        logs.goes_deaf,
        [
            "eventually_every_peer_hears",
            "finally_every_acknowledged_store_is_everywhere",
            "finally_streams_agree",
            "finally_state_hashes_agree",
        ],
    ),
    "sleeps": Planted(
        logs.sleeps,
        ["anytime_somebody_serves", "eventually_every_peer_serves", "eventually_everything_is_delivered"],
    ),
}
