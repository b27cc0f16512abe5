"""Is a data directory fit for use?  Asked before anything is changed.

Light to import: the stdio gateway uses it.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from proto.errors import Invalid, Unavailable

# Below it nothing is started: SQLite and the index need room to work.  With more a peer starts, and refuses
# writes until there is room for them (`node.disk`).
DISK_FREE_BYTES_MIN = 16 * 1024 * 1024


def check_usable(path: Path) -> None:
    """Check that a directory exists or can be made, can be written, and has room.

    Raises:
        Invalid: it, or something above it, is a file.  Nothing was changed.
        Unavailable: not writable, or less than `DISK_FREE_BYTES_MIN` free.  Nothing was changed.
    """
    existing = path
    try:
        while not existing.exists() and existing != existing.parent:
            existing = existing.parent
        is_directory = existing.is_dir()
        writable = os.access(
            existing, os.W_OK | os.X_OK, effective_ids=os.access in os.supports_effective_ids
        )
        free = shutil.disk_usage(existing).free
    except OSError as e:
        raise Unavailable(f"{existing} cannot be looked at: {e.strerror}. Nothing was changed.") from e
    if not is_directory:
        raise Invalid(
            f"{existing} is a file, not a directory. Nothing was changed. Choose another --data-dir."
        )
    if not writable:
        raise Unavailable(
            f"{existing} is not writable for this user. Nothing was changed. "
            "Mend its permissions, or choose another --data-dir."
        )
    if free < DISK_FREE_BYTES_MIN:
        raise Unavailable(
            f"{existing} has {free // 2**20} MiB free; {DISK_FREE_BYTES_MIN // 2**20} MiB are needed. "
            "Nothing was changed. Make room, or choose another --data-dir."
        )
