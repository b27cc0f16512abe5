"""The bucket of calls per key, on a clock that the test turns."""

from __future__ import annotations

import pytest

from node.service.rates import KEYS_REMEMBERED, Rates
from proto.errors import Overloaded


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def spend(rates: Rates, key: str) -> int:
    """Call until refused; return how many calls went through."""
    for n in range(100_000):
        try:
            rates.take(key)
        except Overloaded:
            return n
    raise AssertionError("never refused")


def test_a_rested_key_has_its_burst_and_not_one_more() -> None:
    assert spend(Rates(Clock()), "a") == 1_000


def test_calls_come_back_at_500_a_second_up_to_the_burst() -> None:
    clock = Clock()
    rates = Rates(clock)
    spend(rates, "a")
    for seconds, calls in ((0.1, 50), (1, 500), (2, 1_000), (3600, 1_000)):
        clock.now_s += seconds
        assert spend(rates, "a") == pytest.approx(calls, abs=1)


def test_a_refusal_says_when_to_come_back_and_costs_nothing() -> None:
    clock = Clock()
    rates = Rates(clock)
    spend(rates, "a")
    for _ in range(100):
        with pytest.raises(Overloaded, match=r"more than 500 calls/s \(bursts of 1000\)") as caught:
            rates.take("a")
    assert caught.value.retry_after_ms is not None
    clock.now_s += caught.value.retry_after_ms / 1000
    rates.take("a")


def test_keys_do_not_share_a_bucket() -> None:
    rates = Rates(Clock())
    spend(rates, "a")
    assert spend(rates, "b") == 1_000


def test_memory_is_bounded_however_many_keys_call() -> None:
    rates = Rates(Clock())
    for n in range(KEYS_REMEMBERED + 500):
        rates.take(str(n))
    assert len(rates._left) == KEYS_REMEMBERED
