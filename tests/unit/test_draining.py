"""One drain after another: what is listed, what is committed, what carries the mark, for every kind of reader."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from node.beacons_projection import decode_frontier
from node.database import row
from node.draining import Drain, DrainPlan, listing, plan_drain
from node.inbox_query import Scope, uncommitted
from node.readers import Reader, ReaderMemory
from node.replica import Draft
from proto.ids import PageId, PeerId, SessionId
from proto.payloads import SessionClosed
from proto.streams import coverage
from tests.support.replicas import TENANT, Peer, agent, cell_of
from tests.support.sealed import peer

ONE, TWO = SessionId(b"1" * 16), SessionId(b"2" * 16)
GATEWAY, ANOTHER = b"gateway1", b"gateway2"


@dataclass(frozen=True)
class Page:
    """What a drain brought: names of memories, the page to name later, the mark, how many events it took."""

    texts: str
    page: PageId
    marked: bool
    appended: int
    left: int = 0


@dataclass
class Desk:
    """One process life of a peer, as far as inboxes are concerned."""

    peer: Peer
    memory: ReaderMemory = field(default_factory=ReaderMemory)
    pages: int = 0
    now_ms: int = 1_000
    silent: set[PeerId] = field(default_factory=set)
    caught_up: dict[PeerId, int] = field(default_factory=lambda: {peer(2): 0, peer(3): 0})

    def drain(
        self,
        session: SessionId | None = None,
        *,
        named: PageId | None = None,
        explicit: bool = True,
        mark: bytes = GATEWAY,
        limit: int = 10,
        project: str | None = None,
        skip_before_us: int | None = None,
        sent: bool = True,
    ) -> Page:
        """Drain as ann."""
        reader = Reader(agent("ann"), session, mark)
        covered = {}
        if session is not None:
            found = row(self.peer.db, "SELECT frontier FROM sessions WHERE session=?", session)
            assert found is not None
            covered = coverage(decode_frontier(found[0]), self.peer.replica.links)
        scope = Scope("ann", None, project)
        standing = self.memory.standing(reader, named, explicit=explicit, now_ms=self.now_ms)
        since = standing.since
        behind = (
            {}
            if since is None
            else {p: p not in self.silent for p, at in self.caught_up.items() if at < since}
        )
        drain = Drain(reader, named, explicit, scope, covered, standing, behind, skip_before_us)
        plan = plan_drain(self.peer.db, self.memory, drain, limit)
        return self._record(plan, reader, sent)

    def _record(self, plan: DrainPlan, reader: Reader, sent: bool) -> Page:
        self.pages += 1
        page = PageId(self.peer.number.to_bytes(8, "big") + self.pages.to_bytes(8, "big"))
        marked = plan.may_repeat(self.peer.db, plan.entries)
        events = listing(plan, reader, plan.entries, page, PageId(b"skip" + page[4:]))
        if events:
            self.peer.write(*(Draft.of(TENANT, agent("ann"), event) for event in events))
        plan.settle(plan.entries)
        if plan.entries:
            self.memory.listed(page, reader, plan.standing, self.now_ms)
            if sent:
                self.memory.sent(page)
        texts = "".join(self._name(e.cell_no) for e in plan.entries)
        return Page(texts, page, marked, len(events), plan.waiting - len(plan.entries))

    def catch_up(self, *peers: PeerId) -> None:
        """Let a second pass, after which all that these peers held at its beginning is known."""
        self.caught_up |= dict.fromkeys(peers or self.caught_up, self.now_ms)
        self.now_ms += 1_000

    def close(self, session: SessionId, named: PageId | None = None) -> None:
        commits = uncommitted(self.peer.db, frozenset((named,)) if named else frozenset())
        self.peer.append(SessionClosed(session=session, commits=commits))

    def _name(self, cell_no: int) -> str:
        found = row(self.peer.db, "SELECT cell FROM cells WHERE cell_no=?", cell_no)
        assert found is not None
        return next(name for name in Peer.names if cell_of(name) == found[0])


@pytest.fixture
def desk() -> Desk:
    """A peer with ann's beacon and three memories for her."""
    one = Peer(1)
    one.place("north")
    for name in "abc":
        one.store(name)
    return Desk(one)


