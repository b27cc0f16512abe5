"""How many members hold an event: what the engine counts, from whom, and what it must not count."""

from __future__ import annotations

import random

from mesh.digests import Ack, Digest, Sender, decode_ack, encode_ack, encode_digest
from mesh.effects import Apply, Channel, Confirmed, Publish
from mesh.engine import Engine
from mesh.ports import Head
from proto.events import NO_HASH
from proto.streams import StreamId
from tests.support.engines import VITALS, Bench, Node
from tests.support.memory_log import MemoryDisk
from tests.support.sealed import events, peer, stream


def acquainted(count: int, disks: dict[int, MemoryDisk] | None = None) -> Bench:
    """Return engines that have heard each other's digests."""
    bench = Bench(count, disks=disks)
    bench.pass_time(2_500)
    return bench


def own_head(node: Node) -> tuple[StreamId, int]:
    """Return the stream that a node writes, and its last sequence."""
    return node.log.stream, node.log.heads()[node.log.stream].sequence


def durable_on(node: Node) -> int:
    return node.engine.durable_on(*own_head(node))


def ack_from(node: Node, writer: Node) -> bytes:
    """Return what a node says of a writer's stream: what it holds."""
    at = writer.log.stream
    return encode_ack(Ack(node.engine.me, {at: node.log.heads()[at]}))


def no_acks(_source: Node, _target: Node, publish: Publish) -> bool:
    return publish.channel is Channel.ACK


# -- acknowledgements


def test_an_event_is_durable_here_alone_before_anybody_said_anything() -> None:
    bench = acquainted(3)
    bench.lost = lambda *_: True
    bench.nodes[0].append()
    assert durable_on(bench.nodes[0]) == 1


def test_each_member_that_has_committed_an_event_counts() -> None:
    bench = acquainted(3)
    one, two, three = bench.nodes
    three.holding = (Apply,)
    one.append()
    assert durable_on(one) == 2
    three.release()
    assert durable_on(one) == 3
    assert two.engine.durable_on(*own_head(one)) >= 2


def test_an_event_that_is_not_here_is_durable_on_nobody() -> None:
    one = acquainted(2).nodes[0]
    one.append()
    at, last = own_head(one)
    assert one.engine.durable_on(at, last + 1) == 0


def test_nothing_is_acknowledged_before_the_log_has_it() -> None:
    bench = acquainted(2)
    one, two = bench.nodes
    two.holding = (Apply,)
    one.append()
    assert two.sent(Channel.ACK) == []
    two.release()
    [sent] = two.sent(Channel.ACK)
    assert sent.peer == one.peer
    assert decode_ack(sent.data).heads == {one.log.stream: one.log.heads()[one.log.stream]}


def test_one_commit_of_many_live_messages_is_acknowledged_once_per_origin() -> None:
    bench = acquainted(3)
    one, two, three = bench.nodes
    three.holding = (Apply,)
    for _ in range(3):
        one.append()
        two.append()
        bench.pass_time(bench.config.coalesce_ms)
    applies = [effect for effect in three.held if isinstance(effect, Apply)]
    assert len(applies) == 6
    result = three.log.apply_now([s for apply in applies for s in apply.segments])
    three.held, three.holding = [], ()
    three.do(three.engine.applied(applies, result, bench.now))
    assert sorted(p.peer for p in three.sent(Channel.ACK) if p.peer) == [one.peer, two.peer]
    assert durable_on(one) == durable_on(two) == 3


def test_an_event_that_came_by_a_pull_is_acknowledged_too() -> None:
    bench = acquainted(2)
    one, two = bench.nodes
    bench.lost = lambda _s, _t, publish: publish.channel is Channel.LIVE
    one.append()
    bench.pass_time(2_500)
    assert bench.alike()
    assert two.sent(Channel.ACK)
    assert durable_on(one) == 2


def test_a_lost_acknowledgement_is_made_up_for_by_the_next() -> None:
    bench = acquainted(2)
    one = bench.nodes[0]
    bench.lost = no_acks
    one.append()
    first = own_head(one)
    assert durable_on(one) == 1
    bench.lost = lambda *_: False
    one.append()
    bench.pass_time(bench.config.coalesce_ms)
    assert one.engine.durable_on(*first) == 2


def test_a_lost_acknowledgement_is_made_up_for_by_a_digest() -> None:
    bench = acquainted(2)
    one = bench.nodes[0]
    bench.lost = no_acks
    one.append()
    bench.pass_time(2_500)
    assert durable_on(one) == 2


def test_a_pull_request_proves_what_its_asker_holds() -> None:
    bench = acquainted(2)
    one, two = bench.nodes
    bench.lost = no_acks
    one.append()
    first = own_head(one)
    bench.lost = lambda source, _t, publish: (
        publish.channel in (Channel.ACK, Channel.LIVE)
        or (source is two and publish.channel is Channel.DIGEST)
    )
    one.append()
    bench.pass_time(2_500)
    assert one.engine.durable_on(*first) == 2


def test_a_repeated_or_late_acknowledgement_changes_nothing() -> None:
    bench = acquainted(3)
    one, two, three = bench.nodes
    bench.lost = lambda _source, target, _publish: target is three
    one.append()
    early = ack_from(two, one)
    one.append()
    bench.pass_time(bench.config.coalesce_ms)
    before = durable_on(one)
    for _ in range(3):
        assert one.engine.receive_ack(early, bench.now) == []
    assert durable_on(one) == before == 2


def test_acknowledgements_that_overtake_each_other_leave_the_highest() -> None:
    bench = acquainted(2)
    one, two = bench.nodes
    bench.lost = no_acks
    early_and_late = []
    for _ in range(2):
        one.append()
        bench.pass_time(bench.config.coalesce_ms)
        early_and_late.append(ack_from(two, one))
    for data in reversed(early_and_late):
        one.do(one.engine.receive_ack(data, bench.now))
    assert durable_on(one) == 2


