"""The replication engine, input by input: live events, digests, and what it makes of bad ones."""

from __future__ import annotations

import random

import pytest

from mesh.digests import Digest, Live, Sender, Vitals, encode_digest, encode_live
from mesh.effects import Apply, Channel, Publish
from mesh.engine import Engine
from mesh.engine_config import EngineConfig
from mesh.segments import last_of
from proto.errors import Invalid
from proto.streams import StreamId
from tests.support.engines import VITALS, Bench, Node
from tests.support.sealed import events, peer, segment, stream

STRANGER = Sender(peer(99), b"stranger")


def live_lost(_source: Node, _target: Node, publish: Publish) -> bool:
    return publish.channel is Channel.LIVE


def digest_of(sender: Sender, number: int = 1, states: dict[int, bytes] | None = None) -> bytes:
    shown = {peer(n): state for n, state in (states or {}).items()}
    return encode_digest(Digest(sender, number, VITALS, shown, {}))


# -- live events


def test_a_live_event_reaches_the_other_logs_at_once_and_nothing_is_pulled() -> None:
    bench = Bench(3)
    bench.nodes[0].append()
    assert bench.alike()
    assert not any(node.requests() for node in bench.nodes)


def test_the_first_event_after_a_pause_goes_out_alone_and_those_that_follow_together() -> None:
    bench = Bench(2)
    node = bench.nodes[0]
    bench.pass_time(10)
    for _ in range(5):
        node.append()
    assert node.live_events() == [2]
    assert node.engine.next_deadline(bench.now) == bench.now + bench.config.coalesce_ms
    bench.pass_time(bench.config.coalesce_ms)
    assert node.live_events() == [2, 4]
    assert bench.alike()


def test_events_wait_while_a_send_is_under_way() -> None:
    bench = Bench(2)
    node = bench.nodes[0]
    node.holding = (Publish,)
    node.append()
    bench.now += 1_000
    node.append()
    node.append()
    assert node.live_events() == [2]
    node.release()
    assert node.live_events() == [2, 2]
    assert bench.alike()


def test_a_live_message_stays_within_its_size_and_a_larger_batch_is_split() -> None:
    bench = Bench(2, EngineConfig(page_bytes=1_000, greet_jitter_ms=0))
    bench.nodes[0].append(20)
    assert len(bench.nodes[0].live_events()) > 1
    assert sum(bench.nodes[0].live_events()) == 21
    assert bench.alike()


def test_own_events_beyond_the_backlog_are_dropped_as_hints_and_pulled_later() -> None:
    bench = Bench(2, EngineConfig(live_backlog_bytes=1_000, greet_jitter_ms=0, reconnect_jitter_ms=0))
    node = bench.nodes[0]
    node.holding = (Publish,)
    node.append()
    for _ in range(50):
        node.append()
    assert node.engine.gauges()["live_unsent"] > 0
    node.release()
    bench.pass_time(2_500)
    assert bench.alike()


def test_while_disconnected_events_are_not_sent_and_all_is_pulled_after_reconnecting() -> None:
    bench = Bench(2)
    node = bench.nodes[0]
    node.do(node.engine.disconnected(bench.now))
    node.append(3)
    assert node.sent(Channel.LIVE) == []
    bench.pass_time(5_000)
    assert len(node.digests()) == 0
    node.do(node.engine.connected(bench.now))
    bench.pass_time(1_000)
    assert bench.alike()


def test_a_burst_that_is_not_durable_yet_is_not_taken_for_a_gap() -> None:
    bench = Bench(2)
    writer, reader = bench.nodes
    reader.holding = (Apply,)
    for _ in range(4):
        writer.append()
        bench.pass_time(5)
    assert len(reader.held) == 4
    assert reader.engine.counters["gaps"] == 0
    reader.release()
    assert bench.alike()


def test_a_repeated_live_message_is_not_given_to_the_log_again() -> None:
    bench = Bench(2)
    writer, reader = bench.nodes
    writer.append()
    [message] = writer.sent(Channel.LIVE)
    before = len(reader.done)
    bench.deliver(reader, message)
    assert reader.done[before:] == []


