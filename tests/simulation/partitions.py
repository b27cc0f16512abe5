"""Shapes of a broken network: which ways between processes are cut.  A way leads from one to another, so that a
network can carry messages in one direction only.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Sequence

Ways = frozenset[tuple[int, int]]
"""Pairs of (from, to): numbers of processes."""

WHOLE: Ways = frozenset()


def between(some: Collection[int], others: Collection[int]) -> Ways:
    """Return all ways between two groups, in both directions."""
    return frozenset(way for a in some for b in others for way in ((a, b), (b, a)))


def alone(rng: random.Random, numbers: Sequence[int]) -> Ways:
    """One process hears nobody and is heard by nobody."""
    one = rng.choice(numbers)
    return between((one,), [n for n in numbers if n != one])


def halves(rng: random.Random, numbers: Sequence[int]) -> Ways:
    """Two groups of any size, at least one process each."""
    some = rng.sample(numbers, rng.randrange(1, max(2, len(numbers))))
    return between(some, [n for n in numbers if n not in some])


def bridge(rng: random.Random, numbers: Sequence[int]) -> Ways:
    """Two groups that only one process can talk to, both of them."""
    _, *rest = rng.sample(numbers, len(numbers))
    return between(rest[::2], rest[1::2])


def asymmetric(rng: random.Random, numbers: Sequence[int]) -> Ways:
    """One process hears everybody and is heard by nobody, or the other way round."""
    one, is_deaf = rng.choice(numbers), rng.random() < 0.5
    return frozenset((n, one) if is_deaf else (one, n) for n in numbers if n != one)


SHAPES: dict[str, Callable[[random.Random, Sequence[int]], Ways]] = {
    "a peer alone": alone,
    "halves": halves,
    "a bridge": bridge,
    "one way only": asymmetric,
}
