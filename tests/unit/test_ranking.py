"""One distance out of two scores."""

from __future__ import annotations

import itertools

import pytest

from node.ranking import distance

MODES = ("hybrid", "vector", "lexical")
STEPS = [n / 20 for n in range(21)]


@pytest.mark.parametrize("mode", MODES)
def test_a_distance_lies_between_zero_and_one(mode: str) -> None:
    for cosine, share in itertools.product((-1.0, -0.2, *STEPS, 1.000_000_2), STEPS):
        assert 0.0 <= distance(mode, cosine, share) <= 1.0


@pytest.mark.parametrize("mode", MODES)
def test_the_same_text_is_at_distance_zero(mode: str) -> None:
    assert distance(mode, 0.999_999_9, 1.0) == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("mode", MODES)
def test_nothing_in_common_is_at_distance_one(mode: str) -> None:
    assert distance(mode, 0.0, 0.0) == distance(mode, -0.3, 0.0) == 1.0


@pytest.mark.parametrize("mode", MODES)
def test_more_of_either_score_is_never_farther(mode: str) -> None:
    for other in STEPS:
        by_cosine = [distance(mode, cosine, other) for cosine in STEPS]
        by_share = [distance(mode, other, share) for share in STEPS]
        assert by_cosine == sorted(by_cosine, reverse=True)
        assert by_share == sorted(by_share, reverse=True)


def test_the_vector_mode_is_one_minus_the_cosine_and_no_less_than_zero() -> None:
    assert distance("vector", 0.25, 1.0) == 0.75
    assert distance("vector", -0.5, 1.0) == 1.0


def test_both_arms_count_in_the_hybrid_mode() -> None:
    assert distance("hybrid", 0.6, 0.0) < distance("hybrid", 0.3, 0.0)
    assert distance("hybrid", 0.3, 0.8) < distance("hybrid", 0.6, 0.0)
