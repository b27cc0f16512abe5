"""Bytes of a pipe into lines, with a bound on each: what is too long is skipped, not kept.

Pure.  It knows newlines and one thing about JSON-RPC: where the id of a message stands, so that the sender of
an oversized line can be answered.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from proto.limits import STDIO_LINE_BYTES

KEPT_BYTES = 256  # of the beginning and of the end of an oversized line: enough for its id

_ID = rb'"id"\s*:\s*(-?[0-9]{1,18}|"[^"\\\x00-\x1f]{1,128}")'
# Only places that no nested object can reach: among the first members, or directly before the last brace.
_ID_FIRST = re.compile(rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?' + _ID + rb"\s*,")
_ID_LAST = re.compile(_ID + rb'\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$')


@dataclass(frozen=True, slots=True)
class Oversized:
    """A line beyond the limit.

    Args:
        size: its length in bytes.
        id: of the message, where it could be read without the rest.
    """

    size: int
    id: int | str | None


class LineSplitter:
    """Splits a stream of chunks into lines without their newline.  Holds at most one line in memory.

    Args:
        limit: bytes of a line, without its newline.
    """

    def __init__(self, limit: int = STDIO_LINE_BYTES) -> None:
        self._limit = limit
        self._buffer = bytearray()
        self._head = b""
        self._oversized = False
        self._skipped = 0  # bytes of an oversized line that are gone from the buffer

    def feed(self, chunk: bytes) -> list[bytes | Oversized]:
        """Return the lines that this chunk completes."""
        *complete, rest = chunk.split(b"\n")
        lines: list[bytes | Oversized] = []
        for part in complete:
            self._extend(part)
            lines.append(self._take())
        self._extend(rest)
        return lines

    def finish(self) -> list[bytes | Oversized]:
        """Return the last line if the stream ended without a newline."""
        return [self._take()] if self._buffer else []

    def _extend(self, part: bytes) -> None:
        self._buffer += part
        if not self._oversized:
            if len(self._buffer) <= self._limit:
                return
            self._oversized = True
            self._head = bytes(self._buffer[:KEPT_BYTES])
        gone = max(0, len(self._buffer) - KEPT_BYTES)
        del self._buffer[:gone]
        self._skipped += gone

    def _take(self) -> bytes | Oversized:
        line = bytes(self._buffer)
        self._buffer.clear()
        if not self._oversized:
            return line
        oversized = Oversized(self._skipped + len(line), _readable_id(self._head, line))
        self._oversized, self._skipped = False, 0
        return oversized


def _readable_id(head: bytes, tail: bytes) -> int | str | None:
    found = _ID_FIRST.match(head) or _ID_LAST.search(tail)
    if found is None:
        return None
    try:
        value = json.loads(found[1])
    except ValueError:
        return None
    return value if isinstance(value, (int, str)) else None
