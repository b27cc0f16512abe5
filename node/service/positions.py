"""Cursors of lists: opaque text that stands for the place behind a page, bound to the list and the caller.

A position is made of values that the list is sorted by, so a page is resumed whatever came or went meanwhile.
Nothing is kept here or in the log; the cursors of inbox pages are another thing (`pages`).
"""

from __future__ import annotations

from proto.codec import decode, encode
from proto.errors import HyphaeError, Invalid
from proto.ids import AgentId, digest, format_base32, parse_base32

_CHECK = 4


def format_position(what: str, agent: AgentId, *position: int | str | bytes) -> str:
    """Return the cursor of a position in a list."""
    data = encode(position)
    return "c" + format_base32(digest("position", what.encode("ascii"), agent, data)[:_CHECK] + data)


def parse_position(what: str, agent: AgentId, text: str) -> tuple[int | str | bytes, ...]:
    """Return the position that a cursor stands for.

    Raises:
        Invalid: no cursor, a damaged one, another list's or another agent's; nothing is listed from the start.
    """
    try:
        raw = parse_base32(text[1:], "cursor") if text[:1] == "c" else b""
    except HyphaeError:
        raw = b""
    data = raw[_CHECK:]
    if not data or raw[:_CHECK] != digest("position", what.encode("ascii"), agent, data)[:_CHECK]:
        raise Invalid(
            "cursor is none of this list. Nothing was changed. Pass next_cursor of the page before, or leave it out."
        )
    return tuple(decode(data))
