"""The matrix forms against the definition in whole numbers, over vectors of every kind."""

from __future__ import annotations

import math
from typing import Any

import hypothesis.extra.numpy as hnp
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from proto.scoring import matches, quantise, score, scores
from tests.support.laws import LAW

INT32 = st.integers(-(2**31), 2**31 - 1)
NEAR = st.integers(-11_500, 11_500)


def naive(a: np.ndarray, b: np.ndarray) -> int:
    """Return the score by Python integers and one correctly rounded division."""
    dot = sum(int(x) * int(y) for x, y in zip(a, b, strict=True))
    na, nb = (sum(int(x) ** 2 for x in v) for v in (a, b))
    return math.floor(10_000 * dot / math.sqrt(na * nb))


@st.composite
def batches(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    """Draw int8[m, dim] and int8[k, dim] without zero rows; some rows of b are rows of a or their opposites."""
    dim = draw(st.sampled_from([1, 2, 7, 64, 384]))
    values = hnp.from_dtype(np.dtype(np.int8), min_value=-127, max_value=127)
    a = draw(hnp.arrays(np.int8, (draw(st.integers(1, 4)), dim), elements=values))
    b = draw(hnp.arrays(np.int8, (draw(st.integers(1, 5)), dim), elements=values))
    for row in range(len(b)):
        kind = draw(st.sampled_from(["own", "same", "opposite"]))
        if kind != "own":
            b[row] = a[row % len(a)] * (1 if kind == "same" else -1)
    for matrix in (a, b):
        matrix[~matrix.any(axis=1), 0] = 1
    return a, b


def prepared(q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return q.astype(np.float32), (q.astype(np.int64) ** 2).sum(axis=1)


@LAW
@given(batches())
def test_every_score_equals_the_definition_in_whole_numbers(pair: tuple[np.ndarray, np.ndarray]) -> None:
    a, b = pair
    (fa, na), (fb, nb) = prepared(a), prepared(b)
    expected = [[naive(x, y) for y in b] for x in a]
    assert scores(fa, na, fb, nb).tolist() == expected
    for x, n, row in zip(a, na, expected, strict=True):
        singly = [score(x.tobytes(), int(n), y.tobytes(), int(m)) for y, m in zip(b, nb, strict=True)]
        assert singly == row


@LAW
@given(batches())
def test_a_score_is_the_same_from_either_side(pair: tuple[np.ndarray, np.ndarray]) -> None:
    (fa, na), (fb, nb) = prepared(pair[0]), prepared(pair[1])
    assert np.array_equal(scores(fa, na, fb, nb), scores(fb, nb, fa, na).T)


@LAW
@given(batches(), st.data())
def test_matches_are_exactly_the_pairs_that_reach_their_threshold(
    pair: tuple[np.ndarray, np.ndarray], data: Any
) -> None:
    a, b = pair
    (fa, na), (fb, nb) = prepared(a), prepared(b)
    exact = scores(fa, na, fb, nb).astype(np.int64)
    bonus = np.array(data.draw(st.lists(NEAR | INT32, min_size=len(a), max_size=len(a))), dtype=np.int32)
    thresholds = np.array(data.draw(st.lists(NEAR | INT32, min_size=len(b), max_size=len(b))), dtype=np.int32)
    if data.draw(st.booleans()):  # put thresholds right onto the edge
        edge = exact[0] + bonus[0] + data.draw(st.integers(-1, 1))
        thresholds = np.clip(edge, -(2**31), 2**31 - 1).astype(np.int32)
    reached = exact + bonus[:, None] >= thresholds[None, :]
    rows, columns, found = matches(fa, na, fb, nb, thresholds, bonus)
    expected = np.argwhere(reached)
    assert np.stack([rows, columns], axis=1).tolist() == expected.tolist()
    assert found.tolist() == [int(exact[i, j]) for i, j in expected]


@LAW
@given(hnp.arrays(np.float32, st.integers(1, 64), elements=st.floats(-1e3, 1e3, width=32)))
def test_quantising_keeps_the_direction(vector: np.ndarray) -> None:
    if not vector.any():
        vector[0] = 1.0
    quantised = quantise(vector)
    q = np.frombuffer(quantised.q, dtype=np.int8).astype(np.float64)
    wide = vector.astype(np.float64)
    assert quantised.n == int((q**2).sum()) >= 127**2
    assert np.abs(q).max() == 127
    # every component is off by half a step at most, and the largest is 127 steps
    assert np.abs(q * np.abs(wide).max() / 127 - wide).max() <= np.abs(wide).max() / 254 * (1 + 1e-6)
