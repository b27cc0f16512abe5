"""How many bytes of unfinished request bodies one surface holds, so that slow senders cannot fill the memory.

Pure bookkeeping on one event loop; it knows no HTTP.  A body that comes in one piece is never counted: the
server holds that much of every connection anyway.
"""

from __future__ import annotations

from typing import Final

from proto.errors import Overloaded

ROOM_BYTES: Final = 64 * 1024 * 1024  # sixteen of the largest bodies, or sixty-four of those of MCP
RETRY_MS: Final = 1_000


class BodyRoom:
    """The room of one surface.

    Args:
        size: bytes in all.
    """

    def __init__(self, size: int = ROOM_BYTES) -> None:
        self._size = size
        self._taken = 0

    def take(self, count: int) -> None:
        """Take room for so many more bytes.

        Raises:
            Overloaded: there is not so much; nothing was taken.
        """
        if self._taken + count > self._size:
            raise Overloaded(
                f"request bodies of over {self._size} bytes are under way. Nothing was stored.",
                retry_after_ms=RETRY_MS,
            )
        self._taken += count

    def give_back(self, count: int) -> None:
        """Give back what was taken."""
        self._taken -= count

    @property
    def taken(self) -> int:
        """Bytes that are taken now."""
        return self._taken
