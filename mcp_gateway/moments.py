"""Times as agents write them: RFC 3339 or a span back from now, and microseconds since 1970 inside.

Pure: the present is an argument.  Numbers are never times here, because seconds and milliseconds look alike.
Source: RFC 3339 section 5.6 (`date-time`, and `full-date` for midnight UTC).
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from proto.errors import Invalid

FORMS = "give 2026-11-30T09:00:00Z, a span such as 24h or 7d, or a next_since."
EPOCH_NUMBER = "seconds and milliseconds look alike"
MOMENT_CHARS = 64

_EPOCH = datetime(1970, 1, 1)
_LATEST_US = 253_402_300_799_999_999  # 9999-12-31T23:59:59.999999Z
_SPAN_US = {"s": 1_000_000, "m": 60_000_000, "h": 3_600_000_000, "d": 86_400_000_000, "w": 604_800_000_000}
_SPAN = re.compile(r"([0-9]{1,9}) ?([smhdw])")  # lower case only: "3M" might mean months
_TIME = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})"
    r"(?:[Tt ]([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:\.([0-9]+))?)?(?:[Zz]|([+-])([0-9]{2}):([0-9]{2})))?"
)
_NUMBER = re.compile(r"[+-]?[0-9]{5,}(?:\.[0-9]*)?")


def parse_since(text: str, now_ms: int, field: str = "since") -> int:
    """Return a moment in microseconds since 1970 UTC, not before 1970 and not after the year 9999.

    Args:
        text: `2026-11-30T09:00:00.123456+01:00`, `2026-11-30` (midnight UTC), or a span back from now as a
            whole number of s, m, h, d or w, such as `24h`.
        now_ms: the present in ms since 1970.
        field: what to call the argument in an error.

    Raises:
        Invalid: the text is no such time; nothing changed.
    """
    text = text.strip()
    span = _SPAN.fullmatch(text) if len(text) <= MOMENT_CHARS else None
    if span:
        return max(0, now_ms * 1000 - int(span[1]) * _SPAN_US[span[2]])
    moment = _parse_time(text)
    if moment is None:
        raise Invalid(f"{refusal(text, field)}; {FORMS}")
    return min(max(0, moment), _LATEST_US)


def is_moment(text: str) -> bool:
    """Tell whether `parse_since` reads this text."""
    text = text.strip()
    return len(text) <= MOMENT_CHARS and (bool(_SPAN.fullmatch(text)) or _parse_time(text) is not None)


def refusal(text: str, field: str) -> str:
    """Return what is wrong with a text that is no moment."""
    shown = text if len(text) <= 40 else f"{text[:40]}..."
    if _NUMBER.fullmatch(text):
        return f"{field} is the number {shown}: {EPOCH_NUMBER}"
    return f'{field} is "{shown}"'


def format_time_us(us: int) -> str:
    """Return microseconds since 1970 as RFC 3339 in UTC with Z, with 0, 3 or 6 digits of a second."""
    moment = _EPOCH + timedelta(microseconds=us)
    if us % 1_000_000 == 0:
        return moment.isoformat(timespec="seconds") + "Z"
    return moment.isoformat(timespec="microseconds" if us % 1_000 else "milliseconds") + "Z"


def _parse_time(text: str) -> int | None:
    """Return microseconds since 1970 of an RFC 3339 text, or None.  Digits beyond microseconds are cut."""
    found = _TIME.fullmatch(text) if len(text) <= MOMENT_CHARS else None
    if found is None:
        return None
    year, month, day, hour, minute, second = (int(part or 0) for part in found.groups()[:6])
    leap = second == 60  # RFC 3339 allows it; it is the first instant of the next minute here
    offset_hour, offset_minute = int(found[9] or 0), int(found[10] or 0)
    if offset_hour > 23 or offset_minute > 59:
        return None
    try:
        moment = datetime(year, month, day, hour, minute, 59 if leap else second)
    except ValueError:
        return None
    us = (moment - _EPOCH) // timedelta(microseconds=1)
    us += 1_000_000 if leap else int((found[7] or "")[:6].ljust(6, "0"))
    offset_us = (offset_hour * 60 + offset_minute) * 60_000_000
    return us + offset_us if found[8] == "-" else us - offset_us
