"""What this process life remembers of the pages it listed, and of where each reader stands.

Pure.  A page is committed when a later call names it, or, over HTTP without `ack`, when the same reader calls
again at the process life that listed the page and had written its reply out completely.  No other peer
concludes it.  How long a reader's pages carry `may_repeat` follows from its `Standing`; `node.draining` decides.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from proto.ids import AgentId, PageId, PeerId, SessionId

REMEMBERED = 20_000  # pages, readers, and pages of other peers that were named: of each so many

K = TypeVar("K")


class Reader(NamedTuple):
    """Who reads: the agent or one of its sessions, through one gateway process (`mark`, empty over HTTP)."""

    agent: AgentId
    session: SessionId | None
    mark: bytes


@dataclass(slots=True)
class Standing:
    """How much of what a reader was listed before is certainly known here.

    Args:
        since: all of it was durable somewhere at this moment (monotonic clock, ms); None: all of it is known here.
        settled: who was in doubt when the reader was listed to its end, all of them silent: what has come since
            then from anybody else is new to the reader.
        loose: nobody says which page the reader had last, so it may have read elsewhere meanwhile.
    """

    since: int | None
    settled: frozenset[PeerId] | None = None
    loose: bool = False


@dataclass(slots=True)
class _Listed:
    reader: Reader
    sent: bool
    standing: Standing


class ReaderMemory:
    """Bounded, the longest unused forgotten first: a forgotten page is in doubt, a forgotten reader a new one."""

    def __init__(self, limit: int = REMEMBERED) -> None:
        self._limit = limit
        self._pages: OrderedDict[PageId, _Listed] = OrderedDict()
        self._last: dict[Reader, PageId] = {}
        self._opened: OrderedDict[Reader, None] = OrderedDict()
        self._came: OrderedDict[Reader, Standing] = OrderedDict()
        self._named: OrderedDict[tuple[AgentId, SessionId | None, PageId], Standing] = OrderedDict()

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

    def standing(self, reader: Reader, named: PageId | None, *, explicit: bool, now_ms: int) -> Standing:
        """Return where a reader stands that calls now.

        A page listed here says it: nothing was read elsewhere before it but what was known then.  A page listed
        elsewhere is first named at a moment at which it, and all before it, was durable.

        Args:
            explicit: the call names a page, or says that there is none.
        """
        if named is None:
            if explicit and self.has_listed_nothing(reader):
                return Standing(None)
            return self._first(self._came, reader, Standing(now_ms, loose=reader.mark == b""))
        listed = self._pages.get(named)
        if listed is not None and listed.reader[:2] == reader[:2]:
            return listed.standing
        return self._first(self._named, (reader.agent, reader.session, named), Standing(now_ms))

    def listed(self, page: PageId, reader: Reader, standing: Standing, now_ms: int) -> None:
        """Remember a page that is being sent; whoever names it later stands where its reader stands now."""
        self._pages[page] = _Listed(reader, False, Standing(now_ms) if standing.loose else standing)
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

    def _first(self, known: OrderedDict[K, Standing], key: K, new: Standing) -> Standing:
        """Return what is known under a key, or else `new`, and know that from now on."""
        standing = known.setdefault(key, new)
        known.move_to_end(key)
        if len(known) > self._limit:
            known.popitem(last=False)
        return standing
