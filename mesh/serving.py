"""One page for a peer that is behind: which ranges to read, what fits, and what the reply says.

Pure: the caller reads. Streams of several peers go in step, in small parts, always the one that is furthest
behind by the clocks in its events: what was placed before a memory then also arrives before it, and the asker
need not judge the memory twice. Of one peer older epochs go first, so that the links between epochs are known
before what they cover. A stream whose stored hash contradicts the asker's is not sent: the reply shows the
hash instead, and the asker sees the fork. Of a stream that is quarantined nothing goes out beyond what is
agreed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from mesh.digests import HEADS_MAX, PullReply, PullRequest
from mesh.ports import Head, Segment
from mesh.segments import NOTHING, SEGMENT_FRAME_BYTES, fitting, last_of, segment_bytes
from proto import limits
from proto.clock import ZERO, Hlc
from proto.errors import ProtocolError
from proto.events import parse_header
from proto.ids import PeerId
from proto.streams import StreamId

_ROOM_MIN = 1024  # less room than this is not worth a read
_PART_BYTES = 32 * 1024  # read at once of each of several peers: some thirty events


class Read(NamedTuple):
    """Arguments of `EventLog.read`."""

    stream: StreamId
    first: int
    max_bytes: int


class Page:
    """The answer to one request, growing.

    Call `next_read`, read that, give it to `add`, until `next_read` returns None; then `reply`.

    Args:
        request: what is asked.
        heads: what is held here when the request arrives.
        max_bytes: of the events of the page.
        max_heads: streams named in the reply.
        agreed: of streams in quarantine, how far they are handed on.
    """

    def __init__(
        self,
        request: PullRequest,
        heads: Mapping[StreamId, Head],
        max_bytes: int = limits.PAGE_EVENTS_BYTES,
        max_heads: int = HEADS_MAX,
        agreed: Mapping[StreamId, Head] | None = None,
    ) -> None:
        self.request = request
        self.forks: list[tuple[StreamId, int, bytes]] = []
        self._agreed = agreed or {}
        self._room = max_bytes
        self._segments: list[Segment] = []
        self._heads: dict[StreamId, Head] = {}
        ahead: list[StreamId] = []
        for stream, head in heads.items():
            asked = self._asked(stream)
            if head.sequence > asked.sequence:
                ahead.append(stream)
            elif head.sequence == asked.sequence and head.hash != asked.hash and len(self._heads) < max_heads:
                self._contradict(stream, head)
        ahead.sort(key=lambda s: (s.ordinal, s))
        taken = ahead[: max_heads - len(self._heads)]
        self._more = len(taken) < len(ahead)
        self._heads.update((stream, heads[stream]) for stream in taken)
        self._waiting: dict[PeerId, deque[tuple[StreamId, int]]] = {}
        for stream in taken:
            self._waiting.setdefault(stream.peer, deque()).append((stream, self._asked(stream).sequence + 1))
        self._reached: dict[PeerId, Hlc] = {}  # how far the page has come, or what comes first
        self._turn: PeerId | None = None

    def next_read(self) -> Read | None:
        """Return what to read next, or None when the page is full or complete."""
        if not self._waiting:
            return None
        if self._segments and self._room < _ROOM_MIN:
            self._more = True
            return None
        self._turn = min(self._waiting, key=lambda peer: self._reached.get(peer, ZERO))
        stream, first = self._waiting[self._turn][0]
        if self._end(stream) < first:
            return Read(stream, first, 1)  # only to compare what lies before it
        if self._is_first_look():
            return Read(stream, first, 1)
        most = self._room if len(self._waiting) == 1 else min(self._room, _PART_BYTES)
        return Read(stream, first, most - SEGMENT_FRAME_BYTES)

    def add(self, segment: Segment | None) -> None:
        """Take what the last `next_read` found; None if the log has nothing there."""
        assert self._turn is not None
        looking = self._is_first_look()
        stream, first = self._take_turn(self._turn)
        if segment is None or segment.stream != stream or segment.first != first:
            return
        asked = self._asked(stream)
        if first == asked.sequence + 1 and asked.sequence > 0 and segment.previous != asked.hash:
            self._contradict(stream, Head(asked.sequence, segment.previous))
            return
        end = self._end(stream)
        if end < first:
            return
        if looking:
            self._reached[stream.peer] = _clock_of(segment.events[0][0])
            self._wait(stream, first)
            return
        segment = replace(segment, events=segment.events[: end + 1 - first])
        part = fitting(segment, self._room)
        if part is None and not self._segments:
            part = replace(segment, events=segment.events[:1])  # one event goes whatever its size
        if part is None:
            self._wait(stream, first)
            self._room = 0
            return
        self._segments.append(part)
        self._reached[stream.peer] = _clock_of(part.events[-1][0])
        self._room -= segment_bytes(part)
        if last_of(part) < end:
            self._wait(stream, last_of(part) + 1)
            if len(part.events) < len(segment.events):
                self._room = 0

    def reply(self) -> PullReply:
        """Return the page."""
        return PullReply(self.request.id, tuple(self._segments), self._heads, more=self._more)

    def _is_first_look(self) -> bool:
        """Tell whether all that is wanted of this turn is when its next event was made."""
        return len(self._waiting) > 1 and self._turn not in self._reached

    def _take_turn(self, peer: PeerId) -> tuple[StreamId, int]:
        waiting = self._waiting[peer]
        taken = waiting.popleft()
        if not waiting:
            del self._waiting[peer]
        return taken

    def _wait(self, stream: StreamId, first: int) -> None:
        self._waiting.setdefault(stream.peer, deque()).appendleft((stream, first))

    def _end(self, stream: StreamId) -> int:
        """Return the last sequence that is handed on."""
        return self._agreed.get(stream, self._heads[stream]).sequence

    def _asked(self, stream: StreamId) -> Head:
        """Return the asker's head of a stream; of a peer that is not concerned, one that nothing exceeds."""
        streams = self.request.positions.get(stream.peer)
        return _NOT_ASKED if streams is None else streams.get(stream, NOTHING)

    def _contradict(self, stream: StreamId, ours: Head) -> None:
        self.forks.append((stream, ours.sequence, self._asked(stream).hash))
        self._heads[stream] = ours


def _clock_of(header: bytes) -> Hlc:
    try:
        return parse_header(header).hlc
    except ProtocolError:
        return ZERO  # the asker will find it out


_NOT_ASKED = Head(2**62, b"")
