"""Waiting for a condition with a deadline, instead of sleeping and hoping."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable


async def until(condition: Callable[[], bool], what: str, timeout_s: float = 10.0) -> None:
    """Return when `condition()` holds; fail the test, saying `what` did not come true, after the deadline."""
    try:
        async with asyncio.timeout(timeout_s):
            while not condition():
                await asyncio.sleep(0.005)
    except TimeoutError:
        raise AssertionError(f"within {timeout_s} s it did not come true that {what}") from None


def eventually(condition: Callable[[], object], timeout_s: float = 10.0) -> None:
    """Return when `condition()` holds, on a test without an event loop; fail the test after the deadline."""
    deadline_s = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline_s, f"within {timeout_s} s it did not come true"
        time.sleep(0.005)
