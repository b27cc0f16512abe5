"""What can be done with a segment, the form in which events travel: measure, trim, split, join, check.

Pure.  A segment is contiguous by construction; whether its bytes are what they claim is checked by
`restore_events`, which a log calls before it keeps anything.  Nothing here re-encodes an event.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from mesh.ports import Head, Segment
from proto.errors import ProtocolError
from proto.events import NO_HASH, Event, chain_hash, restore

NOTHING = Head(0, NO_HASH)  # the head of a stream of which nothing is held
EVENT_FRAME_BYTES = 32  # salt and msgpack framing of one event, rounded up
SEGMENT_FRAME_BYTES = 128  # stream, first, previous hash and framing, rounded up


def event_bytes(event: tuple[bytes, bytes | None, bytes | None]) -> int:
    """Return what one event (header, salt, payload) takes in a message, rounded up."""
    return len(event[0]) + len(event[2] or b"") + EVENT_FRAME_BYTES


def segment_bytes(segment: Segment) -> int:
    """Return what a segment takes in a message, rounded up."""
    return SEGMENT_FRAME_BYTES + sum(map(event_bytes, segment.events))


def last_of(segment: Segment) -> int:
    """Return the sequence of the last event."""
    return segment.first + len(segment.events) - 1


def head_of(segment: Segment) -> Head:
    """Return the head that a stream has once it holds this segment, if its chain is true."""
    tail = segment.previous
    for header, _, _ in segment.events:
        tail = chain_hash(tail, header)
    return Head(last_of(segment), tail)


def segment_of(events: Sequence[Event], previous: bytes) -> Segment:
    """Return contiguous events of one stream as a segment.

    Args:
        events: at least one, in order.
        previous: 32-byte hash before the first of them (`NO_HASH` when it is the first of the stream).
    """
    first = events[0].header
    return Segment(
        first.stream, first.sequence, previous, tuple((e.header_bytes, e.salt, e.payload) for e in events)
    )


def fitting(segment: Segment, max_bytes: int) -> Segment | None:
    """Return the longest prefix that takes at most `max_bytes` in a message; None if no event fits."""
    size = SEGMENT_FRAME_BYTES
    for count, event in enumerate(segment.events):
        size += event_bytes(event)
        if size > max_bytes:
            return replace(segment, events=segment.events[:count]) if count else None
    return segment


def split(segment: Segment, max_bytes: int) -> list[Segment]:
    """Return the same events in segments of at most `max_bytes`, save where one event alone is larger."""
    out: list[Segment] = []
    rest = segment
    while True:
        part = fitting(rest, max_bytes) or replace(rest, events=rest.events[:1])
        out.append(part)
        if len(part.events) == len(rest.events):
            return out
        head = head_of(part)
        rest = Segment(rest.stream, head.sequence + 1, head.hash, rest.events[len(part.events) :])


def joined(segments: Iterable[Segment]) -> list[Segment]:
    """Return the segments with neighbours of one stream that follow on each other made one."""
    runs: list[list[Segment]] = []
    tail = NOTHING
    for segment in segments:
        follows = (
            bool(runs)
            and runs[-1][-1].stream == segment.stream
            and tail == Head(segment.first - 1, segment.previous)
        )
        if follows:
            runs[-1].append(segment)
        else:
            runs.append([segment])
        tail = head_of(segment)
    return [replace(run[0], events=tuple(e for part in run for e in part.events)) for run in runs]


def packed(segments: Iterable[Segment], max_bytes: int) -> list[list[Segment]]:
    """Return the segments, split where needed, in groups that each fit one message of `max_bytes`."""
    groups: list[list[Segment]] = []
    room = 0
    for whole in segments:
        for part in split(whole, max_bytes):
            size = segment_bytes(part)
            if not groups or size > room:
                groups.append([])
                room = max_bytes
            groups[-1].append(part)
            room -= size
    return groups


def restore_events(segment: Segment) -> tuple[Event, ...]:
    """Return the events of a segment, each checked against its own digest and its place.

    Raises:
        ProtocolError: an event is malformed, has another payload than its header names, or names another
            stream or sequence than its place in the segment.
    """
    out: list[Event] = []
    previous = segment.previous
    for sequence, (header_bytes, salt, payload) in enumerate(segment.events, segment.first):
        event = restore(header_bytes, salt, payload, previous)
        if event.header.stream != segment.stream or event.header.sequence != sequence:
            raise ProtocolError(f"event {event.header.sequence} stands at place {sequence} of a segment")
        out.append(event)
        previous = event.hash
    return tuple(out)
