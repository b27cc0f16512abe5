"""One page for a peer that is behind: which ranges to read, what fits, and what the reply says.

Pure: the caller reads.  Older epochs go first, so that the links between epochs are known before what they
cover.  A stream whose stored hash contradicts the asker's is not sent: the reply shows the hash instead, and
the asker sees the fork.  Of a stream that is quarantined nothing goes out beyond what is agreed.
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
from proto.streams import StreamId

_ROOM_MIN = 1024  # less room than this is not worth a read


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
        self._waiting = deque((stream, self._asked(stream).sequence + 1) for stream in taken)

    def next_read(self) -> Read | None:
        """Return what to read next, or None when the page is full or complete."""
        if not self._waiting:
            return None
        if self._segments and self._room < _ROOM_MIN:
            self._more = True
            return None
        stream, first = self._waiting[0]
        if self._end(stream) < first:
            return Read(stream, first, 1)  # only to compare what lies before it
        return Read(stream, first, self._room - SEGMENT_FRAME_BYTES)

    def add(self, segment: Segment | None) -> None:
        """Take what the last `next_read` found; None if the log has nothing there."""
        stream, first = self._waiting.popleft()
        if segment is None or segment.stream != stream or segment.first != first:
            return
        asked = self._asked(stream)
        if first == asked.sequence + 1 and asked.sequence > 0 and segment.previous != asked.hash:
            self._contradict(stream, Head(asked.sequence, segment.previous))
            return
        end = self._end(stream)
        if end < first:
            return
        segment = replace(segment, events=segment.events[: end + 1 - first])
        part = fitting(segment, self._room)
        if part is None and not self._segments:
            part = replace(segment, events=segment.events[:1])  # one event goes whatever its size
        if part is None:
            self._waiting.appendleft((stream, first))
            self._room = 0
            return
        self._segments.append(part)
        self._room -= segment_bytes(part)
        if last_of(part) < end:
            self._waiting.appendleft((stream, last_of(part) + 1))
            if len(part.events) < len(segment.events):
                self._room = 0

    def reply(self) -> PullReply:
        """Return the page."""
        return PullReply(self.request.id, tuple(self._segments), self._heads, more=self._more)

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


_NOT_ASKED = Head(2**62, b"")
