"""Whether the log is still the file that was opened: one that was deleted takes writes and loses them at the end."""

from __future__ import annotations

from pathlib import Path


class LogFile:
    """Remembers which file is at a path.

    Args:
        path: of the log; there.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._opened = _identity(path)

    def trouble(self) -> str | None:
        """Return what became of the file, in words, or None while it is in its place."""
        found = _identity(self._path)
        if found == self._opened:
            return None
        what = "was deleted" if found is None else "was replaced by another file"
        return (
            f"{self._path} {what} while the peer runs: nothing more is stored, for it would be lost. Restart the peer;"
            " what other peers hold comes back by itself"
        )


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
