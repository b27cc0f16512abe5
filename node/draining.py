"""What one drain of an inbox lists and commits: the rules of the cursor, on a connection and plain values.

The service calls `plan_drain` on a reading thread, cuts the entries to the byte budget, and appends what
`listing` returns; the simulation does the same against a log in memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import apsw

from node.inbox_query import Entry, ReaderView, Scope, in_doubt, skipped, uncommitted, waiting
from node.readers import Reader, ReaderMemory
from proto.ids import DiffId, PageId, derive
from proto.limits import PAGE
from proto.payloads import PageListed
from proto.streams import StreamId

REFS_PER_EVENT = PAGE * 4
SKIPPED_MAX = 100_000  # of one call: 50 events of 36 KB


@dataclass(frozen=True, slots=True)
class Drain:
    """One call.

    Args:
        named: the page in `ack`, or the last one that the gateway wrote out completely.
        explicit: the call names a page, or says that there is none; otherwise (HTTP without `ack`) the peer
            concludes from what it wrote itself.
        covered: of a session: what lay before its opening.
        sole: this peer is the only member, so nothing can be known elsewhere.
        skip_before_us: entries that arrived earlier are given up.
    """

    reader: Reader
    named: PageId | None
    explicit: bool
    scope: Scope
    covered: Mapping[StreamId, int]
    sole: bool = False
    skip_before_us: int | None = None


@dataclass(frozen=True, slots=True)
class DrainPlan:
    """What waits, and what the call commits.

    Args:
        waiting: how many entries wait in all, `entries` included.
        commits: pages that no commit in the log names yet.
        sure: all that this reader was ever listed is surely known at this peer.
        narrowed: only one project was looked at.
        given_up: entries that `skip_before_us` drops.
    """

    entries: Sequence[Entry]
    waiting: int
    commits: tuple[PageId, ...]
    sure: bool
    view: ReaderView
    narrowed: bool = False
    given_up: Sequence[DiffId] = ()

    def may_repeat(self, db: apsw.Connection, listed: Sequence[Entry]) -> bool:
        """Tell whether a page of these entries must carry the mark."""
        return bool(listed) and (not self.sure or in_doubt(db, self.view, [e.diff for e in listed]))

    def reaches_end(self, listed: Sequence[Entry]) -> bool:
        """Tell whether nothing more waits for the reader once these are listed."""
        return not self.narrowed and self.waiting <= len(listed)


def plan_drain(db: apsw.Connection, memory: ReaderMemory, drain: Drain, limit: int) -> DrainPlan:
    """Return what a drain would list and commit; changes nothing.

    Args:
        limit: entries at most.
    """
    reader = drain.reader
    committing = memory.commits(reader, drain.named, implicit=not drain.explicit)
    view = ReaderView(reader.agent, reader.session, drain.covered, committing)
    given_up: list[DiffId] = []
    if drain.skip_before_us is not None:
        given_up = skipped(db, view, drain.scope, drain.skip_before_us, SKIPPED_MAX)
    entries, total = waiting(db, view, drain.scope, limit, skip_before_us=drain.skip_before_us)
    fresh = drain.explicit and drain.named is None and memory.has_listed_nothing(reader)
    sure = drain.sole or fresh or memory.is_sure(reader, drain.named)
    narrowed = drain.scope.project is not None
    return DrainPlan(entries, total, uncommitted(db, committing), sure, view, narrowed, given_up)


def listing(
    plan: DrainPlan, reader: Reader, listed: Sequence[Entry], page: PageId, skipped_page: PageId
) -> list[PageListed]:
    """Return the events that record a page: none when nothing is listed, committed or given up.

    What is given up counts as read at once: pages of its own, committed by the last event.

    Args:
        skipped_page: random; the pages of what is given up are derived from it.
    """
    if not listed and not plan.commits and not plan.given_up:
        return []
    events: list[PageListed] = []
    commits = plan.commits
    for start in range(0, len(plan.given_up), REFS_PER_EVENT):
        refs = tuple(plan.given_up[start : start + REFS_PER_EVENT])
        skipped = PageId(derive("skipped", skipped_page, start.to_bytes(8, "big")))
        events.append(PageListed(page=skipped, session=reader.session, mark=reader.mark, refs=refs))
        commits = (*commits, skipped)
    refs = tuple(e.diff for e in listed)
    events.append(PageListed(page=page, session=reader.session, mark=reader.mark, refs=refs, commits=commits))
    return events
