"""msgpack in and out, with bounds before anything is believed.

The only module that knows msgpack.  Decoding arbitrary bytes raises `ProtocolError` and nothing else.
"""

from __future__ import annotations

from typing import Any

import msgpack

from proto.errors import ProtocolError
from proto.limits import NATS_MESSAGE_BYTES

DEPTH = 32
_CHECKED = frozenset((tuple, dict, msgpack.Timestamp))


def encode(value: Any) -> bytes:
    """Return the msgpack form of plain values (None, bool, int, float, str, bytes, sequences, mappings).

    Raises:
        ProtocolError: the value holds something that has no msgpack form, such as a lone surrogate.
    """
    try:
        packed: bytes = msgpack.packb(value, use_bin_type=True)
    except (TypeError, ValueError, OverflowError) as error:
        raise ProtocolError(f"a value has no wire form: {type(error).__name__}") from error
    return packed


def decode(data: bytes, *, max_bytes: int = NATS_MESSAGE_BYTES) -> Any:
    """Return the value of one msgpack message; arrays become tuples.

    Raises:
        ProtocolError: too large, truncated, trailing bytes, no UTF-8, an extension type, or nested deeper
            than 32.
    """
    if len(data) > max_bytes:
        raise ProtocolError(f"a message has {len(data)} bytes, limit {max_bytes}")
    try:
        value = msgpack.unpackb(data, use_list=False, raw=False, strict_map_key=True, ext_hook=_refuse)
    except Exception as error:
        raise ProtocolError(f"{len(data)} bytes are no msgpack message: {type(error).__name__}") from error
    _check_depth(value)
    return value


def _refuse(code: int, data: bytes) -> Any:
    raise ProtocolError(f"a message holds extension type {code} of {len(data)} bytes")


def _check_depth(value: Any) -> None:
    """Refuse what is nested too deep, level by level: most messages are wide and flat."""
    level = [value] if type(value) in _CHECKED else []
    for _ in range(DEPTH):
        inner: list[Any] = []
        for item in level:
            if type(item) is msgpack.Timestamp:  # decoded without asking the hook
                raise ProtocolError("a message holds a msgpack timestamp")
            items = item if type(item) is tuple else item.values()
            inner += [each for each in items if type(each) in _CHECKED]
        if not inner:
            return
        level = inner
    raise ProtocolError(f"a message is nested deeper than {DEPTH}")
