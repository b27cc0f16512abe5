"""A file that only takes room: given up while a full disk would keep somebody from making room on it.

SQLite needs space even to delete.  What takes things away (an erasure, a rebuild) runs inside `released`; nothing
else ever touches the file, and a peer whose disk has little room goes without.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from node import disk

SIZE_BYTES = 8 * 1024 * 1024
ROOM_BYTES = 4 * disk.LOW_BYTES  # with less than this free none is laid down


def lay(path: Path) -> bool:
    """Lay the ballast down if there is room and it is not there; tell whether it is there now."""
    with contextlib.suppress(OSError):
        if path.exists() and path.stat().st_size == SIZE_BYTES:
            return True
        if disk.free_bytes(str(path.parent)) < ROOM_BYTES:
            return False
        file = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
        try:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file, 0, SIZE_BYTES)
            else:  # a file that was only made longer has no blocks
                os.write(file, bytes(SIZE_BYTES))
        finally:
            os.close(file)
        return True
    return False


@contextlib.contextmanager
def released(path: Path) -> Iterator[None]:
    """Give the room back for the block where little is left, and take it again afterwards if it is there."""
    if disk.is_low(str(path.parent)):
        path.unlink(missing_ok=True)
    try:
        yield
    finally:
        lay(path)
