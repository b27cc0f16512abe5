"""Which inbox page each reader of a stdio process was last given for certain.

A page counts as read only when its reply has left the process, so every drain names the last page that was
written out.  Pages that are being written are waited for: the client may answer a page before we hear that
its write has returned.  It knows neither pipes nor the service.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

READERS = 1_000  # forgetting one only lists its last page again, marked


def reader_of(args: Mapping[str, Any]) -> str:
    """Return the reader that a call is made for: a working session, or "" for the agent."""
    session = args.get("session_id")
    return session.replace("-", "").lower() if isinstance(session, str) else ""


class WrittenPages:
    """The last page written out per reader.  Lives on one event loop."""

    def __init__(self) -> None:
        self._last: OrderedDict[str, str] = OrderedDict()
        self._writing: dict[str, set[asyncio.Future[None]]] = {}

    def begin(self, reader: str) -> asyncio.Future[None]:
        """Say that a page is about to be written; `end` must follow, whatever happens."""
        mark: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._writing.setdefault(reader, set()).add(mark)
        return mark

    def end(self, reader: str, mark: asyncio.Future[None], page: str | None) -> None:
        """Say that a write has ended: with the page if all of it went out, else with None."""
        if page is not None:
            self._last[reader] = page
            self._last.move_to_end(reader)
            if len(self._last) > READERS:
                self._last.popitem(last=False)
        mark.set_result(None)
        writing = self._writing[reader]
        writing.discard(mark)
        if not writing:
            del self._writing[reader]

    async def last(self, reader: str) -> str:
        """Return the last page that was written out for this reader, "" for none."""
        while writing := self._writing.get(reader):
            await asyncio.wait(set(writing))
        return self._last.get(reader, "")
