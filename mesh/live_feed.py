"""Own events on their way out, and others' live events on their way into the log.

`LiveFeed` sends the first event after a pause at once and lets later ones gather while a send is under way.
`Intake` knows what was handed to the log and is not durable yet, so that a burst is not taken for a gap.
Both drop beyond a bound: a live event is a hint, and digests find what is missing.  Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from mesh.digests import Live, Sender, encode_live
from mesh.effects import Channel, Publish
from mesh.engine_config import EngineConfig
from mesh.head_table import HeadTable
from mesh.ports import Segment
from mesh.segments import joined, last_of, packed, segment_bytes
from proto.streams import StreamId


class LiveFeed:
    """Batches own durable events into live messages."""

    def __init__(self, me: Sender, config: EngineConfig) -> None:
        self.dropped = 0
        self._me = me
        self._config = config
        self._waiting: list[Segment] = []
        self._bytes = 0
        self._under_way = 0
        self._not_before = 0

    def offer(self, segments: Sequence[Segment]) -> None:
        """Queue events, or drop and count them when too much waits."""
        size = sum(map(segment_bytes, segments))
        if self._waiting and self._bytes + size > self._config.live_backlog_bytes:
            self.dropped += sum(len(s.events) for s in segments)
            return
        self._waiting.extend(segments)
        self._bytes += size

    def flush(self, now: int) -> list[Publish]:
        """Return the messages that are due, none while a send is under way or company may come."""
        if not self._waiting or self._under_way or now < self._not_before:
            return []
        partitions: dict[int, list[Segment]] = {}
        for segment in joined(self._waiting):
            partitions.setdefault(segment.stream.partition, []).append(segment)
        self._waiting, self._bytes = [], 0
        out = [
            Publish(Channel.LIVE, encode_live(Live(self._me, tuple(group))), partition=partition)
            for partition, segments in partitions.items()
            for group in packed(segments, self._config.page_bytes)
        ]
        self._under_way = len(out)
        self._not_before = now + self._config.coalesce_ms
        return out

    def sent(self) -> None:
        """Note that one message has left, or was given up."""
        self._under_way = max(0, self._under_way - 1)

    def clear(self) -> None:
        """Drop what waits: nobody can hear it.  Messages under way are still reported."""
        self.dropped += sum(len(s.events) for s in self._waiting)
        self._waiting, self._bytes = [], 0

    def deadline(self) -> int | None:
        """Return when a flush is due by time alone."""
        return self._not_before if self._waiting and not self._under_way else None


@dataclass(frozen=True, slots=True)
class Sorted:
    """What became of received segments.

    Args:
        fresh: to be given to the log, in order.
        gaps: streams of which something before is missing, or differs.
        dropped: events thrown away because too much waits.
    """

    fresh: tuple[Segment, ...]
    gaps: tuple[StreamId, ...]
    dropped: int


class Intake:
    """What was handed to the log and is not reported durable yet."""

    def __init__(self, config: EngineConfig, heads: HeadTable) -> None:
        self._config = config
        self._heads = heads
        self._expected: dict[StreamId, int] = {}
        self._under_way: Counter[StreamId] = Counter()
        self._bytes = 0

    def sort(self, segments: Sequence[Segment]) -> Sorted:
        """Tell fresh live segments from known ones and gaps, and expect the fresh ones.

        A segment that contradicts the head held here counts as a gap: a pull then shows whether two events
        claim one place, on better evidence than a hint.
        """
        fresh: list[Segment] = []
        gaps: list[StreamId] = []
        dropped = 0
        for segment in segments:
            stream, head = segment.stream, self._heads.get(segment.stream)
            reached = max(head.sequence, self._expected.get(stream, 0))
            if last_of(segment) <= reached:
                continue
            joins = segment.first != head.sequence + 1 or segment.previous == head.hash
            if segment.first > reached + 1 or not joins:
                gaps.append(stream)
            elif self._bytes + segment_bytes(segment) > self._config.intake_bytes:
                dropped += len(segment.events)
            else:
                fresh.append(segment)
                self.expect((segment,))
        return Sorted(tuple(fresh), tuple(gaps), dropped)

    def expect(self, segments: Sequence[Segment]) -> None:
        """Count segments as handed to the log."""
        for segment in segments:
            self._expected[segment.stream] = max(self._expected.get(segment.stream, 0), last_of(segment))
            self._under_way[segment.stream] += 1
            self._bytes += segment_bytes(segment)

    def settled(self, segments: Sequence[Segment]) -> None:
        """Count segments as done with: durable, refused or failed."""
        for segment in segments:
            self._bytes -= segment_bytes(segment)
            self._under_way[segment.stream] -= 1
            if not self._under_way[segment.stream]:
                del self._under_way[segment.stream], self._expected[segment.stream]
