"""What a drain appends: pages, commits, and what is given up, in events of bounded size."""

from __future__ import annotations

from node.draining import REFS_PER_EVENT, DrainPlan, listing
from node.inbox_query import ReaderView
from node.readers import Reader, Standing
from proto.ids import AgentId, DiffId, PageId

AGENT = AgentId(b"a" * 16)
READER = Reader(AGENT, None, b"")
PAGE, SKIPPED = PageId(b"p" * 16), PageId(b"s" * 16)


def plan(given_up: int = 0, commits: tuple[PageId, ...] = ()) -> DrainPlan:
    diffs = [DiffId(n.to_bytes(16, "big")) for n in range(given_up)]
    return DrainPlan([], 0, commits, ReaderView(AGENT), Standing(None), given_up=diffs)


def test_what_is_given_up_fits_into_events_however_much_it_is() -> None:
    count = 2 * REFS_PER_EVENT + 1
    *skipped, last = listing(plan(count), READER, [], PAGE, SKIPPED)
    assert [len(e.refs) for e in skipped] == [REFS_PER_EVENT, REFS_PER_EVENT, 1]
    assert len({ref for e in skipped for ref in e.refs}) == count
    assert len({e.page for e in skipped}) == 3
    assert last.commits == tuple(e.page for e in skipped)
    assert last.refs == ()


def test_nothing_to_record_is_no_event() -> None:
    assert listing(plan(), READER, [], PAGE, SKIPPED) == []


def test_a_commit_alone_is_recorded() -> None:
    (event,) = listing(plan(commits=(SKIPPED,)), READER, [], PAGE, SKIPPED)
    assert (event.page, event.commits, event.refs) == (PAGE, (SKIPPED,), ())