def test_a_gap_is_pulled_at_once_from_its_sender_and_only_the_streams_of_that_peer() -> None:
    bench = Bench(3)
    writer, reader, other = bench.nodes
    other.append()
    bench.lost = lambda _source, target, publish: live_lost(_source, target, publish) and target is reader
    writer.append()
    bench.pass_time(10)
    bench.lost = lambda *_: False
    writer.append()
    [request] = reader.requests()
    assert set(request.positions) == {writer.peer}
    assert request.asked == writer.engine.me.boot
    assert bench.alike()


def test_received_events_beyond_the_bound_are_dropped_and_pulled_later() -> None:
    bench = Bench(2, EngineConfig(intake_bytes=2_000, greet_jitter_ms=0, coalesce_ms=0))
    writer, reader = bench.nodes
    reader.holding = (Apply,)
    for _ in range(30):
        writer.append()
        bench.pass_time(1)
    assert reader.engine.counters["live_dropped"] > 0
    waiting = sum(len(s.events) for a in reader.held if isinstance(a, Apply) for s in a.segments)
    assert waiting < 31
    reader.release()
    bench.pass_time(3_000)
    assert bench.alike()


def test_when_the_log_cannot_apply_the_engine_goes_on_from_what_the_log_holds() -> None:
    bench = Bench(2)
    writer, reader = bench.nodes
    reader.holding = (Apply,)
    writer.append()
    [apply] = reader.held
    assert isinstance(apply, Apply)
    reader.holding, reader.held = (), []
    reader.do(reader.engine.apply_failed([apply], reader.log.heads(), bench.now))
    assert not bench.alike()
    bench.pass_time(2_500)
    assert bench.alike()


# -- digests


def test_a_digest_comes_within_the_jitter_of_connecting_and_then_once_an_interval() -> None:
    bench = Bench(1, EngineConfig(reconnect_jitter_ms=200, digest_jitter=0.2))
    node = bench.nodes[0]
    bench.pass_time(200)
    assert len(node.digests()) == 1
    bench.pass_time(60_000)
    assert 50 <= len(node.digests()) <= 76
    assert [d.number for d in node.digests()] == list(range(1, len(node.digests()) + 1))


def test_a_process_heard_for_the_first_time_is_greeted_with_a_digest() -> None:
    bench = Bench(1)
    node = bench.nodes[0]
    bench.pass_time(100)
    before = len(node.digests())
    node.do(node.engine.set_members([peer(2)]))
    node.do(node.engine.receive_digest(digest_of(Sender(peer(2), b"newcomer")), bench.now))
    bench.pass_time(1)
    assert len(node.digests()) == before + 1
    assert node.digests()[-1].heard == {Sender(peer(2), b"newcomer"): 1}


def test_what_differs_in_a_digest_is_pulled_and_nothing_else() -> None:
    bench = Bench(3)
    bench.nodes[2].append()
    bench.pass_time(100)
    bench.lost = live_lost
    bench.nodes[0].append()
    bench.pass_time(2_000)
    assert bench.alike()
    for node in bench.nodes[1:]:
        assert {p for r in node.requests() for p in r.positions} == {bench.nodes[0].peer}


