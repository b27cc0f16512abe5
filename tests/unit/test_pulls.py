"""Range pulls: who is asked for what, page by page, and what happens when it does not work out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

from mesh.digests import PullReply, PullRequest, Sender, decode_pull, encode_pull
from mesh.effects import Apply, Channel, Publish, Serve
from mesh.engine_config import EngineConfig
from mesh.ports import Head
from mesh.segments import last_of
from mesh.serving import Page
from proto.streams import StreamId
from tests.support.engines import Bench, Node
from tests.support.memory_log import MemoryDisk
from tests.support.sealed import events, peer, segment, stream

CONFIG = EngineConfig(digest_jitter=0.0, reconnect_jitter_ms=0, greet_jitter_ms=0)
A, B = stream(7), stream(8)


def disk(*streams: StreamId, count: int = 30, seed: int = 0, shared: int = 0) -> MemoryDisk:
    return MemoryDisk({s: events(s, count, seed=seed, shared=shared) for s in streams})


def lost_on(channel: Channel) -> Callable[[Node, Node, Publish], bool]:
    return lambda _source, _target, publish: publish.channel is channel


# -- pages


def test_a_long_range_is_pulled_in_bounded_pages() -> None:
    bench = Bench(2, replace(CONFIG, page_bytes=1_000), {1: disk(A, B)})
    bench.pass_time(1_000)
    assert bench.alike()
    pages = bench.nodes[0].replies()
    assert len(pages) > 10
    assert [page.more for page in pages] == [True] * (len(pages) - 1) + [False]
    assert bench.nodes[1].engine.counters["pulls"] == 1


def test_an_event_larger_than_a_page_goes_alone() -> None:
    large = MemoryDisk({A: events(A, 4, size=5_000)})
    bench = Bench(2, replace(CONFIG, page_bytes=1_000), {1: large})
    bench.pass_time(1_000)
    assert bench.alike()


def test_a_newcomer_pulls_everything_from_one_and_every_peers_streams_once() -> None:
    full = disk(A, B, stream(1, 5), stream(2, 5))
    bench = Bench(3, CONFIG, {1: full, 2: full.copy()})
    bench.pass_time(1_000)
    assert bench.alike()
    asked = [p for r in bench.nodes[2].requests() for p in r.positions]
    assert sorted(asked) == sorted({s.peer for s in full.streams})


def test_older_epochs_go_first() -> None:
    heads = {stream(7, n): Head(5, bytes(32)) for n in (2, 0, 1)}
    page = Page(PullRequest(b"pull-id!", Sender(peer(1), b"bootboot"), b"rebooted", {peer(7): {}}), heads)
    order: list[int] = []
    while (read := page.next_read()) is not None:
        order.append(read.stream.ordinal)
        page.add(None)
    assert order == [0, 1, 2]


def test_a_page_names_no_more_heads_than_its_bound_and_says_that_there_are_more() -> None:
    heads = {stream(7, n): Head(5, bytes(32)) for n in range(10)}
    request = PullRequest(b"pull-id!", Sender(peer(1), b"bootboot"), b"rebooted", {peer(7): {}})
    page = Page(request, heads, max_heads=4)
    while page.next_read() is not None:
        page.add(None)
    reply = page.reply()
    assert reply.more
    assert {s.ordinal for s in reply.heads or {}} == {0, 1, 2, 3}


def test_a_page_is_about_the_peers_concerned_only() -> None:
    heads = {A: Head(5, bytes(32)), B: Head(5, bytes(32))}
    request = PullRequest(b"pull-id!", Sender(peer(1), b"bootboot"), b"rebooted", {A.peer: {}})
    assert set(Page(request, heads).reply().heads or {}) == {A}


def test_streams_of_several_peers_go_in_step_by_the_clocks_of_their_events() -> None:
    held = disk(A, B, count=1_500)  # the clock of an event is its sequence
    positions = {A.peer: {}, B.peer: {B: Head(400, held.streams[B][399].hash)}}
    request = PullRequest(b"pull-id!", Sender(peer(1), b"bootboot"), b"rebooted", positions)
    page = Page(request, held.heads())
    while (read := page.next_read()) is not None:
        page.add(held.read(*read))
    reached = {A: 0, B: 400}
    for part in page.reply().segments:
        behind = min(reached, key=lambda s: reached[s])
        assert (part.stream, part.first) == (behind, reached[behind] + 1)
        reached[behind] = last_of(part)
    assert reached[A] > 400 < reached[B]


# -- one at a time


def test_one_process_is_asked_one_thing_at_a_time() -> None:
    bench = Bench(2, CONFIG, {1: disk(A, B)})
    reader = bench.nodes[1]
    bench.nodes[0].holding = (Serve,)
    bench.pass_time(2_500)
    bench.nodes[0].append()
    bench.pass_time(100)
    assert len(reader.requests()) == 1
    bench.nodes[0].release()
    bench.pass_time(2_000)
    assert bench.alike()


def test_the_same_streams_are_not_pulled_from_two_processes_at_once() -> None:
    bench = Bench(3, CONFIG, {1: disk(A), 2: disk(A)})
    for node in bench.nodes[:2]:
        node.holding = (Serve,)
    bench.pass_time(2_500)
    assert len(bench.nodes[2].requests()) == 1


def test_after_a_time_out_another_process_is_asked() -> None:
    bench = Bench(3, CONFIG, {1: disk(A), 2: disk(A)})
    reader = bench.nodes[2]
    bench.lost = lambda source, _target, publish: source is reader and publish.peer == peer(1)
    bench.pass_time(CONFIG.pull_timeout_ms + 2_000)
    assert bench.alike()
    assert reader.engine.counters["pull_time_outs"] == 1
    assert [p.peer for p in reader.sent(Channel.PULL)[:2]] == [peer(1), peer(2)]


def test_the_number_of_pulls_under_way_is_bounded() -> None:
    disks = {n: disk(stream(10 + n)) for n in range(1, 6)}
    bench = Bench(6, replace(CONFIG, outbound_pulls=2), disks)
    reader = bench.nodes[5]
    for node in bench.nodes[:5]:
        node.holding = (Serve,)
    for _ in range(30):
        bench.pass_time(50)
        assert reader.engine.gauges()["pulls_under_way"] <= 2
    assert reader.engine.gauges()["pulls_under_way"] == 2
    for node in bench.nodes[:5]:
        node.release()
    bench.pass_time(8_000)
    assert bench.alike()


# -- what goes wrong


def test_beyond_the_inbound_bound_a_peer_says_busy_and_is_asked_again_later() -> None:
    bench = Bench(4, replace(CONFIG, inbound_pulls=2), {1: disk(A)})
    server = bench.nodes[0]
    server.holding = (Serve,)
    bench.pass_time(80)
    assert server.engine.counters["busy_said"] == 1
    assert [r.busy for r in server.replies()] == [True]
    server.release()
    bench.pass_time(3_000)
    assert bench.alike()


def test_who_is_busy_is_left_alone_longer_each_time() -> None:
    bench = Bench(2, CONFIG, {1: disk(A)})
    server, reader = bench.nodes
    server.holding = (Serve,)
    times: list[int] = []

    def lost(source: Node, _target: Node, publish: Publish) -> bool:
        message = decode_pull(publish.data) if publish.channel is Channel.PULL else None
        if source is reader and isinstance(message, PullRequest):
            times.append(bench.now)
            busy = encode_pull(PullReply(message.id, busy=True))
            reader.do(reader.engine.receive_pull(busy, bench.now))
            return True
        return False

    bench.lost = lost
    bench.pass_time(60_000)
    waits = [b - a for a, b in pairwise(times)]
    assert waits[0] < 300
    assert all(wait <= CONFIG.back_off_max_ms + 10 for wait in waits)
    assert waits[-1] > 4_000
    assert len(waits) < 20


def test_a_reply_that_nobody_awaits_is_ignored() -> None:
    bench = Bench(2)
    node = bench.nodes[0]
    reply = encode_pull(PullReply(b"unasked!", (segment(events(A, 3)),)))
    assert node.engine.receive_pull(reply, bench.now) == []
    assert node.engine.counters["replies_unasked"] == 1


def test_segments_that_were_not_asked_for_are_not_applied() -> None:
    bench = Bench(2, CONFIG, {1: disk(A)})
    reader = bench.nodes[1]
    bench.nodes[0].holding = (Serve,)
    bench.pass_time(200)
    [request] = reader.requests()
    reply = PullReply(request.id, (segment(events(A, 2)), segment(events(B, 2))), more=True)
    reader.do(reader.engine.receive_pull(encode_pull(reply), bench.now))
    assert set(reader.log.heads()) == {A}


def test_a_request_for_another_process_of_this_peer_is_not_answered() -> None:
    bench = Bench(2, CONFIG, {1: disk(A)})
    server, reader = bench.nodes
    request = PullRequest(b"pull-id!", reader.engine.me, b"rebooted", {A.peer: {}})
    assert server.engine.receive_pull(encode_pull(request), bench.now) == []


def test_a_request_of_a_stranger_is_not_answered() -> None:
    bench = Bench(1, CONFIG, {1: disk(A)})
    server = bench.nodes[0]
    request = PullRequest(b"pull-id!", Sender(peer(66), b"stranger"), server.engine.me.boot, {A.peer: {}})
    assert server.engine.receive_pull(encode_pull(request), bench.now) == []
    assert server.engine.counters["strangers"] == 1


def test_a_request_that_arrives_twice_is_answered_once() -> None:
    bench = Bench(2, CONFIG, {1: disk(A)})
    server, reader = bench.nodes
    server.holding = (Serve,)
    bench.pass_time(200)
    [publish] = reader.sent(Channel.PULL)
    bench.deliver(server, publish)
    assert len(server.held) == 1


def test_a_page_that_cannot_be_read_is_answered_with_busy() -> None:
    bench = Bench(2, CONFIG, {1: disk(A)})
    server = bench.nodes[0]
    server.holding = (Serve,)
    bench.pass_time(200)
    [serve] = server.held
    assert isinstance(serve, Serve)
    server.do(server.engine.served(serve.page, failed=True))
    assert server.replies()[-1].busy
    assert server.engine.gauges()["pages_being_served"] == 0


def test_a_server_whose_log_lacks_what_its_head_promises_is_not_asked_without_end() -> None:
    bench = Bench(2, CONFIG, {1: disk(A)})
    server, reader = bench.nodes
    server.log.disk.read = lambda *_: None  # type: ignore[method-assign]
    bench.pass_time(30_000)
    assert reader.engine.counters["stalled"] > 0
    assert len(reader.requests()) < 20


def test_a_pull_that_cannot_be_sent_is_tried_again() -> None:
    bench = Bench(2, CONFIG, {1: disk(A)})
    reader = bench.nodes[1]
    reader.holding = (Publish,)
    bench.pass_time(200)
    [failed] = [e for e in reader.held if isinstance(e, Publish) and e.pull]
    reader.held.remove(failed)
    reader.do(reader.engine.pull_failed(failed.pull, bench.now))
    reader.release()
    bench.pass_time(2_000)
    assert bench.alike()


def test_a_page_that_could_not_be_applied_is_pulled_again() -> None:
    bench = Bench(2, CONFIG, {1: disk(A)})
    reader = bench.nodes[1]
    reader.holding = (Apply,)
    bench.pass_time(200)
    [apply] = reader.held
    assert isinstance(apply, Apply)
    reader.held, reader.holding = [], ()
    reader.do(reader.engine.apply_failed([apply], reader.log.heads(), bench.now))
    bench.pass_time(2_000)
    assert bench.alike()


def test_losing_the_connection_ends_pulls_and_reconnecting_begins_them_anew() -> None:
    bench = Bench(2, CONFIG, {1: disk(A)})
    server, reader = bench.nodes
    server.holding = (Serve,)
    bench.pass_time(200)
    reader.do(reader.engine.disconnected(bench.now))
    assert reader.engine.gauges()["pulls_under_way"] == 0
    server.release()
    reader.do(reader.engine.connected(bench.now))
    bench.pass_time(2_000)
    assert bench.alike()


def test_a_connection_that_comes_and_goes_while_the_disk_hangs_piles_up_no_pages() -> None:
    bench = Bench(2, CONFIG, {1: disk(A)})
    reader = bench.nodes[1]
    reader.holding = (Apply,)
    for _ in range(5):
        bench.pass_time(2_000)
        reader.do(reader.engine.disconnected(bench.now))
        reader.do(reader.engine.connected(bench.now))
    assert len(reader.held) == 1
    reader.release()
    bench.pass_time(4_000)
    assert bench.alike()


def test_pages_beyond_the_budget_are_answered_with_busy_until_it_has_grown_again() -> None:
    large = MemoryDisk({A: events(A, 200, size=1_000)})
    config = replace(CONFIG, page_bytes=10_000, serve_bytes_per_s=10_000)
    bench = Bench(2, config, {1: large})
    server, reader = bench.nodes
    bench.pass_time(2_000)
    assert server.engine.counters["busy_said"] > 0
    assert reader.log.heads()[A].sequence < 100
    bench.pass_time(200_000)
    assert bench.alike()


# -- forks


def forked_bench() -> Bench:
    """Two peers that hold two histories of stream A, and of B each the same."""
    one, two = disk(A, seed=1, shared=10), disk(A, seed=2, shared=10, count=25)
    for held in (one, two):
        held.streams[B] = events(B, 5)
    two.streams[stream(9)] = events(stream(9), 4)
    return Bench(2, CONFIG, {1: one, 2: two})


def test_a_fork_is_seen_on_both_sides_and_said_once() -> None:
    bench = forked_bench()
    bench.pass_time(20_000)
    for node in bench.nodes:
        assert [fork.stream for fork in node.forks()] == [A]
        assert node.forks()[0].sequence > 10


def test_a_fork_replaces_nothing_and_everything_else_goes_on() -> None:
    bench = forked_bench()
    before = [node.log.heads()[A] for node in bench.nodes]
    bench.pass_time(5_000)
    bench.nodes[0].append(3)
    bench.nodes[1].append(3)
    bench.pass_time(5_000)
    assert [node.log.heads()[A] for node in bench.nodes] == before
    others = [{s: h for s, h in node.log.heads().items() if s != A} for node in bench.nodes]
    assert others[0] == others[1]
    assert stream(9) in others[0]


def test_a_fork_is_not_pulled_without_end_and_keeps_us_from_having_caught_up() -> None:
    bench = forked_bench()
    bench.pass_time(2_000)
    assert all(node.forks() for node in bench.nodes)
    seen_at = bench.now
    bench.pass_time(60_000)
    for node, other in zip(bench.nodes, reversed(bench.nodes), strict=True):
        assert len(node.requests()) < 6
        assert (node.engine.caught_up(other.peer) or 0) <= seen_at
        assert node.engine.behind_since(bench.now - 10_000, bench.now) == {}, "what can be had is here"


def test_a_fork_at_equal_sequence_is_seen_from_the_hashes_alone() -> None:
    bench = Bench(
        2, CONFIG, {1: disk(A, seed=1, shared=10, count=20), 2: disk(A, seed=2, shared=10, count=20)}
    )
    bench.pass_time(5_000)
    assert [(f.stream, f.sequence) for n in bench.nodes for f in n.forks()] == [(A, 20), (A, 20)]
    assert not any(reply.segments for node in bench.nodes for reply in node.replies())


def test_a_live_event_that_contradicts_our_head_leads_to_the_fork_being_seen() -> None:
    bench = Bench(2)
    writer, reader = bench.nodes
    writer.append(2)
    [own] = [s for s in writer.log.heads() if s.peer == writer.peer]
    held = reader.log.disk.streams[own]
    held[2:] = events(own, 3)[2:]
    reader.do(reader.engine.started(reader.log.heads()))
    bench.pass_time(10)
    writer.append()
    bench.pass_time(10)
    assert [fork.stream for fork in reader.forks()] == [own]


def test_a_third_peer_gets_of_a_forked_stream_what_is_agreed_and_no_more() -> None:
    bench = forked_bench()
    bench.pass_time(5_000)
    for node in bench.nodes:
        (fork,) = node.forks()
        assert fork.other
        agreed = node.log.disk.streams[A][9]
        node.do(node.engine.quarantined({A: Head(10, agreed.hash)}))
    third = bench.add(3, MemoryDisk())
    bench.start(third)
    for node in bench.nodes:
        node.do(node.engine.set_members({other.peer for other in bench.nodes}))
    bench.pass_time(10_000)
    assert third.log.heads()[A].sequence == 10
    assert not third.forks()
    assert third.log.heads()[stream(9)].sequence == 4


def test_a_stream_in_quarantine_since_an_earlier_life_is_not_pulled_without_end() -> None:
    one, two = disk(A, seed=1, shared=10, count=20), disk(A, seed=1, shared=10, count=25)
    bench = Bench(2, CONFIG, {1: one, 2: two})
    reader = bench.nodes[0]
    reader.do(reader.engine.quarantined({A: Head(10, one.streams[A][9].hash)}))
    bench.pass_time(60_000)
    assert reader.log.heads()[A].sequence == 20
    assert len(reader.requests()) < 6
    assert not reader.forks()
