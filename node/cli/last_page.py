"""Which inbox page this user's terminal showed last, so that the next `hyphae inbox` can say that it was read.

The mesh keeps the place in the inbox; a page counts as read when a later call names it.  One small file in
the configuration directory remembers the name between two runs; without it a page is shown once more.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from node.private_files import make_directory, read_record, write_record

FILE = "inbox.json"
READERS_MAX = 100


class LastPage:
    """The last page of one reader.

    Args:
        config: the configuration directory.
        reader: what tells readers apart: the peer, the key's id or nothing, the session.
    """

    def __init__(self, config: Path, *reader: str) -> None:
        self._path = config / FILE
        self._reader = hashlib.sha256("\x00".join(reader).encode()).hexdigest()[:16]

    def cursor(self) -> str | None:
        """Return the cursor of the page that was shown last, or None."""
        value = (read_record(self._path) or {}).get(self._reader)
        return value if isinstance(value, str) else None

    def shown(self, cursor: str) -> None:
        """Remember that this page was shown completely; an empty cursor changes nothing."""
        if not cursor:
            return
        record = read_record(self._path) or {}
        record.pop(self._reader, None)
        kept = dict(list(record.items())[-(READERS_MAX - 1) :])
        make_directory(self._path.parent)
        write_record(self._path, {**kept, self._reader: cursor})

    def forget(self) -> None:
        """Remember nothing of this reader: the mesh does not know its page."""
        record = read_record(self._path) or {}
        if record.pop(self._reader, None) is not None:
            write_record(self._path, record)
