"""Small files of one user: JSON records and secrets, written whole or not at all, readable by nobody else.

Everything is 0600 in directories of 0700, whatever the umask says.  Nothing here knows what the files mean.
Light to import: the stdio gateway uses it.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from proto.errors import Unauthenticated, Unavailable

KEY_FILE_BYTES = 4096  # a key has under 100 characters; anything far larger is some other file


def make_directory(path: Path) -> None:
    """Create a directory (and its parents) with mode 0700; one that exists is left as it is.

    Raises:
        Unavailable: it cannot be created; nothing else changed.
    """
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as e:
        raise Unavailable(f"{path} cannot be created: {e.strerror}.") from e


def write_private(path: Path, text: str) -> None:
    """Replace the file by `text` in one step, mode 0600.

    A reader sees the old text or the new one, never a part; after a crash likewise.

    Raises:
        Unavailable: it cannot be written; the old file is unchanged.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as f:
            f.write(text)
            f.flush()
            os.fsync(f.fileno())
        temporary.replace(path)
    except OSError as e:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise Unavailable(f"{path} cannot be written: {e.strerror}. The old file is unchanged.") from e


def write_record(path: Path, record: Mapping[str, Any]) -> None:
    """Replace a JSON record in one step, mode 0600."""
    write_private(path, json.dumps(record, ensure_ascii=False, indent=2) + "\n")


def read_record(path: Path) -> dict[str, Any] | None:
    """Return a JSON object, or None where there is none that can be read."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None


def read_secret(path: Path) -> str:
    """Return the one line of a key file.

    Raises:
        Unauthenticated: the file is missing, unreadable, empty or no text of one line; it is not shown.
    """
    try:
        with path.open("rb") as f:
            data = f.read(KEY_FILE_BYTES + 1)
    except OSError as e:
        raise Unauthenticated(f"the key file {path} cannot be read: {e.strerror}.") from e
    lines = data.decode("utf-8", "replace").split()
    if len(data) > KEY_FILE_BYTES or len(lines) != 1:
        raise Unauthenticated(f"the key file {path} ({len(data)} bytes) holds no key on one line.")
    return lines[0]


def remove(path: Path) -> None:
    """Remove a file; one that is gone already is fine."""
    with contextlib.suppress(OSError):
        path.unlink()