def beside(desk: Desk, number: int = 2) -> Desk:
    """Return another peer that holds the same."""
    other = Peer(number)
    other.pull(desk.peer)
    return Desk(other)


# -- pages


def test_pages_follow_one_another_in_the_order_of_the_clock(desk: Desk) -> None:
    first = desk.drain(limit=2)
    second = desk.drain(named=first.page, limit=2)
    assert (first.texts, first.left) == ("ab", 1)
    assert (second.texts, second.left) == ("c", 0)
    assert desk.drain(named=second.page).texts == ""


def test_a_drain_that_lists_and_commits_nothing_new_appends_nothing(desk: Desk) -> None:
    page = desk.drain()
    assert page.appended == 1
    assert desk.drain(named=page.page).appended == 1  # the commit
    assert desk.drain(named=page.page).appended == 0


def test_a_page_that_nobody_named_is_listed_again_with_the_mark(desk: Desk) -> None:
    page = desk.drain()
    again = desk.drain()
    assert again.texts == page.texts == "abc"
    assert again.marked


def test_a_page_that_was_named_once_stays_read_at_another_peer(desk: Desk) -> None:
    page = desk.drain()
    desk.drain(named=page.page)
    assert beside(desk).drain().texts == ""


def test_an_entry_that_comes_between_waits_for_the_next_page(desk: Desk) -> None:
    page = desk.drain()
    desk.peer.store("d")
    assert desk.drain(named=page.page).texts == "d"


def test_a_narrowed_drain_leaves_other_projects_unread(desk: Desk) -> None:
    desk.peer.store("d", project="billing")
    page = desk.drain(project="billing")
    assert page.texts == "d"
    assert desk.drain(named=page.page).texts == "abc"


def test_what_skip_before_gives_up_counts_as_read(desk: Desk) -> None:
    arrived = row(desk.peer.db, "SELECT max(arrived_us) FROM entries")
    assert arrived is not None
    page = desk.drain(skip_before_us=arrived[0])
    assert (page.texts, page.appended) == ("c", 2)
    assert desk.drain(named=page.page).texts == ""
    assert beside(desk).drain().texts == ""


def test_a_private_memory_of_another_owner_is_not_listed(desk: Desk) -> None:
    desk.peer.store("d", project="private")
    desk.peer.place("own", owner="ben")
    assert desk.drain().texts == "abc"


# -- over HTTP without ack


def test_the_next_call_commits_the_page_that_was_sent(desk: Desk) -> None:
    assert desk.drain(explicit=False, mark=b"").texts == "abc"
    assert desk.drain(explicit=False, mark=b"").texts == ""


def test_a_page_whose_reply_was_not_sent_is_listed_again(desk: Desk) -> None:
    desk.drain(explicit=False, mark=b"", sent=False)
    again = desk.drain(explicit=False, mark=b"")
    assert again.texts == "abc"
    assert again.marked


def test_another_peer_concludes_nothing_from_a_call(desk: Desk) -> None:
    desk.drain(explicit=False, mark=b"")
    other = beside(desk)
    again = other.drain(explicit=False, mark=b"")
    assert again.texts == "abc"
    assert again.marked


def test_another_process_life_concludes_nothing_from_a_call(desk: Desk) -> None:
    desk.drain(explicit=False, mark=b"")
    desk.memory = ReaderMemory()
    assert desk.drain(explicit=False, mark=b"").texts == "abc"


def test_whoever_says_that_it_had_no_page_commits_none(desk: Desk) -> None:
    desk.drain()
    assert desk.drain().texts == "abc"


# -- the mark


def test_pages_carry_the_mark_until_all_that_others_held_when_the_reader_came_is_known(desk: Desk) -> None:
    first = desk.drain(limit=1)
    desk.catch_up(peer(2))
    second = desk.drain(named=first.page, limit=1)
    desk.catch_up(peer(3))
    third = desk.drain(named=second.page)
    assert [p.marked for p in (first, second, third)] == [True, True, False]


def test_the_end_of_a_reader_is_none_while_a_member_that_is_heard_may_hold_a_page_of_it(desk: Desk) -> None:
    page = desk.drain()
    desk.peer.store("d")
    assert desk.drain(named=page.page).marked


