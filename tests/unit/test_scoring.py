"""Scores as integers: the definition, its matrix form, and what may not be quantised."""

from __future__ import annotations

import numpy as np
import pytest

from proto.errors import Invalid
from proto.scoring import DIMENSIONS_MAX, matches, quantise, score, scores, unit, unpack


def test_the_largest_component_becomes_127_and_the_norm_is_the_sum_of_squares() -> None:
    quantised = quantise(np.array([0.5, -1.0, 0.25], dtype=np.float32))
    values = np.frombuffer(quantised.q, dtype=np.int8)
    assert values.tolist() == [64, -127, 32]
    assert quantised.n == 64**2 + 127**2 + 32**2


def test_halves_are_rounded_to_even() -> None:
    quantised = quantise(np.array([127.0, 0.5, 1.5, -2.5], dtype=np.float32))
    assert np.frombuffer(quantised.q, dtype=np.int8).tolist() == [127, 0, 2, -2]


@pytest.mark.parametrize(
    "vector",
    [
        np.zeros(4),
        np.array([1.0, np.nan]),
        np.array([np.inf, 1.0]),
        np.zeros(0),
        np.ones((2, 2)),
        np.ones(DIMENSIONS_MAX + 1),
    ],
)
def test_what_has_no_direction_or_too_many_dimensions_is_refused(vector: np.ndarray) -> None:
    with pytest.raises(Invalid):
        quantise(vector.astype(np.float32))


def test_a_vector_scores_ten_thousand_with_itself_and_the_negative_with_its_opposite() -> None:
    vector = np.random.default_rng(1).standard_normal(384).astype(np.float32)
    a, b = quantise(vector), quantise(-vector)
    assert score(a.q, a.n, a.q, a.n) == 10_000
    assert score(a.q, a.n, b.q, b.n) == -10_000


def test_negative_scores_are_rounded_down() -> None:
    a, b = bytes([127, 0]), np.array([-1, 127], dtype=np.int8).tobytes()
    assert score(a, 127**2, b, 1 + 127**2) == -79  # -78.7...


def test_the_matrix_form_is_exact_at_the_most_dimensions_and_the_largest_values() -> None:
    q = np.full(DIMENSIONS_MAX, 127, dtype=np.int8)
    almost = q.copy()
    almost[0] = 126
    rows = np.stack([unpack(q.tobytes()), unpack(almost.tobytes())])
    norms = np.array([int((v.astype(np.int64) ** 2).sum()) for v in (q, almost)])
    found = scores(rows, norms, rows, norms)
    for i, a in enumerate((q, almost)):
        for j, b in enumerate((q, almost)):
            assert found[i, j] == score(a.tobytes(), int(norms[i]), b.tobytes(), int(norms[j]))


def test_one_dimension_more_is_refused_by_the_matrix_form() -> None:
    rows = np.ones((1, DIMENSIONS_MAX + 1), dtype=np.float32)
    norms = np.array([DIMENSIONS_MAX + 1])
    with pytest.raises(AssertionError):
        scores(rows, norms, rows, norms)


def test_a_pair_matches_at_its_threshold_and_not_one_above() -> None:
    rng = np.random.default_rng(2)
    a, b = (quantise(rng.standard_normal(16).astype(np.float32)) for _ in range(2))
    exact = score(a.q, a.n, b.q, b.n)
    for bonus in (-1000, 0, 1000):
        for offset, expected in ((0, 1), (1, 0)):
            _, _, found = matches(
                unpack(a.q)[None],
                np.array([a.n]),
                unpack(b.q)[None],
                np.array([b.n]),
                np.array([exact + bonus + offset], dtype=np.int32),
                np.array([bonus], dtype=np.int32),
            )
            assert found.tolist() == [exact] * expected


def test_no_cells_or_no_beacons_match_nothing() -> None:
    none = np.zeros((0, 8), dtype=np.float32)
    one = np.ones((1, 8), dtype=np.float32)
    norm, number = np.array([8]), np.zeros(1, dtype=np.int32)
    for a, na, ba, b, nb, tb in (
        (none, norm[:0], number[:0], one, norm, number),
        (one, norm, number, none, norm[:0], number[:0]),
    ):
        rows, columns, found = matches(a, na, b, nb, tb, ba)
        assert len(rows) == len(columns) == len(found) == 0


def test_the_unit_vector_points_the_same_way() -> None:
    vector = np.array([3.0, 4.0], dtype=np.float32)
    result = unit(quantise(vector))
    assert np.linalg.norm(result) == pytest.approx(1.0, abs=1e-6)
    assert result @ (vector / 5) == pytest.approx(1.0, abs=1e-4)
