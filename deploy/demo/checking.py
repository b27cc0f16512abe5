"""Claims of the story and waiting for them.

A claim that does not hold ends the story with a plain sentence.  Knows nothing of meshes or agents.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

POLL_S = 0.01


class StoryFailed(Exception):
    """Something that the story tells is not true.  The text says what, for a person."""


def claim(holds: bool, otherwise: str) -> None:
    """Go on if something holds.

    Args:
        holds: what the story says.
        otherwise: what to tell a person if it does not.

    Raises:
        StoryFailed: it does not hold.
    """
    if not holds:
        raise StoryFailed(otherwise)


def until(look: Callable[[], T | None], deadline_s: float, otherwise: Callable[[], str]) -> T:
    """Look again and again until there is something to see, and return it.

    Args:
        look: returns None while there is nothing.
        deadline_s: seconds from now.
        otherwise: what to tell a person when the time is over; asked only then.

    Raises:
        StoryFailed: the deadline passed.
    """
    end = time.monotonic() + deadline_s
    while True:
        seen = look()
        if seen is not None:
            return seen
        if time.monotonic() > end:
            raise StoryFailed(f"{otherwise()} That is {deadline_s:g} s after it was due.")
        time.sleep(POLL_S)
