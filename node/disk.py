"""Free space of a directory, and the watermark below which nothing more is stored."""

from __future__ import annotations

import shutil

LOW_BYTES = 64 * 1024 * 1024  # room for the log to be read, compacted and erased from


def free_bytes(path: str) -> int:
    """Return the bytes that this user may still write at a path; 0 when it cannot be asked."""
    try:
        return shutil.disk_usage(path).free
    except OSError:
        return 0


def is_low(path: str) -> bool:
    """Tell whether less than `LOW_BYTES` are free."""
    return free_bytes(path) < LOW_BYTES


def shown(path: str) -> str:
    """Return how much is free and how much is wanted, for people."""
    return f"{free_bytes(path) // 2**20} MiB free, {LOW_BYTES // 2**20} MiB wanted"
