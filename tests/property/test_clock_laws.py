"""Laws of the hybrid logical clock."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from proto.clock import Hlc, observe, tick
from proto.events import SEQUENCE_MAX
from proto.limits import REMOTE_CLOCK_LEAD_MS
from tests.support.laws import LAW

walls = st.integers(0, 2**42)
readings = st.builds(Hlc, walls, st.integers(0, 2**33))
remotes = st.builds(Hlc, st.integers(0, SEQUENCE_MAX), st.integers(0, SEQUENCE_MAX))


@LAW
@given(readings, walls)
def test_a_tick_is_later_than_all_before_it_and_not_before_the_wall_clock(last: Hlc, wall_ms: int) -> None:
    now = tick(last, wall_ms)
    assert now > last
    assert now.wall_ms >= wall_ms
    assert now.counter <= SEQUENCE_MAX


@LAW
@given(readings, remotes, walls)
def test_observing_never_goes_back(last: Hlc, remote: Hlc, wall_ms: int) -> None:
    assert observe(last, remote, wall_ms) >= last


@LAW
@given(readings, st.lists(remotes, max_size=5), walls)
def test_no_number_of_remote_readings_leads_the_wall_clock_by_more_than_the_bound(
    last: Hlc, many: list[Hlc], wall_ms: int
) -> None:
    now = last
    for remote in many:
        now = observe(now, remote, wall_ms)
    assert now.wall_ms <= max(last.wall_ms, wall_ms + REMOTE_CLOCK_LEAD_MS)
    assert tick(now, wall_ms).wall_ms <= max(last.wall_ms, wall_ms + REMOTE_CLOCK_LEAD_MS) + 1


@LAW
@given(readings, remotes, walls)
def test_after_observing_a_reading_within_the_bound_a_tick_is_later_than_it(
    last: Hlc, remote: Hlc, wall_ms: int
) -> None:
    now = tick(observe(last, remote, wall_ms), wall_ms)
    assert now > remote or remote.wall_ms > wall_ms + REMOTE_CLOCK_LEAD_MS


@LAW
@given(readings, remotes, remotes, walls)
def test_observing_is_commutative_and_idempotent(last: Hlc, a: Hlc, b: Hlc, wall_ms: int) -> None:
    ab = observe(observe(last, a, wall_ms), b, wall_ms)
    assert ab == observe(observe(last, b, wall_ms), a, wall_ms)
    assert ab == observe(observe(ab, a, wall_ms), b, wall_ms)