def test_waits_are_woken_by_what_proves_more() -> None:
    bench = acquainted(2)
    one = bench.nodes[0]
    one.append()
    assert any(isinstance(effect, Confirmed) for effect in one.done)


# -- who and what does not count


def test_a_peer_counts_once_whatever_runs_under_its_id() -> None:
    bench = acquainted(2)
    one = bench.nodes[0]
    twin = bench.add(2, bench.nodes[1].log.disk.copy())
    bench.start(twin)
    bench.pass_time(4_000)
    one.append()
    bench.pass_time(3_000)
    assert bench.alike()
    assert durable_on(one) == 2


def test_a_twin_of_ours_does_not_count() -> None:
    bench = acquainted(1)
    one = bench.nodes[0]
    twin = bench.add(1, one.log.disk.copy())
    bench.start(twin)
    bench.pass_time(3_000)
    one.append()
    one.do(one.engine.receive_ack(ack_from(twin, one), bench.now))
    bench.pass_time(3_000)
    assert durable_on(one) == 1


def test_a_stranger_does_not_count() -> None:
    bench = acquainted(2)
    one = bench.nodes[0]
    bench.lost = lambda *_: True
    one.append()
    at = one.log.stream
    said = encode_ack(Ack(Sender(peer(99), b"stranger"), {at: one.log.heads()[at]}))
    one.do(one.engine.receive_ack(said, bench.now))
    assert durable_on(one) == 1


def test_who_is_no_member_any_more_does_not_count() -> None:
    bench = acquainted(3)
    one = bench.nodes[0]
    one.append()
    assert durable_on(one) == 3
    one.do(one.engine.set_members({peer(2)}))
    assert durable_on(one) == 2


def test_another_hash_or_a_place_not_written_yet_proves_nothing() -> None:
    bench = acquainted(2)
    one, two = bench.nodes
    bench.lost = lambda *_: True
    one.append()
    at, last = own_head(one)
    for head in (Head(last, b"x" * 32), Head(last + 1, b"x" * 32), Head(2**40, NO_HASH)):
        one.do(one.engine.receive_ack(encode_ack(Ack(two.engine.me, {at: head})), bench.now))
        assert durable_on(one) == 1


def test_a_confirmation_of_an_earlier_epoch_proves_nothing_of_this_one() -> None:
    bench = acquainted(2)
    one, two = bench.nodes
    bench.lost = lambda *_: True
    one.append()
    earlier = StreamId(one.peer, 0, 0, b"earlier!")
    head = one.log.heads()[one.log.stream]
    one.do(one.engine.receive_ack(encode_ack(Ack(two.engine.me, {earlier: head})), bench.now))
    assert durable_on(one) == 1


def test_bytes_that_are_no_acknowledgement_are_counted_and_ignored() -> None:
    bench = acquainted(2)
    one = bench.nodes[0]
    before = one.engine.counters["malformed"]
    for data in (b"", b"\xc1", encode_digest(Digest(one.engine.me, 1, VITALS, {}, {}))):
        assert one.engine.receive_ack(data, bench.now) == []
    assert one.engine.counters["malformed"] == before + 3


# -- peers that come back


def test_a_peer_that_lost_its_disk_does_not_count_until_it_holds_the_event_again() -> None:
    bench = acquainted(2)
    one, two = bench.nodes
    one.append()
    assert durable_on(one) == 2
    bench.nodes.remove(two)
    wiped = bench.add(2, MemoryDisk())
    wiped.engine = Engine(wiped.peer, bench.config, random.Random(77))
    bench.lost = lambda _s, _t, publish: publish.channel is not Channel.DIGEST
    bench.start(wiped)
    bench.pass_time(4_000)
    assert durable_on(one) == 1
    one.do(one.engine.receive_ack(ack_from(two, one), bench.now))  # late, from the life before
    assert durable_on(one) == 1
    bench.lost = lambda *_: False
    bench.pass_time(15_000)
    assert bench.alike()
    assert durable_on(one) == 2


def test_a_peer_that_was_started_again_counts_again_soon() -> None:
    bench = acquainted(2)
    one, two = bench.nodes
    one.append()
    bench.nodes.remove(two)
    again = bench.add(2, two.log.disk)
    again.engine = Engine(again.peer, bench.config, random.Random(78))
    bench.start(again)
    bench.pass_time(3_000)
    assert durable_on(one) == 2


# -- events of others


def test_an_event_of_another_peer_is_durable_there_and_here_at_least() -> None:
    bench = acquainted(3)
    one, two, three = bench.nodes
    bench.lost = lambda _source, target, _publish: target is three
    one.append()
    assert two.engine.durable_on(*own_head(one)) == 2


def test_an_event_of_a_forked_stream_counts_here_only() -> None:
    forked = stream(70)
    disks = {n: MemoryDisk({forked: events(forked, 9, seed=n, shared=4)}) for n in (1, 2)}
    bench = acquainted(2, disks)
    bench.pass_time(3_000)
    assert bench.nodes[0].forks()
    assert bench.nodes[0].engine.durable_on(forked, 3) == 1


def test_an_older_epoch_counts_where_a_digest_shows_the_same_streams() -> None:
    held = stream(70)
    disk = MemoryDisk({held: events(held, 5)})
    bench = acquainted(3, {n: disk.copy() for n in (1, 2)})
    assert bench.nodes[0].engine.durable_on(held, 5) == 3  # the third has pulled them
    assert bench.nodes[0].engine.durable_on(held, 6) == 0
