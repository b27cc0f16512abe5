"""The hybrid logical clock: order for display, with a bound on what a fast peer can do."""

from __future__ import annotations

from proto.clock import COUNTER_MAX, ZERO, Hlc, is_suspect, observe, tick
from proto.limits import REMOTE_CLOCK_LEAD_MS


def test_a_local_event_takes_the_wall_clock_when_it_has_moved() -> None:
    assert tick(Hlc(1_000, 7), 1_001) == Hlc(1_001, 0)


def test_within_one_millisecond_or_when_the_clock_goes_back_the_counter_counts() -> None:
    assert tick(Hlc(1_000, 7), 1_000) == Hlc(1_000, 8)
    assert tick(Hlc(1_000, 7), 400) == Hlc(1_000, 8)


def test_a_counter_at_its_end_borrows_the_next_millisecond() -> None:
    assert tick(Hlc(1_000, COUNTER_MAX), 1_000) == Hlc(1_001, 0)
    assert tick(Hlc(1_000, COUNTER_MAX + 5), 1_000) == Hlc(1_001, 0)


def test_an_earlier_remote_reading_changes_nothing() -> None:
    assert observe(Hlc(1_000, 3), Hlc(999, 50), 1_000) == Hlc(1_000, 3)
    assert observe(Hlc(1_000, 3), ZERO, 5_000) == Hlc(1_000, 3)


def test_a_later_remote_reading_is_taken() -> None:
    assert observe(Hlc(1_000, 3), Hlc(1_200, 50), 1_000) == Hlc(1_200, 50)


def test_a_remote_reading_at_the_bound_is_taken_and_one_beyond_is_cut() -> None:
    limit = 1_000 + REMOTE_CLOCK_LEAD_MS
    assert observe(ZERO, Hlc(limit, 9), 1_000) == Hlc(limit, 9)
    assert observe(ZERO, Hlc(limit + 1, 9), 1_000) == Hlc(limit, 0)
    assert observe(ZERO, Hlc(10**12, 9), 1_000) == Hlc(limit, 0)


def test_only_a_reading_beyond_the_bound_is_suspect() -> None:
    assert not is_suspect(Hlc(1_000 + REMOTE_CLOCK_LEAD_MS, 0), 1_000)
    assert is_suspect(Hlc(1_001 + REMOTE_CLOCK_LEAD_MS, 0), 1_000)
    assert not is_suspect(Hlc(1, 0), 1_000)
