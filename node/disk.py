"""Free space of a directory, and the watermark below which writes are refused."""

from __future__ import annotations

import shutil

LOW_BYTES = 64 * 1024 * 1024


def free_bytes(path: str) -> int:
    """Return the bytes that this user may still write at a path; 0 when it cannot be asked."""
    try:
        return shutil.disk_usage(path).free
    except OSError:
        return 0
