"""Cursors of lists, also those that somebody made by hand: their check is no secret."""

from __future__ import annotations

from typing import Any

import pytest

from node.service.positions import format_position, parse_position
from proto.errors import Invalid
from proto.ids import AgentId

AGENT = AgentId(b"a" * 16)


def test_a_cursor_gives_back_its_position() -> None:
    assert parse_position("keys", AGENT, format_position("keys", AGENT, 7, "k"), int, str) == (7, "k")
    assert parse_position("export", AGENT, format_position("export", AGENT, b"p", 2), bytes, int) == (b"p", 2)


@pytest.mark.parametrize(
    "position",
    [(), (7,), (7, "k", 1), ("k", 7), (True, "k"), (7.5, "k"), (2**63, "k"), (None, "k"), ([7], "k")],
)
def test_a_cursor_of_another_shape_is_refused(position: tuple[Any, ...]) -> None:
    with pytest.raises(Invalid, match="none of this list"):
        parse_position("keys", AGENT, format_position("keys", AGENT, *position), int, str)


@pytest.mark.parametrize(
    "text", ["", "c", "x", "c!!", "c" + "a" * 40, format_position("beacons", AGENT, 7, "k")]
)
def test_what_is_no_cursor_of_this_list_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="none of this list"):
        parse_position("keys", AGENT, text, int, str)
