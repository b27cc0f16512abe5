"""How alike two vectors are, as an integer that every peer computes alike.

A vector is quantised once, by the peer that embedded it; from then on only integers decide.  The dot product
of int8 values is exact in float32 while its sums stay below 2**24, that is up to 1,040 dimensions; norms,
their product and the scaled dot product are exact in float64; square root, division and floor are defined by
IEEE 754.  So the score depends on no library, processor or order of summation.  Nothing here knows what a
vector stands for.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from proto.errors import Invalid

Floats = npt.NDArray[np.float32]
Longs = npt.NDArray[np.int64]
Ints = npt.NDArray[np.int32]

SCALE: Final = 10_000  # a score is in ten-thousandths of cosine
LEVELS: Final = 127
DIMENSIONS_MAX: Final = (2**24 - 1) // LEVELS**2  # 1,040: beyond, float32 sums could round


@dataclass(frozen=True, slots=True)
class Quantised:
    """A vector as it travels.

    Args:
        q: int8[dim], `rint(127 v / max|v|)`.
        n: the sum of the squares of q.
    """

    q: bytes
    n: int


def quantise(vector: Floats) -> Quantised:
    """Quantise one vector, at the peer that embedded it and nowhere else.

    Args:
        vector: float32[dim], any length but zero.

    Raises:
        Invalid: no dimension or too many of them, all zero, or not finite; nothing changed.
    """
    if vector.ndim != 1 or not 0 < vector.shape[0] <= DIMENSIONS_MAX:
        raise Invalid(f"a vector has shape {vector.shape}; one of 1 to {DIMENSIONS_MAX} numbers is expected")
    values = vector.astype(np.float64)
    largest = float(np.max(np.abs(values)))
    if not math.isfinite(largest) or largest == 0.0:
        raise Invalid(f"the largest component of a vector is {largest}; a finite one above 0 is expected")
    q = np.rint(values * LEVELS / largest).astype(np.int8)
    wide = q.astype(np.int64)
    return Quantised(q.tobytes(), int(wide @ wide))


def unpack(q: bytes) -> Floats:
    """Return the int8 values as float32[dim], exact: a row for `scores` and `matches`."""
    return np.frombuffer(q, dtype=np.int8).astype(np.float32)


def unit(vector: Quantised) -> Floats:
    """Return the vector at length 1, float32[dim]: what a search index holds."""
    return unpack(vector.q) / np.float32(math.sqrt(vector.n))


def score(qa: bytes, na: int, qb: bytes, nb: int) -> int:
    """Return `floor(10,000 dot(qa, qb) / sqrt(na nb))`: the definition, one pair at a time.

    Args:
        qa, qb: int8[dim] each; na, nb: their sums of squares, above 0.

    Returns:
        -10,000 to 10,000.
    """
    a = np.frombuffer(qa, dtype=np.int8).astype(np.int64)
    b = np.frombuffer(qb, dtype=np.int8).astype(np.int64)
    return math.floor(float(SCALE * int(a @ b)) / math.sqrt(float(na * nb)))


def scores(matrix_a: Floats, na: Longs, matrix_b: Floats, nb: Longs) -> Ints:
    """Return the score of each row of a with each row of b.

    Args:
        matrix_a: float32[m, dim] of int8 values; na: int64[m], sums of squares.
        matrix_b: float32[k, dim] of int8 values; nb: int64[k].

    Returns:
        int32[m, k], equal to `score` bit for bit.
    """
    dots = _dots(matrix_a, matrix_b)
    return _exact(dots, np.multiply.outer(na, nb))


def matches(
    matrix_a: Floats,
    na: Longs,
    matrix_b: Floats,
    nb: Longs,
    thresholds: Ints,
    bonus: Ints,
) -> tuple[Longs, Longs, Ints]:
    """Return exactly the pairs whose score plus bonus reaches the threshold.

    Few pairs match, and dividing all of them costs as much as half the matrix product.  So a float32 bound
    that is never too high picks candidates, and only these are scored exactly.

    Args:
        matrix_a: float32[m, dim] of int8 values, new cells; na: int64[m]; bonus: int32[m].
        matrix_b: float32[k, dim] of int8 values, beacons; nb: int64[k]; thresholds: int32[k].

    Returns:
        (rows int64[], columns int64[], scores int32[] without the bonus), by row, then column.
    """
    dots = _dots(matrix_a, matrix_b)
    rows, columns = np.nonzero(dots >= _bound(na, nb, thresholds, bonus))
    exact = _exact(dots[rows, columns], na[rows] * nb[columns])
    kept = exact.astype(np.int64) + bonus[rows] >= thresholds[columns]
    return rows[kept], columns[kept], exact[kept]


def _dots(a: Floats, b: Floats) -> Floats:
    assert a.dtype == b.dtype == np.float32, (a.dtype, b.dtype)
    assert a.shape[1] == b.shape[1] <= DIMENSIONS_MAX, (a.shape, b.shape)
    return a @ b.T


def _exact(dots: Floats, norms: Longs) -> Ints:
    """Finish the definition: dots float32[...] and products of norms int64[...] to scores int32[...]."""
    quotients = dots.astype(np.float64)
    quotients *= SCALE
    quotients /= np.sqrt(norms.astype(np.float64))
    return np.floor(quotients).astype(np.int32)


def _bound(na: Longs, nb: Longs, thresholds: Ints, bonus: Ints) -> Floats:
    """Return float32[m, k]: no pair whose dot product is below it can reach its threshold.

    `floor(x) + bonus >= threshold` means `dot >= (threshold - bonus) sqrt(na) sqrt(nb) / 10,000`, which is a
    matrix of rank two.  Thresholds out of reach are clamped to just out of reach, so that they cost no
    precision; the slack is above the rounding of a float32 sum of two products.
    """
    reach = SCALE + 1 + (int(np.max(np.abs(bonus.astype(np.int64)))) if len(bonus) else 0)
    wanted = np.clip(thresholds.astype(np.int64), -reach, reach)
    ra, rb = np.sqrt(na.astype(np.float64)), np.sqrt(nb.astype(np.float64)) / SCALE
    left = np.stack([ra, -ra * bonus], axis=1)
    right = np.stack([rb * wanted, rb], axis=0)
    largest = float(ra.max(initial=0.0)) * float(rb.max(initial=0.0)) * 2 * reach
    bound = left.astype(np.float32) @ right.astype(np.float32)
    bound -= np.float32(1e-6 * largest)
    return bound
