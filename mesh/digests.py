"""What peers say to each other about their logs: digests, live events, acknowledgements, pulls and their replies.

Plain values and their msgpack form, nothing else.  A message is an array `[version, kind, fields...]`; fields
are only ever appended, so a decoder ignores further ones, and any other change is a new version.  Decoding
arbitrary bytes raises `ProtocolError` and nothing else.  What follows from a message is the engine's affair.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from mesh.ports import Head, Segment
from mesh.wire_fields import exactly, flag, pairs_of, row_of, rows_of, text, unique, whole
from proto.codec import decode, encode
from proto.errors import ProtocolError
from proto.events import PARTITION_MAX, SALT_BYTES, SEQUENCE_MAX
from proto.ids import ID_BYTES, PeerId
from proto.limits import EVENT_BYTES
from proto.streams import StreamId

WIRE_VERSION = 1
BOOT_BYTES = 8
PULL_ID_BYTES = 8
STATE_BYTES = 16
HASH_BYTES = 32
HEADER_BYTES = 4096
PEERS_MAX = 4096
POSITIONS_MAX = 6_000  # at most 58 bytes each: a request stays below 350 KiB
HEADS_MAX = 1_500  # beside a full page of events a reply stays below 512 KiB
URLS_MAX = 8

KIND_DIGEST, KIND_LIVE, KIND_ACK, KIND_PULL, KIND_REPLY = "digest", "live", "ack", "pull", "reply"


class Sender(NamedTuple):
    """One running process: a copied directory may run a second one under the same peer id.

    `boot` is 8 random bytes, minted at process start.
    """

    peer: PeerId
    boot: bytes


@dataclass(frozen=True, slots=True)
class Vitals:
    """What a peer says of itself beside its log.

    Args:
        wall_ms: its wall clock, ms since 1970; shown to people, compared by nobody.
        urls: where agents reach it, at most 8.
        space: the embedding space that it indexes, "" for none.
        version: of its software.
        load: CPU in use, per cent of one core.
        lag_ms: how late its event loop runs.
        in_service: False while a watchdog keeps it out of routing.
    """

    wall_ms: int
    urls: tuple[str, ...] = ()
    space: str = ""
    version: str = ""
    load: int = 0
    lag_ms: int = 0
    in_service: bool = True


@dataclass(frozen=True, slots=True)
class Digest:
    """Heartbeat and summary of one process.

    Args:
        sender: who speaks.
        number: counts its digests from 1.
        vitals: what it says of itself.
        states: per peer whose streams it holds, the 16-byte hash of what it holds of them
            (`proto.streams.digest_by_peer`).
        heard: per process that it hears, the number of the newest digest heard: that process learns from it
            a moment of its own clock after which this digest was certainly sent.
    """

    sender: Sender
    number: int
    vitals: Vitals
    states: Mapping[PeerId, bytes]
    heard: Mapping[Sender, int]


@dataclass(frozen=True, slots=True)
class Live:
    """Events that became durable at their sender just now.  A hint: any part may be lost."""

    sender: Sender
    segments: tuple[Segment, ...]


@dataclass(frozen=True, slots=True)
class Ack:
    """What of the addressed peer's streams became durable at the sender just now.  A hint: it may be lost.

    Args:
        heads: of those streams, at the sender.
    """

    sender: Sender
    heads: Mapping[StreamId, Head]


@dataclass(frozen=True, slots=True)
class PullRequest:
    """A question for what is missing here.

    Args:
        id: 8 random bytes, repeated in the reply.
        sender: who asks.
        asked: boot of the process that is asked; any other ignores the request.
        positions: the peers concerned, and for each the head of every stream of it that is held here
            (none: everything is missing).
    """

    id: bytes
    sender: Sender
    asked: bytes
    positions: Mapping[PeerId, Mapping[StreamId, Head]]


@dataclass(frozen=True, slots=True)
class PullReply:
    """One page.

    Args:
        id: of the request.
        segments: what follows on the positions asked with.
        heads: streams of the peers concerned in which the server is ahead, with its head; and streams that
            differ from the positions asked with, with the server's hash at that sequence.  What is absent is
            held by the asker as far as by the server.
        more: the page was full.
        busy: nothing was served; come back later.
    """

    id: bytes
    segments: tuple[Segment, ...] = ()
    heads: Mapping[StreamId, Head] | None = None
    more: bool = False
    busy: bool = False


# -- encoding


def encode_digest(digest: Digest) -> bytes:
    """Return the wire form; maps are written in the order of their keys."""
    v = digest.vitals
    return encode(
        (
            WIRE_VERSION,
            KIND_DIGEST,
            digest.sender,
            digest.number,
            (v.wall_ms, v.urls, v.space, v.version, v.load, v.lag_ms, v.in_service),
            tuple(sorted(digest.states.items())),
            tuple((peer, boot, number) for (peer, boot), number in sorted(digest.heard.items())),
        )
    )


def encode_live(live: Live) -> bytes:
    """Return the wire form; the caller keeps it below `PAGE_EVENTS_BYTES` (`segments.packed`)."""
    return encode((WIRE_VERSION, KIND_LIVE, live.sender, tuple(map(_pack_segment, live.segments))))


def encode_ack(ack: Ack) -> bytes:
    """Return the wire form."""
    return encode((WIRE_VERSION, KIND_ACK, ack.sender, _pack_by_peer(ack.heads)))


def encode_pull(message: PullRequest | PullReply) -> bytes:
    """Return the wire form of either half of a pull."""
    if isinstance(message, PullRequest):
        positions = tuple((p, _pack_heads(message.positions[p])) for p in sorted(message.positions))
        return encode((WIRE_VERSION, KIND_PULL, message.id, message.sender, message.asked, positions))
    return encode(
        (
            WIRE_VERSION,
            KIND_REPLY,
            message.id,
            tuple(map(_pack_segment, message.segments)),
            _pack_by_peer(message.heads or {}),
            message.more,
            message.busy,
        )
    )


def _pack_segment(segment: Segment) -> tuple[Any, ...]:
    return (*segment.stream, segment.first, segment.previous, segment.events)


def _pack_by_peer(heads: Mapping[StreamId, Head]) -> tuple[Any, ...]:
    by_peer: dict[PeerId, dict[StreamId, Head]] = {}
    for stream, head in sorted(heads.items()):
        by_peer.setdefault(stream.peer, {})[stream] = head
    return tuple((peer, _pack_heads(rows)) for peer, rows in by_peer.items())


def _pack_heads(heads: Mapping[StreamId, Head]) -> tuple[Any, ...]:
    return tuple(
        (s.partition, s.ordinal, s.random, head.sequence, head.hash) for s, head in sorted(heads.items())
    )


# -- decoding


def decode_digest(data: bytes) -> Digest:
    """Return the digest that bytes stand for.

    Raises:
        ProtocolError: not a digest of this version, or a value out of its bounds.
    """
    sender, number, vitals, states, heard = _fields(data, KIND_DIGEST, 5)
    wall_ms, urls, space, version, load, lag_ms, in_service = row_of(vitals, 7)
    return Digest(
        _sender(sender),
        whole(number, least=1),
        Vitals(
            whole(wall_ms),
            tuple(text(url) for url in rows_of(urls, URLS_MAX)),
            text(space),
            text(version),
            whole(load),
            whole(lag_ms),
            flag(in_service),
        ),
        unique((_peer(p), exactly(h, STATE_BYTES)) for p, h in pairs_of(states, PEERS_MAX)),
        unique((_sender(row[:2]), whole(row[2])) for row in rows_of(heard, PEERS_MAX, width=3)),
    )


def decode_live(data: bytes) -> Live:
    """Return the live events that bytes stand for; their own bytes are not looked into.

    Raises:
        ProtocolError: not a live message of this version, or a value out of its bounds.
    """
    sender, segments = _fields(data, KIND_LIVE, 2)
    return Live(_sender(sender), _segments(segments))


def decode_ack(data: bytes) -> Ack:
    """Return the acknowledgement that bytes stand for.

    Raises:
        ProtocolError: not an acknowledgement of this version, or a value out of its bounds.
    """
    sender, heads = _fields(data, KIND_ACK, 2)
    return Ack(_sender(sender), _flat(_heads_by_peer(heads, HEADS_MAX)))


def decode_pull(data: bytes) -> PullRequest | PullReply:
    """Return the request or reply that bytes stand for.

    Raises:
        ProtocolError: neither of them in this version, or a value out of its bounds.
    """
    message = decode(data)
    kind = message[1] if isinstance(message, tuple) and len(message) > 1 else None
    if kind == KIND_PULL:
        id_, sender, asked, positions = _checked(message, KIND_PULL, 4)
        held = _heads_by_peer(positions, POSITIONS_MAX)
        return PullRequest(exactly(id_, PULL_ID_BYTES), _sender(sender), exactly(asked, BOOT_BYTES), held)
    id_, segments, heads, more, busy = _checked(message, KIND_REPLY, 5)
    flat = _flat(_heads_by_peer(heads, HEADS_MAX))
    return PullReply(exactly(id_, PULL_ID_BYTES), _segments(segments), flat, flag(more), flag(busy))


def _fields(data: bytes, kind: str, count: int) -> tuple[Any, ...]:
    return _checked(decode(data), kind, count)


def _checked(message: Any, kind: str, count: int) -> tuple[Any, ...]:
    if not isinstance(message, tuple) or len(message) < 2 + count:
        raise ProtocolError(f"a message between peers is no {kind} with {count} fields")
    if type(message[0]) is not int or message[0] != WIRE_VERSION:
        raise ProtocolError(f"a message between peers has another version than {WIRE_VERSION}")
    if message[1] != kind:
        raise ProtocolError(f"a message between peers is no {kind}")
    return message[2 : 2 + count]


def _segments(value: Any) -> tuple[Segment, ...]:
    return tuple(_segment(row) for row in rows_of(value, SEQUENCE_MAX, width=7))


def _segment(row: tuple[Any, ...]) -> Segment:
    peer, partition, ordinal, random, first, previous, events = row
    segment = Segment(
        _stream(_peer(peer), partition, ordinal, random),
        whole(first, least=1),
        exactly(previous, HASH_BYTES),
        rows_of(events, SEQUENCE_MAX, width=3),
    )
    if not segment.events or segment.first + len(segment.events) - 1 > SEQUENCE_MAX:
        raise ProtocolError("a segment holds no events, or ends beyond any sequence")
    for header, salt, payload in segment.events:
        if type(header) is not bytes or not 1 <= len(header) <= HEADER_BYTES:
            raise ProtocolError("a segment holds an event without a header")
        if salt is None and payload is None:
            continue
        if type(salt) is not bytes or len(salt) != SALT_BYTES or type(payload) is not bytes:
            raise ProtocolError("a segment holds an event with half a payload")
        if len(header) + len(payload) > EVENT_BYTES:
            raise ProtocolError(f"a segment holds an event of {len(payload)} bytes, limit {EVENT_BYTES}")
    return segment


def _heads_by_peer(value: Any, most: int) -> dict[PeerId, dict[StreamId, Head]]:
    named = unique((_peer(p), streams) for p, streams in pairs_of(value, PEERS_MAX))
    found = {
        peer: unique(
            (_stream(peer, row[0], row[1], row[2]), Head(whole(row[3], least=1), exactly(row[4], HASH_BYTES)))
            for row in rows_of(streams, most, width=5)
        )
        for peer, streams in named.items()
    }
    if sum(map(len, found.values())) > most:
        raise ProtocolError(f"a message between peers names more than {most} streams")
    return found


def _flat(heads: Mapping[PeerId, Mapping[StreamId, Head]]) -> dict[StreamId, Head]:
    return {stream: head for streams in heads.values() for stream, head in streams.items()}


def _sender(value: Any) -> Sender:
    peer, boot = row_of(value, 2)
    return Sender(_peer(peer), exactly(boot, BOOT_BYTES))


def _stream(peer: PeerId, partition: Any, ordinal: Any, random: Any) -> StreamId:
    return StreamId(peer, whole(partition, most=PARTITION_MAX), whole(ordinal), exactly(random, 8))


def _peer(value: Any) -> PeerId:
    return PeerId(exactly(value, ID_BYTES))
