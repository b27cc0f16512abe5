"""Type and bound checks of decoded wire fields: each returns its value or raises `ProtocolError`.

For messages between peers.  Knows msgpack's plain values (arrays are tuples) and no message.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from proto.errors import ProtocolError
from proto.events import SEQUENCE_MAX

TEXT_CHARS = 256


def unique(pairs: Iterable[tuple[Any, Any]]) -> dict[Any, Any]:
    """Return the pairs as a dict; no key may come twice."""
    out: dict[Any, Any] = {}
    for key, value in pairs:
        if key in out:
            raise ProtocolError("a message between peers names something twice")
        out[key] = value
    return out


def pairs_of(value: Any, most: int) -> tuple[Any, ...]:
    """Return a list of at most `most` rows of two."""
    return rows_of(value, most, width=2)


def rows_of(value: Any, most: int, width: int | None = None) -> tuple[Any, ...]:
    """Return a list of at most `most` entries, each a row of `width` if that is given."""
    if not isinstance(value, tuple) or len(value) > most:
        raise ProtocolError(f"a message between peers holds no list of at most {most}")
    if width is not None:
        for entry in value:
            row_of(entry, width)
    return value


def row_of(value: Any, width: int) -> tuple[Any, ...]:
    """Return a tuple of exactly `width` fields."""
    if not isinstance(value, tuple) or len(value) != width:
        raise ProtocolError(f"a message between peers holds no row of {width}")
    return value


def whole(value: Any, least: int = 0, most: int = SEQUENCE_MAX) -> int:
    """Return a whole number in `[least, most]`."""
    if type(value) is not int or not least <= value <= most:
        raise ProtocolError("a message between peers holds a number out of range")
    return value


def exactly(value: Any, size: int) -> bytes:
    """Return exactly `size` bytes."""
    if type(value) is not bytes or len(value) != size:
        raise ProtocolError(f"a message between peers holds no {size} bytes where they are due")
    return value


def text(value: Any) -> str:
    """Return a text of at most 256 characters."""
    if type(value) is not str or len(value) > TEXT_CHARS:
        raise ProtocolError(f"a message between peers holds no text of at most {TEXT_CHARS} characters")
    return value


def flag(value: Any) -> bool:
    """Return a bool."""
    if type(value) is not bool:
        raise ProtocolError("a message between peers holds no flag where one is due")
    return value
