"""Messages between peers: they come back as they went, within bounds, or not at all."""

from __future__ import annotations

from typing import Any

import pytest

from mesh.digests import (
    HEADS_MAX,
    POSITIONS_MAX,
    Ack,
    Digest,
    Live,
    PullReply,
    PullRequest,
    Sender,
    Vitals,
    decode_ack,
    decode_digest,
    decode_live,
    decode_pull,
    encode_ack,
    encode_digest,
    encode_live,
    encode_pull,
)
from mesh.ports import Head
from mesh.segments import packed
from proto.codec import decode, encode
from proto.errors import ProtocolError
from proto.limits import EVENT_BYTES, NATS_MESSAGE_BYTES, PAGE_EVENTS_BYTES
from proto.streams import StreamId
from tests.support.sealed import events, peer, segment, stream

ME, YOU = Sender(peer(1), b"bootboot"), Sender(peer(2), b"reboot!!")
VITALS = Vitals(1_700_000_000_000, ("http://127.0.0.1:4974",), "minilm", "0.1.0", 12, 3, False)
DIGEST = Digest(ME, 7, VITALS, {peer(2): b"s" * 16, peer(1): b"t" * 16}, {YOU: 99})
LIVE = Live(ME, (segment(events(stream(1), 3), 2), segment(events(stream(2), 1))))
HEADS = {stream(1): Head(3, b"h" * 32), stream(1, 1): Head(1, b"i" * 32), stream(2): Head(9, b"j" * 32)}
REQUEST = PullRequest(
    b"pull-id!", ME, YOU.boot, {peer(1): {s: h for s, h in HEADS.items() if s.peer == peer(1)}, peer(3): {}}
)
REPLY = PullReply(b"pull-id!", LIVE.segments, HEADS, more=True)


def many_heads(count: int) -> dict[StreamId, Head]:
    return {
        StreamId(peer(1), 0, 2**52 + n, n.to_bytes(8, "big")): Head(2**52 + n, bytes(32))
        for n in range(count)
    }


def test_every_message_comes_back_as_it_went() -> None:
    assert decode_digest(encode_digest(DIGEST)) == DIGEST
    assert decode_live(encode_live(LIVE)) == LIVE
    assert decode_ack(encode_ack(Ack(ME, HEADS))) == Ack(ME, HEADS)
    assert decode_pull(encode_pull(REQUEST)) == REQUEST
    assert decode_pull(encode_pull(REPLY)) == REPLY
    assert decode_pull(encode_pull(PullReply(b"pull-id!", busy=True))) == PullReply(
        b"pull-id!", (), {}, busy=True
    )


def test_maps_are_written_in_one_order() -> None:
    turned = Digest(ME, 7, VITALS, dict(reversed(list(DIGEST.states.items()))), DIGEST.heard)
    assert encode_digest(turned) == encode_digest(DIGEST)
    again = PullReply(REPLY.id, REPLY.segments, dict(reversed(list(HEADS.items()))), more=True)
    assert encode_pull(again) == encode_pull(REPLY)


def test_fields_that_a_later_version_appends_are_ignored() -> None:
    later = encode((*decode(encode_digest(DIGEST)), {"new": 1}))
    assert decode_digest(later) == DIGEST
    assert decode_pull(encode((*decode(encode_pull(REQUEST)), 5))) == REQUEST


def test_a_message_of_another_kind_or_version_is_refused() -> None:
    for data in (encode_live(LIVE), encode_pull(REPLY), encode((2, *decode(encode_digest(DIGEST))[1:]))):
        with pytest.raises(ProtocolError):
            decode_digest(data)
    with pytest.raises(ProtocolError):
        decode_pull(encode_digest(DIGEST))
    with pytest.raises(ProtocolError):
        decode_live(encode((True, *decode(encode_live(LIVE))[1:])))


def replaced(value: Any, path: tuple[int, ...], new: object) -> Any:
    """Return nested tuples with the item at `path` replaced."""
    if not path:
        return new
    head, *rest = path
    return (*value[:head], replaced(value[head], tuple(rest), new), *value[head + 1 :])


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ((2,), (peer(1),)),
        ((2, 0), b"short"),
        ((2, 1), "bootboot"),
        ((3,), 0),
        ((4, 1), ("u",) * 9),
        ((4, 1), ("u" * 257,)),
        ((4, 2), b"space"),
        ((4, 4), -1),
        ((4, 6), 1),
        ((5, 0, 1), b"s" * 17),
        ((5,), ((peer(1), b"s" * 16), (peer(1), b"t" * 16))),
        ((6, 0, 2), 1.5),
        ((6, 0), (peer(1), 3)),
    ],
)
def test_a_digest_with_a_wrong_field_is_refused(path: tuple[int, ...], value: object) -> None:
    with pytest.raises(ProtocolError):
        decode_digest(encode(replaced(decode(encode_digest(DIGEST)), path, value)))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ((3, 0, 1), -1),
        ((3, 0, 1), 2**40),
        ((3, 0, 3), b"random"),
        ((3, 0, 4), 0),
        ((3, 0, 4), 2**53),
        ((3, 0, 5), bytes(31)),
        ((3, 0, 6), ()),
        ((3, 0, 6, 0), (b"header", None)),
        ((3, 0, 6, 0, 0), b""),
        ((3, 0, 6, 0, 0), None),
        ((3, 0, 6, 0, 1), None),
        ((3, 0, 6, 0, 1), bytes(15)),
        ((3, 0, 6, 0, 2), None),
        ((3, 0, 6, 0, 2), bytes(EVENT_BYTES)),
    ],
)
def test_a_live_message_with_a_wrong_field_is_refused(path: tuple[int, ...], value: object) -> None:
    with pytest.raises(ProtocolError):
        decode_live(encode(replaced(decode(encode_live(LIVE)), path, value)))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ((2,), b"seven.."),
        ((4,), b"seven.."),
        ((5, 0, 1, 0, 3), 0),
        ((5, 0, 1, 0, 4), bytes(33)),
        ((5, 0), (peer(1),)),
        ((5,), ((peer(3), ()), (peer(3), ()))),
        ((5,), {peer(1): ()}),
    ],
)
def test_a_pull_request_with_a_wrong_field_is_refused(path: tuple[int, ...], value: object) -> None:
    with pytest.raises(ProtocolError):
        decode_pull(encode(replaced(decode(encode_pull(REQUEST)), path, value)))


def test_an_event_whose_payload_was_erased_travels() -> None:
    erased = replaced(replaced(decode(encode_live(LIVE)), (3, 0, 6, 0, 1), None), (3, 0, 6, 0, 2), None)
    assert decode_live(encode(erased)).segments[0].events[0][1:] == (None, None)


def test_the_largest_request_and_reply_stay_below_the_limit_of_a_message() -> None:
    request = encode_pull(PullRequest(b"pull-id!", ME, YOU.boot, {peer(1): many_heads(POSITIONS_MAX)}))
    assert len(request) <= NATS_MESSAGE_BYTES
    assert isinstance(decode_pull(request), PullRequest)
    [page, *_] = packed([segment(events(stream(1), 2_500, size=100))], PAGE_EVENTS_BYTES)
    reply = encode_pull(PullReply(b"pull-id!", tuple(page), many_heads(HEADS_MAX)))
    assert len(reply) <= NATS_MESSAGE_BYTES
    assert isinstance(decode_pull(reply), PullReply)


def test_more_streams_than_the_bound_are_refused() -> None:
    over = encode_pull(PullReply(b"pull-id!", (), many_heads(HEADS_MAX + 1)))
    with pytest.raises(ProtocolError):
        decode_pull(over)