def test_a_reader_that_came_long_ago_gets_no_mark_however_little_waited_then(desk: Desk) -> None:
    page = desk.drain()
    assert desk.drain(named=page.page).texts == ""
    desk.catch_up()
    desk.peer.store("d")
    assert not desk.drain(named=page.page).marked


def test_a_page_listed_elsewhere_brings_the_mark_back_until_its_past_is_known(desk: Desk) -> None:
    page = desk.drain()
    other = beside(desk)
    other.drain()
    other.catch_up()
    other.peer.store("d")
    changed = other.drain(named=page.page)
    assert (changed.texts, changed.marked) == ("d", True)
    other.catch_up()
    other.peer.store("e")
    assert not other.drain(named=changed.page).marked


def test_what_a_page_held_is_not_listed_unmarked_before_that_page_is_known(desk: Desk) -> None:
    other = beside(desk)
    desk.peer.store("d")
    without_the_page = desk.peer.segments()
    page = desk.drain()  # with d, of which the other has not heard
    again = other.drain(named=page.page)
    assert (again.texts, again.marked) == ("abc", True)
    end = other.drain(named=again.page)
    assert end.texts == ""
    other.peer.receive(without_the_page)
    late = other.drain(named=again.page)
    assert (late.texts, late.marked) == ("d", True)


def test_who_is_silent_is_in_doubt_until_the_end_of_the_reader_and_then_with_its_own_only(desk: Desk) -> None:
    desk.silent, desk.caught_up = {peer(2)}, {peer(2): 0}
    first = desk.drain(limit=1)
    second = desk.drain(named=first.page)
    desk.peer.store("d")
    third = desk.drain(named=second.page)
    late = Peer(2)
    late.pull(desk.peer)
    late.store("e")
    desk.peer.pull(late)
    fourth = desk.drain(named=third.page)
    assert [p.marked for p in (first, second, third, fourth)] == [True, True, False, True]


def test_who_is_heard_again_is_in_doubt_with_all_until_it_was_caught_up_with(desk: Desk) -> None:
    desk.silent, desk.caught_up = {peer(2)}, {peer(2): 0}
    page = desk.drain()
    desk.silent = set()
    desk.peer.store("d")
    page = desk.drain(named=page.page)
    assert page.marked
    desk.catch_up()
    desk.peer.store("e")
    assert not desk.drain(named=page.page).marked


def test_an_end_counts_for_those_who_were_in_doubt_then(desk: Desk) -> None:
    desk.silent = {peer(2), peer(3)}
    page = desk.drain()
    desk.catch_up(peer(3))  # which may have brought what the reader was listed elsewhere
    desk.peer.store("d")
    assert desk.drain(named=page.page).marked


def test_a_member_that_retires_leaves_nothing_in_doubt(desk: Desk) -> None:
    page = desk.drain()
    desk.caught_up = {}
    desk.peer.store("d")
    assert not desk.drain(named=page.page).marked


def test_over_http_a_page_says_nothing_of_what_was_read_elsewhere_before_it(desk: Desk) -> None:
    desk.drain(explicit=False, mark=b"")
    desk.catch_up()
    desk.peer.store("d")
    page = desk.drain(
        explicit=False, mark=b""
    )  # it may have been elsewhere in between, and says nothing of it
    desk.peer.store("e")
    assert desk.drain(named=page.page, mark=b"").marked


def test_the_only_member_of_a_mesh_marks_nothing_that_is_not_in_doubt(desk: Desk) -> None:
    desk.caught_up = {}
    assert not desk.drain().marked
    assert desk.drain().marked  # that page was not named


def test_a_narrowed_drain_is_not_the_end_of_a_reader(desk: Desk) -> None:
    desk.silent = set(desk.caught_up)
    desk.drain(project="billing", limit=5)
    desk.peer.store("d", project="billing")
    page = desk.drain(project="billing", limit=5)
    assert desk.drain(named=page.page).marked


def test_a_page_of_another_reader_says_nothing_about_this_one(desk: Desk) -> None:
    desk.peer.open_session(ONE)
    of_agent = desk.drain()
    in_session = desk.drain(ONE, named=of_agent.page)
    assert in_session.texts == "abc"
    assert in_session.marked


