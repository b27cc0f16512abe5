"""A token bucket that pays afterwards: who may begin, and when again."""

from __future__ import annotations

from mesh.token_bucket import TokenBucket


def test_it_is_full_at_first_and_one_thing_may_cost_more_than_there_is() -> None:
    bucket = TokenBucket(per_s=1_000, most=2_000)
    assert bucket.has_some(0)
    bucket.spend(5_000)
    assert not bucket.has_some(0)
    assert not bucket.has_some(3_000), "the debt is paid and nothing is left"
    assert bucket.has_some(3_001)


def test_rest_fills_it_to_the_brim_and_no_further() -> None:
    bucket = TokenBucket(per_s=1_000, most=2_000)
    assert bucket.has_some(0)
    assert bucket.has_some(10_000_000)
    bucket.spend(2_001)
    assert not bucket.has_some(10_000_001)
