"""An event log in memory: a verified fake, held to the same contract suite as the SQLite one.

`MemoryDisk` is what survives a crash, `MemoryLog` one process life on it.  Own events are staged until
`sync`; what was not synced is gone when the log is dropped and opened again.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from mesh.ports import Applied, Head, Segment
from mesh.segments import NOTHING, SEGMENT_FRAME_BYTES, event_bytes, last_of, restore_events, segment_of
from proto.errors import ProtocolError
from proto.events import NO_HASH, Event
from proto.ids import PeerId
from proto.streams import Position, StreamId
from tests.support.sealed import noted, opened


class MemoryDisk:
    """Streams as lists of events: index 0 holds sequence 1."""

    def __init__(self, streams: dict[StreamId, list[Event]] | None = None) -> None:
        self.streams = streams or {}
        self._heads: dict[StreamId, Head] = {}  # as last asked for

    def copy(self) -> MemoryDisk:
        """Return what a backup or a copied directory holds."""
        return MemoryDisk({stream: list(events) for stream, events in self.streams.items()})

    def head(self, stream: StreamId) -> Head:
        """Return where a stream ends; sequence 0 if it is not held."""
        events = self.streams.get(stream)
        if not events:
            return NOTHING
        known = self._heads.get(stream)
        if known is None or known.sequence != len(events) or known.hash != events[-1].hash:
            known = self._heads[stream] = Head(len(events), events[-1].hash)
        return known

    def heads(self) -> dict[StreamId, Head]:
        """Return where every stream ends."""
        return {stream: self.head(stream) for stream, events in self.streams.items() if events}

    def read(self, stream: StreamId, first: int, max_bytes: int) -> Segment | None:
        """Return events from `first` on, at least one, about `max_bytes`; None if there are none."""
        events = self.streams.get(stream, [])
        if not 1 <= first <= len(events):
            return None
        taken: list[Event] = []
        size = SEGMENT_FRAME_BYTES
        for event in events[first - 1 :]:
            size += event_bytes((event.header_bytes, event.salt, event.payload))
            if taken and size > max_bytes:
                break
            taken.append(event)
        return segment_of(taken, events[first - 2].hash if first > 1 else NO_HASH)


class MemoryLog:
    """One process life.  Satisfies `mesh.ports.EventLog`; `apply_now` is the same without waiting.

    Args:
        peer: id of this peer.
        disk: what earlier lives left.
        rng: for epoch, salts and payloads.
        payload_bytes: size of own payloads.
    """

    def __init__(
        self, peer: PeerId, disk: MemoryDisk, rng: random.Random, *, payload_bytes: int = 20
    ) -> None:
        self.peer = peer
        self.disk = disk
        self._rng = rng
        self._payload_bytes = payload_bytes
        self._staged: list[Event] = []
        self.previous = self._newest_own()
        self.stream = self._epoch()

    # -- own events

    def append(self) -> Position:
        """Stage an own event; the first of a life opens its epoch.  Returns where it will be."""
        if not self._staged and self.stream not in self.disk.streams:
            self._staged.append(opened(self.stream, self.previous, self._rng))
        held = self.disk.streams.get(self.stream, [])
        before = self._staged[-1] if self._staged else held[-1]
        sequence = before.header.sequence + 1
        payload = self._rng.randbytes(self._payload_bytes)
        self._staged.append(noted(self.stream, sequence, before.hash, payload, self._rng))
        return Position(self.stream, sequence)

    def staged(self) -> tuple[Segment, ...]:
        """Return what the next `sync` will make durable."""
        if not self._staged:
            return ()
        held = self.disk.streams.get(self.stream, [])
        return (segment_of(self._staged, held[-1].hash if held else NO_HASH),)

    def sync(self) -> tuple[Segment, ...]:
        """Group commit: make the staged events durable and return them."""
        segments = self.staged()
        if segments:
            self.disk.streams.setdefault(self.stream, []).extend(self._staged)
            self._staged = []
        return segments

    # -- the port

    def heads(self) -> dict[StreamId, Head]:
        return self.disk.heads()

    def apply_now(self, segments: Sequence[Segment]) -> Applied:
        forks: list[tuple[StreamId, int]] = []
        for segment in segments:
            try:
                events = restore_events(segment)
            except ProtocolError:
                continue
            place = self._contradiction(segment, events)
            if place is not None:
                forks.append((segment.stream, place))
            elif self._extends(segment):
                held = self.disk.streams.setdefault(segment.stream, [])
                held.extend(events[len(held) + 1 - segment.first :])
        touched = {segment.stream for segment in segments} & self.disk.streams.keys()
        return Applied({stream: self.disk.head(stream) for stream in touched}, tuple(forks))

    async def read(self, stream: StreamId, first: int, max_bytes: int) -> Segment | None:
        return self.disk.read(stream, first, max_bytes)

    async def apply(self, segments: Sequence[Segment]) -> Applied:
        return self.apply_now(segments)

    # -- rules that a planted bug overrides

    def _epoch(self) -> StreamId:
        """Return the stream of this process life: never one used before."""
        ordinal = 0 if self.previous is None else self.previous.stream.ordinal + 1
        return StreamId(self.peer, 0, ordinal, self._rng.randbytes(8))

    def _extends(self, segment: Segment) -> bool:
        """Tell whether something of a segment that contradicts nothing may be kept."""
        head = self.disk.head(segment.stream)
        return (
            segment.stream != self.stream
            and segment.first <= head.sequence + 1
            and last_of(segment) > head.sequence
        )

    # -- inside

    def _contradiction(self, segment: Segment, events: Sequence[Event]) -> int | None:
        """Return the first place at which a segment says otherwise than what is held."""
        held = self.disk.streams.get(segment.stream, [])
        if 2 <= segment.first <= len(held) + 1 and held[segment.first - 2].hash != segment.previous:
            return segment.first - 1
        for event in events:
            sequence = event.header.sequence
            if sequence <= len(held) and held[sequence - 1].hash != event.hash:
                return sequence
        if segment.stream == self.stream and last_of(segment) > len(held):
            return len(held) + 1  # somebody else writes in the epoch that we write
        return None

    def _newest_own(self) -> Position | None:
        own = [s for s, held in self.disk.streams.items() if s.peer == self.peer and held]
        newest = max(own, default=None)
        return None if newest is None else Position(newest, len(self.disk.streams[newest]))