def test_a_new_session_needs_no_mark_for_the_gateway_that_opened_it(desk: Desk) -> None:
    desk.peer.open_session(ONE)
    desk.memory.opened(Reader(agent("ann"), ONE, GATEWAY))
    assert not desk.drain(ONE).marked


def test_another_gateway_may_follow_one_that_died_and_gets_the_mark(desk: Desk) -> None:
    desk.peer.open_session(ONE)
    desk.memory.opened(Reader(agent("ann"), ONE, GATEWAY))
    assert desk.drain(ONE, mark=ANOTHER).marked
    assert beside(desk).drain(ONE, mark=ANOTHER).marked


def test_over_http_a_new_session_carries_the_mark_since_nobody_says_what_it_had(desk: Desk) -> None:
    desk.peer.open_session(ONE)
    desk.memory.opened(Reader(agent("ann"), ONE, b""))
    assert desk.drain(ONE, mark=b"", explicit=False).marked


# -- sessions


def test_a_session_starts_with_what_the_agent_had_read(desk: Desk) -> None:
    page = desk.drain(limit=2)
    desk.drain(named=page.page, limit=1)  # commits a and b; c is listed and not committed
    desk.peer.open_session(ONE)
    assert desk.drain(ONE).texts == "c"


def test_what_the_agent_reads_later_is_still_listed_to_an_open_session(desk: Desk) -> None:
    desk.peer.open_session(ONE)
    page = desk.drain()
    desk.drain(named=page.page)
    assert desk.drain(ONE).texts == "abc"


def test_sessions_side_by_side_each_see_every_entry(desk: Desk) -> None:
    desk.peer.open_session(ONE)
    desk.peer.open_session(TWO)
    first, second = desk.drain(ONE), desk.drain(TWO)
    assert first.texts == second.texts == "abc"
    assert desk.drain(ONE, named=first.page).texts == ""
    assert desk.drain(TWO, named=second.page).texts == ""
    assert desk.drain().texts == "abc"


def test_a_closed_session_leaves_what_it_read_to_the_agent_and_to_later_sessions(desk: Desk) -> None:
    desk.peer.open_session(ONE)
    page = desk.drain(ONE, limit=2)
    desk.close(ONE, page.page)
    desk.peer.open_session(TWO)
    assert desk.drain().texts == "c"
    assert desk.drain(TWO).texts == "c"


def test_a_page_that_a_closing_session_did_not_name_stays_unread(desk: Desk) -> None:
    desk.peer.open_session(ONE)
    desk.drain(ONE)
    desk.close(ONE)
    assert desk.drain().texts == "abc"


def test_a_session_opened_where_the_closing_of_another_is_unknown_sees_its_entries_again(desk: Desk) -> None:
    desk.peer.open_session(ONE)
    page = desk.drain(ONE)
    other = beside(desk)
    desk.close(ONE, page.page)
    other.peer.open_session(TWO)
    other.peer.pull(desk.peer)
    assert other.drain(TWO).texts == "abc"
    assert other.drain().texts == ""


def test_a_session_is_not_listed_what_it_stored_and_others_are(desk: Desk) -> None:
    desk.peer.open_session(ONE)
    desk.peer.open_session(TWO)
    desk.peer.store("d", by="ann", session=ONE)
    assert desk.drain(ONE).texts == "abc"
    assert desk.drain(TWO).texts == "abcd"
    assert desk.drain().texts == "abcd"


def test_a_page_known_before_its_commit_and_the_other_way_round_count_alike(desk: Desk) -> None:
    other = beside(desk)
    page = desk.drain()
    other.drain(named=page.page)  # commits a page that this peer has never heard of
    assert other.drain(named=page.page).texts == "abc"
    other.peer.pull(desk.peer)
    assert other.drain(named=page.page).texts == ""
    desk.peer.pull(other.peer)
    assert desk.peer.replica.state_hash() == other.peer.replica.state_hash()


def test_a_crowded_memory_forgets_the_oldest_page_and_only_doubts(desk: Desk) -> None:
    desk.memory = ReaderMemory(limit=1)
    page = desk.drain()
    desk.peer.open_session(ONE)
    desk.drain(ONE)
    desk.peer.store("d")
    after = desk.drain(named=page.page)
    assert (after.texts, after.marked) == ("d", True)
