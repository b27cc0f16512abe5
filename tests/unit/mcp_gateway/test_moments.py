"""RFC 3339 and spans to microseconds and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_gateway.moments import format_time_us, is_moment, parse_since
from proto.errors import Invalid

NOW_MS = 1_796_029_200_123  # 2026-11-30T09:00:00.123Z
NINE = 1_796_029_200_000_000


@pytest.mark.parametrize(
    ("text", "us"),
    [
        ("2026-11-30T09:00:00Z", NINE),
        ("2026-11-30t09:00:00z", NINE),
        ("2026-11-30 09:00:00Z", NINE),
        ("2026-11-30T09:00Z", NINE),
        ("2026-11-30T10:30:00+01:30", NINE),
        ("2026-11-30T04:00:00-05:00", NINE),
        ("2026-11-30T09:00:00-00:00", NINE),
        ("2026-11-30T09:00:00.1Z", NINE + 100_000),
        ("2026-11-30T09:00:00.000001Z", NINE + 1),
        ("2026-11-30T09:00:00.0000019Z", NINE + 1),
        ("2026-11-30T08:59:60Z", NINE),
        ("2026-11-30", NINE - 9 * 3_600_000_000),
        ("0s", NOW_MS * 1000),
        ("90s", NOW_MS * 1000 - 90_000_000),
        ("30m", NOW_MS * 1000 - 1_800_000_000),
        ("24h", NOW_MS * 1000 - 86_400_000_000),
        ("24 h", NOW_MS * 1000 - 86_400_000_000),
        ("7d", NOW_MS * 1000 - 604_800_000_000),
        ("2w", NOW_MS * 1000 - 1_209_600_000_000),
        ("999999999w", 0),
        ("1969-12-31T23:59:59Z", 0),
        ("0001-01-01T00:00:00+23:59", 0),
        ("9999-12-31T23:59:59.999999-23:59", 253_402_300_799_999_999),
    ],
)
def test_a_moment_is_read_as_microseconds(text: str, us: int) -> None:
    assert parse_since(text, NOW_MS) == us
    assert is_moment(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "now",
        "2026-02-30",
        "2026-11-30T24:00:00Z",
        "2026-11-30T09:00:61Z",
        "2026-11-30T09:00:00",
        "2026-11-30T09:00:00+24:00",
        "2026-11-30T09:00:00+01:60",
        "0000-01-01T00:00:00Z",
        "26-11-30",
        "2026-11-30T09:00:00.Z",
        "٢٠٢٦-11-30",
        "1d2h",
        "1.5h",
        "24H",
        "1" * 5000 + "h",
    ],
)
def test_what_is_no_moment_is_refused_by_the_field_s_name(text: str) -> None:
    assert not is_moment(text)
    with pytest.raises(Invalid, match=r"^skip_before is"):
        parse_since(text, NOW_MS, "skip_before")


@pytest.mark.parametrize(
    ("us", "text"),
    [
        (0, "1970-01-01T00:00:00Z"),
        (NINE, "2026-11-30T09:00:00Z"),
        (NINE + 5_000, "2026-11-30T09:00:00.005Z"),
        (NINE + 1, "2026-11-30T09:00:00.000001Z"),
    ],
)
def test_a_time_is_written_in_utc_with_as_many_digits_as_it_needs(us: int, text: str) -> None:
    assert format_time_us(us) == text


@given(st.integers(0, 253_402_300_799_999_999))
def test_what_was_written_is_read_back_to_the_microsecond(us: int) -> None:
    assert parse_since(format_time_us(us), NOW_MS) == us


@given(st.text(max_size=80))
def test_any_text_is_a_moment_or_refused(text: str) -> None:
    if is_moment(text):
        assert parse_since(text, NOW_MS) >= 0
    else:
        with pytest.raises(Invalid):
            parse_since(text, NOW_MS)
