"""Directories for tests that need more than `tmp_path`: short paths for sockets, and another user's eyes."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

NOBODY = 65534


@contextmanager
def short_directory() -> Iterator[Path]:
    """Yield a new directory whose path is short enough for Unix sockets below it; removed at the end."""
    path = Path(tempfile.mkdtemp(prefix="hy-"))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


@contextmanager
def as_ordinary_user(*mine: Path) -> Iterator[None]:
    """Act as a user whom permissions bind, even where the tests run as root.

    Args:
        mine: paths that belong to that user inside the block.
    """
    if os.geteuid() != 0:
        yield
        return
    for path in mine:
        os.chown(path, NOBODY, NOBODY)
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)