def test_a_difference_that_live_events_close_in_time_is_not_pulled() -> None:
    bench = Bench(2)
    writer, reader = bench.nodes
    reader.holding = (Apply,)
    writer.append()
    bench.pass_time(bench.config.settle_ms // 2)  # both have sent a digest since
    assert reader.engine.contacts()[writer.peer].digest.states
    reader.release()
    bench.pass_time(5_000)
    assert reader.requests() == []
    assert bench.alike()


def test_nobody_is_asked_for_a_state_that_was_held_here_before() -> None:
    bench = Bench(2)
    writer = bench.nodes[0]
    bench.lost = lambda source, _target, publish: source is writer
    for _ in range(5):
        writer.append()
        bench.pass_time(1_000)
    assert not bench.alike()
    assert writer.requests() == []


def test_a_repeated_or_late_digest_changes_nothing() -> None:
    bench = Bench(2)
    bench.pass_time(3_000)
    first = bench.nodes[0].sent(Channel.DIGEST)[0]
    before = bench.nodes[1].engine.contacts()[peer(1)].digest.number
    bench.deliver(bench.nodes[1], first)
    assert bench.nodes[1].engine.contacts()[peer(1)].digest.number == before
    assert bench.nodes[1].engine.counters["digests_late"] == 1


def test_a_process_that_falls_silent_is_silent_then_forgotten() -> None:
    bench = Bench(2)
    node = bench.nodes[0]
    bench.pass_time(2_000)
    bench.lost = lambda *_: True
    contact = node.engine.contacts()[peer(2)]
    assert not node.engine.is_silent(contact, bench.now)
    bench.pass_time(bench.config.silent_after_ms)
    assert node.engine.is_silent(contact, bench.now)
    bench.pass_time(bench.config.forget_after_ms)
    assert node.engine.contacts() == {}


def test_only_the_newest_processes_of_one_peer_id_are_remembered() -> None:
    bench = Bench(2)
    node = bench.nodes[0]
    for n in range(20):
        sender = Sender(peer(2), n.to_bytes(8, "big"))
        node.do(node.engine.receive_digest(digest_of(sender), bench.now + n))
    bench.pass_time(100)
    assert len(node.digests()[-1].heard) <= bench.config.boots_per_peer + 1


# -- having caught up


def test_a_peer_is_caught_up_with_from_a_moment_before_its_digest_was_sent() -> None:
    bench = Bench(2)
    node, other = bench.nodes
    assert node.engine.caught_up(other.peer) is None
    bench.pass_time(3_000)
    bench.lost = lambda source, _target, _publish: source is other
    bench.pass_time(1_000)
    sent_at, late = bench.now, other.sent(Channel.DIGEST)[-1]
    bench.pass_time(4_000)
    bench.deliver(node, late)
    moment = node.engine.caught_up(other.peer)
    assert moment is not None
    assert sent_at - 2_000 <= moment <= sent_at
    assert node.engine.caught_up_with_all(moment)
    assert not node.engine.caught_up_with_all(moment + 1)


def test_what_is_missing_keeps_us_from_having_caught_up() -> None:
    bench = Bench(2)
    writer, reader = bench.nodes
    bench.pass_time(3_000)
    bench.lost = lambda source, target, publish: publish.channel is not Channel.DIGEST
    writer.append()
    stored_at = bench.now
    bench.pass_time(10_000)
    moment = reader.engine.caught_up(writer.peer)
    assert moment is not None
    assert moment <= stored_at
    bench.lost = lambda *_: False
    bench.pass_time(15_000)
    moment = reader.engine.caught_up(writer.peer)
    assert moment is not None
    assert moment > stored_at


def test_who_is_behind_whom_since_when_and_whether_they_are_heard() -> None:
    bench = Bench(3)
    node, second, third = bench.nodes
    bench.pass_time(3_000)
    assert node.engine.behind_since(bench.now, bench.now) == {second.peer: True, third.peer: True}
    since = bench.now
    bench.lost = lambda source, _target, _publish: source is third
    bench.pass_time(3_000)
    assert node.engine.behind_since(since, bench.now) == {third.peer: True}
    bench.pass_time(5_000)
    assert node.engine.behind_since(since, bench.now) == {third.peer: False}
    node.do(node.engine.set_members([node.peer, second.peer], [third.peer]))
    assert node.engine.behind_since(since, bench.now) == {second.peer: True}, "it may have retired the third"
    bench.pass_time(3_000)
    assert node.engine.behind_since(since, bench.now) == {}


def test_a_peer_alone_has_caught_up_with_all() -> None:
    assert Bench(1).nodes[0].engine.caught_up_with_all(10**9)


# -- strangers, echoes and rubbish


def test_what_strangers_say_is_ignored_and_counted() -> None:
    bench = Bench(2)
    node = bench.nodes[0]
    live = encode_live(Live(STRANGER, (segment(events(stream(99), 2)),)))
    node.do(node.engine.receive_live(live, bench.now))
    node.do(node.engine.receive_digest(digest_of(STRANGER), bench.now))
    assert node.log.heads() == {}
    assert STRANGER.peer not in node.engine.contacts()
    assert node.engine.counters["strangers"] == 2


def test_a_peer_that_is_no_member_any_more_is_forgotten() -> None:
    bench = Bench(2)
    node = bench.nodes[0]
    bench.pass_time(1_500)
    assert peer(2) in node.engine.contacts()
    node.do(node.engine.set_members([peer(1)]))
    bench.pass_time(1_500)
    assert node.engine.contacts() == {}
    assert node.engine.counters["strangers"] > 0


def test_an_own_message_that_comes_back_is_ignored() -> None:
    bench = Bench(1)
    node = bench.nodes[0]
    node.append()
    bench.pass_time(100)
    before = len(node.done)
    for publish in (*node.sent(Channel.LIVE), *node.sent(Channel.DIGEST)):
        bench.deliver(node, publish)
    assert len(node.done) == before


def test_rubbish_is_counted_and_changes_nothing() -> None:
    bench = Bench(1)
    engine = bench.nodes[0].engine
    rng = random.Random(5)
    for _ in range(50):
        data = rng.randbytes(rng.randrange(40))
        assert engine.receive_live(data, bench.now) == []
        assert engine.receive_digest(data, bench.now) == []
        assert engine.receive_pull(data, bench.now) == []
    assert engine.counters["malformed"] == 150


def test_a_segment_that_is_not_what_it_says_does_not_stop_the_engine() -> None:
    bench = Bench(2)
    node = bench.nodes[0]
    wrong = segment(events(stream(2), 3))
    moved = wrong.__class__(stream(2, 5), wrong.first, wrong.previous, wrong.events)
    node.do(node.engine.receive_live(encode_live(Live(Sender(peer(2), b"bootboot"), (moved,))), bench.now))
    assert node.log.heads() == {}
    bench.nodes[1].append()
    assert bench.alike()


def test_two_processes_under_one_peer_id_hear_each_other_and_are_counted() -> None:
    bench = Bench(1)
    twin = bench.add(1, bench.nodes[0].log.disk.copy())
    bench.start(twin)
    bench.nodes[0].append()
    twin.append()
    bench.pass_time(3_000)
    assert bench.alike()
    assert [node.engine.gauges()["twins"] for node in bench.nodes] == [1, 1]
    assert not any(node.forks() for node in bench.nodes)


def test_a_restored_directory_gets_its_lost_events_back() -> None:
    bench = Bench(2)
    writer, other = bench.nodes
    writer.append(2)
    old = writer.log.disk.copy()
    writer.append(3)
    bench.pass_time(100)
    bench.nodes.remove(writer)
    again = bench.add(1, old)
    bench.start(again)
    again.append()
    bench.pass_time(6_000)
    assert bench.alike()
    lost = next(s for s in other.log.heads() if s.peer == peer(1) and s.ordinal == 0)
    assert again.log.heads()[lost].sequence == 6
    assert not again.forks()


# -- settings


@pytest.mark.parametrize(
    "wrong",
    [
        {"digest_interval_ms": 0},
        {"settle_ms": -1},
        {"digest_jitter": 1.0},
        {"silent_after_ms": 2_999},
        {"forget_after_ms": 5_000},
        {"page_bytes": 10**9},
        {"inbound_pulls": 0},
    ],
)
def test_settings_under_which_replication_cannot_work_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(Invalid, match=next(iter(wrong))):
        EngineConfig(**wrong)


def test_the_same_seed_gives_the_same_messages() -> None:
    def history() -> list[bytes]:
        bench = Bench(3, EngineConfig())
        for node in bench.nodes:
            node.append(2)
            bench.pass_time(1_234)
        return [e.data for node in bench.nodes for e in node.done if isinstance(e, Publish)]

    assert history() == history()


def test_an_engine_that_is_not_connected_asks_nothing_and_waits_for_nothing() -> None:
    engine = Engine(peer(1), EngineConfig(), random.Random(0))
    engine.started({})
    assert engine.next_deadline(0) is None
    assert engine.tick(0, Vitals(wall_ms=0)) == []
    assert last_of(segment(events(StreamId(peer(1), 0, 0, bytes(8)), 2))) == 2
