"""Cursors of lists: opaque text that stands for the place behind a page, bound to the list and the caller.

A position is made of values that the list is sorted by, so a page is resumed whatever came or went meanwhile.
Nothing is kept here or in the log; the cursors of inbox pages are another thing (`pages`).
"""

from __future__ import annotations

from typing import Any

from proto.codec import decode, encode
from proto.errors import HyphaeError, Invalid
from proto.ids import AgentId, digest, format_base32, parse_base32

_CHECK = 4


def format_position(what: str, agent: AgentId, *position: int | str | bytes) -> str:
    """Return the cursor of a position in a list."""
    data = encode(position)
    return "c" + format_base32(digest("position", what.encode("ascii"), agent, data)[:_CHECK] + data)


def parse_position(
    what: str, agent: AgentId, text: str, *shape: type[int] | type[str] | type[bytes]
) -> tuple[Any, ...]:
    """Return the position that a cursor stands for.

    Args:
        shape: type of each of its values.  The check in a cursor finds slips, not forgers, so it is not relied on.

    Raises:
        Invalid: no cursor, a damaged one, another list's or another agent's; nothing is listed from the start.
    """
    try:
        raw = parse_base32(text[1:], "cursor") if text[:1] == "c" else b""
    except HyphaeError:
        raw = b""
    data = raw[_CHECK:]
    if data and raw[:_CHECK] == digest("position", what.encode("ascii"), agent, data)[:_CHECK]:
        position = _decoded(data)
        if tuple(map(type, position)) == shape and all(
            abs(v) < 2**62 for v in position if isinstance(v, int)
        ):
            return position
    raise Invalid(
        "cursor is none of this list. Nothing was changed. Pass next_cursor of the page before, or leave it out."
    )


def _decoded(data: bytes) -> tuple[Any, ...]:
    try:
        value = decode(data)
    except HyphaeError:
        return ()
    return tuple(value) if isinstance(value, (list, tuple)) else ()
