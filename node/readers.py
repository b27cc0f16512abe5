"""What this process life remembers of the pages it listed: which are certainly read, which may repeat.

Pure.  A page is committed when a later call names it, or, over HTTP without `ack`, when the same reader calls
again at the process life that listed the page and had written its reply out completely.  No other peer
concludes it.  A reader's pages carry `may_repeat` here until it was once listed to its end by this process.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import NamedTuple

from proto.ids import AgentId, PageId, SessionId

PAGES_REMEMBERED = 20_000


class Reader(NamedTuple):
    """Who reads: the agent or one of its sessions, through one gateway process (`mark`, empty over HTTP)."""

    agent: AgentId
    session: SessionId | None
    mark: bytes


@dataclass(slots=True)
class _Listed:
    reader: Reader
    sent: bool
    sure: bool
    at_end: bool


class ReaderMemory:
    """Pages listed in this process life, newest last, bounded; a forgotten page is merely in doubt."""

    def __init__(self, limit: int = PAGES_REMEMBERED) -> None:
        self._limit = limit
        self._pages: OrderedDict[PageId, _Listed] = OrderedDict()
        self._last: dict[Reader, PageId] = {}
        self._opened: OrderedDict[Reader, None] = OrderedDict()

    def opened(self, reader: Reader) -> None:
        """Remember which gateway process opened a session here."""
        self._opened[reader] = None
        if len(self._opened) > self._limit:
            self._opened.popitem(last=False)

    def has_listed_nothing(self, reader: Reader) -> bool:
        """Tell whether a session was certainly never given a page, if its gateway says that it wrote none.

        So it is for the gateway process that opened it, and for no other: another may follow one that died.
        """
        return reader.mark != b"" and reader in self._opened

    def commits(self, reader: Reader, named: PageId | None, *, implicit: bool) -> frozenset[PageId]:
        """Return the pages that this call shows to have been read.

        Args:
            named: the page in `ack`, or the last one that the gateway wrote out.
            implicit: the call names none and does not say that there is none.
        """
        if named is not None:
            return frozenset((named,))
        if not implicit:
            return frozenset()
        last = self._last.get(reader)
        listed = self._pages.get(last) if last is not None else None
        return frozenset((last,)) if last is not None and listed is not None and listed.sent else frozenset()

    def is_sure(self, reader: Reader, named: PageId | None) -> bool:
        """Tell whether what the reader was listed before is surely known here."""
        page = named if named is not None else self._last.get(reader)
        listed = self._pages.get(page) if page is not None else None
        return (
            listed is not None
            and (listed.reader.agent, listed.reader.session) == (reader.agent, reader.session)
            and (listed.sure or listed.at_end)
        )

    def listed(self, page: PageId, reader: Reader, *, sure: bool, at_end: bool) -> None:
        """Remember a page that is being sent."""
        self._pages[page] = _Listed(reader, False, sure, at_end)
        self._last[reader] = page
        while len(self._pages) > self._limit:
            old, entry = self._pages.popitem(last=False)
            if self._last.get(entry.reader) == old:
                del self._last[entry.reader]

    def sent(self, page: PageId) -> None:
        """Note that a page's reply was written out completely."""
        listed = self._pages.get(page)
        if listed is not None:
            listed.sent = True
