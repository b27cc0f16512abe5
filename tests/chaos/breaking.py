"""How plants break the product: a function of it is replaced by one that wraps it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any, Final

ONE: Final = "peer-3"  # for plants that only one peer has
_BEGAN_S: Final = time.monotonic()

Wrap = Callable[[Callable[..., Any]], Callable[..., Any]]


def replace_in(owner: Any, name: str, wrap: Wrap) -> None:
    """Put what `wrap` returns in the place of a function of a class or module."""
    setattr(owner, name, wrap(getattr(owner, name)))


def age_s() -> float:
    """Return how long this process has lived."""
    return time.monotonic() - _BEGAN_S


def is_one() -> bool:
    """Tell whether this process is the peer that has plants of one peer only."""
    return any(ONE in argument for argument in sys.argv)
