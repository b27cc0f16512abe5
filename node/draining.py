"""What one drain of an inbox lists and commits: the rules of the cursor, on a connection and plain values.

The service calls `plan_drain` on a reading thread, cuts the entries to the byte budget, and appends what
`listing` returns; the simulation does the same against a log in memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import apsw

from node.inbox_query import (
    Entry,
    ReaderView,
    Scope,
    come_from,
    in_doubt,
    skipped,
    uncommitted,
    waiting,
)
from node.readers import Reader, ReaderMemory, Standing
from proto.ids import DiffId, PageId, PeerId, derive
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
        standing: of the reader.
        behind: the members that may hold something of what it was listed before `standing.since` that is missing
            here, and whether they are heard.
        skip_before_us: entries that arrived earlier are given up.
    """

    reader: Reader
    named: PageId | None
    explicit: bool
    scope: Scope
    covered: Mapping[StreamId, int]
    standing: Standing
    behind: Mapping[PeerId, bool] = field(default_factory=dict)
    skip_before_us: int | None = None


@dataclass(frozen=True, slots=True)
class DrainPlan:
    """What waits, and what the call commits.

    Args:
        waiting: how many entries wait in all, `entries` included.
        commits: pages that no commit in the log names yet.
        standing, behind: see `Drain`.
        narrowed: only one project was looked at.
        given_up: entries that `skip_before_us` drops.
    """

    entries: Sequence[Entry]
    waiting: int
    commits: tuple[PageId, ...]
    view: ReaderView
    standing: Standing
    behind: Mapping[PeerId, bool] = field(default_factory=dict)
    narrowed: bool = False
    given_up: Sequence[DiffId] = ()

    def may_repeat(self, db: apsw.Connection, listed: Sequence[Entry]) -> bool:
        """Tell whether a page of these entries must carry the mark.

        It must where one of them is on a page in doubt, and while the reader may have been listed something that
        is not known here.  Who is silent may stay so: once the reader was listed to its end, only what comes
        from those peers is in doubt, for all else came after what the reader can have been listed elsewhere.
        """
        if not listed:
            return False
        if in_doubt(db, self.view, [entry.diff for entry in listed]):
            return True
        if not self.behind:
            return False
        if any(self.behind.values()) or self.standing.settled != frozenset(self.behind):
            return True
        return come_from(db, [entry.entry_no for entry in listed], sorted(self.behind))

    def settle(self, listed: Sequence[Entry]) -> None:
        """Note where the reader stands once a page of these entries, or an empty one, is recorded."""
        if not self.behind:
            self.standing.since = None
        elif not any(self.behind.values()) and self.reaches_end(listed):
            self.standing.settled = frozenset(self.behind)

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
    commits, narrowed = uncommitted(db, committing), drain.scope.project is not None
    return DrainPlan(entries, total, commits, view, drain.standing, drain.behind, narrowed, given_up)


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
