"""What one drain of an inbox lists and commits: the rules of the cursor, on a connection and plain values.

The service calls `plan_drain` on a reading thread, cuts the entries to the byte budget, and appends what
`listing` returns; the simulation does the same against a log in memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import apsw

from node.inbox_query import Entry, ReaderView, Scope, in_doubt, pages_of, skipped, uncommitted, waiting
from node.readers import Reader, ReaderMemory
from proto.ids import DiffId, PageId
from proto.limits import PAGE
from proto.payloads import PageListed
from proto.streams import StreamId

REFS_PER_EVENT = PAGE * 4


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
        given_up: entries that `skip_before_us` drops.
    """

    entries: Sequence[Entry]
    waiting: int
    commits: tuple[PageId, ...]
    sure: bool
    view: ReaderView
    given_up: Sequence[DiffId] = ()

    def may_repeat(self, db: apsw.Connection, listed: Sequence[Entry]) -> bool:
        """Tell whether a page of these entries must carry the mark."""
        return bool(listed) and (not self.sure or in_doubt(db, self.view, [e.diff for e in listed]))


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
        given_up = skipped(db, view, drain.scope, drain.skip_before_us, REFS_PER_EVENT)
    entries, total = waiting(db, view, drain.scope, limit, skip_before_us=drain.skip_before_us)
    fresh = (
        reader.session is not None
        and drain.explicit
        and drain.named is None
        and pages_of(db, reader.agent, reader.session) == 0
    )
    sure = drain.sole or fresh or memory.is_sure(reader, drain.named)
    return DrainPlan(entries, total, uncommitted(db, committing), sure, view, given_up)


def listing(
    plan: DrainPlan, reader: Reader, listed: Sequence[Entry], page: PageId, skipped_page: PageId
) -> list[PageListed]:
    """Return the events that record a page: none when nothing is listed, committed or given up.

    What is given up counts as read at once: it is a page of its own, committed by the next event.
    """
    if not listed and not plan.commits and not plan.given_up:
        return []
    events: list[PageListed] = []
    commits = plan.commits
    if plan.given_up:
        refs = tuple(plan.given_up)
        events.append(PageListed(page=skipped_page, session=reader.session, mark=reader.mark, refs=refs))
        commits = (*commits, skipped_page)
    refs = tuple(e.diff for e in listed)
    events.append(PageListed(page=page, session=reader.session, mark=reader.mark, refs=refs, commits=commits))
    return events
