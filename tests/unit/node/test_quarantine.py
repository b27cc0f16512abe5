"""A stream with two histories is set apart, for ever and by itself; everything else goes on."""

from __future__ import annotations

from mesh.digests import PULL_ID_BYTES, PullReply, PullRequest, Sender
from mesh.ports import Head, Segment
from mesh.segments import head_of, last_of
from mesh.serving import Page
from node import database
from node.sqlite_log import FORKS_KEPT, read_segment
from tests.support.replicas import Peer
from tests.support.sealed import events, peer, segment, stream

A = stream(7)
OURS, THEIRS = events(A, 8, seed=1, shared=4), events(A, 9, seed=2, shared=4)


def apart() -> Peer:
    """Return a peer that holds events 1 to 6 of one history and has seen the fifth of another."""
    one = Peer(1)
    one.receive([segment(OURS, 1, 6), segment(THEIRS, 5, 5)])
    return one


def page(of: Peer, asked: Head | None) -> PullReply:
    """Return what a peer serves of the stream to one that holds this much of it."""
    log = of.replica.log
    positions = {A.peer: {} if asked is None else {A: asked}}
    request = PullRequest(bytes(PULL_ID_BYTES), Sender(peer(2), bytes(8)), bytes(8), positions)
    heads = {s: h for s, h in log.heads().items() if s.peer == A.peer}
    serving = Page(request, heads, agreed=log.quarantined)
    while (read := serving.next_read()) is not None:
        number = log.number_of(read.stream)
        assert number is not None
        serving.add(read_segment(of.db, number, *read))
    return serving.reply()


def test_both_histories_are_kept_and_what_is_agreed_is_known() -> None:
    one = apart()
    assert one.replica.log.quarantined == {A: Head(4, OURS[3].hash)}
    assert one.replica.log.heads()[A] == Head(6, OURS[5].hash)
    kept = database.rows(one.db, "SELECT sequence, header FROM forks")
    assert kept == [(5, THEIRS[4].header_bytes)]


def test_nothing_further_is_taken_of_either_history() -> None:
    one = apart()
    one.receive([segment(OURS, 7, 8), segment(THEIRS, 6, 9)])
    assert one.replica.log.heads()[A] == Head(6, OURS[5].hash)


def test_earlier_evidence_lowers_what_is_agreed_and_later_does_not_raise_it() -> None:
    one = apart()
    one.replica.quarantine(A, 6, b"h" * 32, one.wall_ms * 1000)
    assert one.replica.log.quarantined[A].sequence == 4
    one.replica.quarantine(A, 2, b"h" * 32, one.wall_ms * 1000)
    assert one.replica.log.quarantined[A] == Head(1, OURS[0].hash)


def test_it_outlives_the_process_and_a_rebuild() -> None:
    one = apart()
    one.restart()
    one.replica.rebuild()
    assert one.replica.log.quarantined == {A: Head(4, OURS[3].hash)}
    one.receive([segment(OURS, 7, 8)])
    assert one.replica.log.heads()[A].sequence == 6


def test_everything_else_goes_on() -> None:
    one, other = apart(), Peer(3)
    other.store("a")
    one.pull(other)
    one.store("b")
    assert len(database.rows(one.db, "SELECT 1 FROM cells")) == 2


def test_only_what_is_agreed_is_handed_on() -> None:
    for held in (None, Head(2, OURS[1].hash)):
        reply = page(apart(), held)
        (sent,) = reply.segments
        assert (sent.first, last_of(sent)) == (1 if held is None else 3, 4)
        assert reply.heads == {A: Head(6, OURS[5].hash)}, "that there is more is no secret"
        assert not reply.more
    nothing = page(apart(), Head(4, OURS[3].hash))
    assert (nothing.segments, nothing.heads, nothing.more) == ((), {A: Head(6, OURS[5].hash)}, False)


def test_whoever_holds_the_other_history_is_still_shown_that_it_differs() -> None:
    for sequence in (5, 6):
        reply = page(apart(), Head(sequence, THEIRS[sequence - 1].hash))
        assert reply.segments == ()
        assert reply.heads == {A: Head(sequence, OURS[sequence - 1].hash)}
    agreeing = page(apart(), Head(5, OURS[4].hash))
    assert (agreeing.segments, agreeing.heads) == ((), {A: Head(6, OURS[5].hash)})


def test_a_process_whose_own_stream_forks_goes_on_in_a_stream_of_its_own() -> None:
    one, reader = Peer(1), Peer(2)
    one.store("a")
    own = one.replica.log.current
    assert own is not None
    reader.pull(one)
    one.store("b")
    one.receive([_another_last_event(one)])
    assert own in one.replica.log.quarantined
    one.store("c")
    fresh = one.replica.log.current
    assert fresh is not None
    assert (fresh != own, fresh.ordinal) == (True, own.ordinal + 1)
    reader.pull(one)
    assert reader.replica.log.heads()[fresh] == one.replica.log.heads()[fresh]


def _another_last_event(of: Peer) -> Segment:
    """Return the last own event as another process of the same life might have written it."""
    (held,) = of.segments()
    twin = Peer(of.number)
    twin.store("a")
    twin.store("z")
    (other,) = twin.segments()
    assert (other.stream, head_of(other).sequence) == (held.stream, head_of(held).sequence)
    assert other.events[:2] == held.events[:2]
    return other


def test_whoever_contradicts_without_end_fills_no_disk() -> None:
    one = apart()
    for seed in range(3, FORKS_KEPT + 10):
        one.receive([segment(events(A, 5, seed=seed, shared=4), 5, 5)])
    assert database.value(one.db, "SELECT count(*) FROM forks") == FORKS_KEPT
