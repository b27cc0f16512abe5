"""The wall clock of this process, the only place that reads it.

For what people and other machines are shown: event times, deadlines, expiries.  It may be wrong and may jump, so
durations are measured with `time.monotonic` and nothing is delivered or withheld by it.
"""

from __future__ import annotations

from time import time_ns


def now_us() -> int:
    """Return microseconds since 1970."""
    return time_ns() // 1_000


def now_ms() -> int:
    """Return milliseconds since 1970."""
    return time_ns() // 1_000_000
