"""What every event log must do: one suite, run against each adapter.

A test class derives from `EventLogSuite` and says how a storage is made.  `Storage.open` begins a process
life on it and leaving the context ends that life as a kill would; opening again is a restart.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import Protocol

from mesh.ports import EventLog, Head, Segment
from mesh.segments import head_of
from proto.ids import PeerId
from proto.streams import Position, StreamId
from tests.support.sealed import events, segment, stream

A, B = stream(101), stream(102)


class OpenLog(EventLog, Protocol):
    """A log with a way to write own events."""

    async def append(self) -> Position:
        """Append any own event; it is durable when this returns."""
        ...


class Storage(Protocol):
    """Where the log of one peer lives."""

    peer: PeerId

    def open(self) -> AbstractAsyncContextManager[OpenLog]:
        """Begin a process life."""
        ...


Case = Callable[[OpenLog], Awaitable[None]]


class EventLogSuite(ABC):
    """Derive, name the class `Test...`, and give a new empty storage for each test."""

    @abstractmethod
    def storage(self) -> Storage: ...

    def run(self, *lives: Case) -> None:
        """Run each case in a process life of its own on one storage."""

        async def all_lives() -> None:
            storage = self.storage()
            for case in lives:
                async with storage.open() as log:
                    await case(log)

        asyncio.run(all_lives())

    # -- keeping

    def test_a_stream_is_kept_from_its_first_event(self) -> None:
        async def case(log: OpenLog) -> None:
            sent = segment(events(A, 5))
            result = await log.apply([sent])
            assert result.heads[A] == head_of(sent)
            assert log.heads()[A] == head_of(sent)
            assert result.forks == ()

        self.run(case)

    def test_applying_twice_changes_nothing(self) -> None:
        async def case(log: OpenLog) -> None:
            sent = segment(events(A, 5))
            await log.apply([sent])
            before = log.heads()
            result = await log.apply([sent, sent])
            assert log.heads() == before
            assert result.forks == ()

        self.run(case)

    def test_of_an_overlapping_segment_only_what_is_new_is_kept(self) -> None:
        async def case(log: OpenLog) -> None:
            all_events = events(A, 8)
            await log.apply([segment(all_events, 1, 5)])
            await log.apply([segment(all_events, 3, 8)])
            assert log.heads()[A] == Head(8, all_events[-1].hash)
            assert await read_all(log, A) == segment(all_events)

        self.run(case)

    def test_a_segment_beyond_a_gap_keeps_nothing(self) -> None:
        async def case(log: OpenLog) -> None:
            all_events = events(A, 8)
            await log.apply([segment(all_events, 2, 8)])
            assert A not in log.heads()
            await log.apply([segment(all_events, 1, 3)])
            await log.apply([segment(all_events, 5, 8)])
            assert log.heads()[A] == Head(3, all_events[2].hash)

        self.run(case)

    def test_segments_of_one_call_may_follow_on_each_other(self) -> None:
        async def case(log: OpenLog) -> None:
            a, b = events(A, 6), events(B, 4)
            await log.apply([segment(a, 1, 2), segment(b), segment(a, 3, 4), segment(a, 5, 6)])
            assert log.heads() == {A: Head(6, a[-1].hash), B: Head(4, b[-1].hash)}

        self.run(case)

    def test_a_kind_that_no_version_knows_is_kept_and_read(self) -> None:
        async def case(log: OpenLog) -> None:
            all_events = events(A, 3)
            assert all_events[1].header.kind == "TestNoted"
            await log.apply([segment(all_events)])
            assert await read_all(log, A) == segment(all_events)

        self.run(case)

    # -- refusing

    def test_a_damaged_event_is_not_kept_and_harms_no_other_segment(self) -> None:
        async def case(log: OpenLog) -> None:
            good, bad = events(A, 3), segment(events(B, 3))
            header, salt, payload = bad.events[1]
            for damaged in ((header, salt, b"another payload"), (header[:-1], salt, payload)):
                spoilt = replace(bad, events=(bad.events[0], damaged, bad.events[2]))
                await log.apply([spoilt, segment(good)])
                assert log.heads()[A] == Head(3, good[-1].hash)
                assert log.heads().get(B, Head(0, b"")).sequence <= 1

        self.run(case)

    def test_an_event_at_another_place_than_its_header_names_is_not_kept(self) -> None:
        async def case(log: OpenLog) -> None:
            moved = replace(segment(events(A, 3)), stream=B)
            shifted = replace(segment(events(A, 3), 2, 3), first=1, previous=bytes(32))
            await log.apply([moved, shifted])
            assert log.heads() == {}

        self.run(case)

    def test_another_event_at_a_held_place_is_a_fork_and_changes_nothing(self) -> None:
        async def case(log: OpenLog) -> None:
            ours, theirs = events(A, 4, seed=1, shared=3), events(A, 6, seed=2, shared=3)
            await log.apply([segment(ours)])
            result = await log.apply([segment(theirs, 4, 6)])
            assert result.forks == ((A, 4),)
            assert log.heads()[A] == Head(4, ours[-1].hash)
            assert await read_all(log, A) == segment(ours)

        self.run(case)

    def test_a_segment_whose_chain_does_not_join_the_head_keeps_nothing(self) -> None:
        async def case(log: OpenLog) -> None:
            ours, theirs = events(A, 4, seed=1, shared=3), events(A, 6, seed=2, shared=3)
            await log.apply([segment(ours)])
            result = await log.apply([segment(theirs, 5, 6)])
            assert {forked for forked, _ in result.forks} == {A}
            assert log.heads()[A] == Head(4, ours[-1].hash)

        self.run(case)

    def test_the_stream_of_this_process_life_is_never_extended_from_outside(self) -> None:
        async def case(log: OpenLog) -> None:
            position = await log.append()
            own = await read_all(log, position.stream)
            head = log.heads()[position.stream]
            foreign = events(position.stream, head.sequence + 3)
            longer = segment(foreign, head.sequence + 1)
            await log.apply([longer, replace(longer, previous=head.hash), segment(foreign)])
            assert log.heads()[position.stream] == head
            assert await read_all(log, position.stream) == own

        self.run(case)

    # -- reading

    def test_what_is_read_is_what_was_applied_byte_for_byte(self) -> None:
        async def case(log: OpenLog) -> None:
            sent = segment(events(A, 20, size=3_000))
            await log.apply([sent])
            assert await read_all(log, A) == sent

        self.run(case)

    def test_reading_from_the_middle_names_the_hash_before(self) -> None:
        async def case(log: OpenLog) -> None:
            all_events = events(A, 9)
            await log.apply([segment(all_events)])
            assert await log.read(A, 4, 10**6) == segment(all_events, 4)

        self.run(case)

    def test_a_read_is_bounded_and_returns_at_least_one_event(self) -> None:
        async def case(log: OpenLog) -> None:
            all_events = events(A, 30, size=1_000)
            await log.apply([segment(all_events)])
            one = await log.read(A, 2, 1)
            some = await log.read(A, 2, 10_000)
            assert one == segment(all_events, 2, 2)
            assert some is not None
            assert 5 <= len(some.events) <= 12

        self.run(case)

    def test_reading_where_nothing_is_returns_none(self) -> None:
        async def case(log: OpenLog) -> None:
            await log.apply([segment(events(A, 3))])
            assert await log.read(A, 4, 10**6) is None
            assert await log.read(B, 1, 10**6) is None

        self.run(case)

    def test_own_events_are_read_like_any_other(self) -> None:
        async def case(log: OpenLog) -> None:
            positions = [await log.append() for _ in range(3)]
            own = positions[0].stream
            assert own == positions[2].stream
            assert own.peer == self.storage().peer
            whole = await read_all(log, own)
            assert whole is not None
            assert head_of(whole) == log.heads()[own]
            assert log.heads()[own].sequence == positions[2].sequence

        self.run(case)

    # -- across process lives

    def test_heads_and_events_are_there_after_a_restart(self) -> None:
        kept: dict[StreamId, Head] = {}
        read: list[Segment | None] = []

        async def first(log: OpenLog) -> None:
            own = await log.append()
            await log.apply([segment(events(A, 7)), segment(events(B, 2))])
            kept.update(log.heads())
            read.append(await read_all(log, own.stream))

        async def second(log: OpenLog) -> None:
            assert log.heads() == kept
            assert await read_all(log, A) == segment(events(A, 7))
            own = next(s for s in kept if s not in (A, B))
            assert [await read_all(log, own)] == read

        self.run(first, second)

    def test_each_process_life_writes_a_stream_of_its_own(self) -> None:
        streams: list[StreamId] = []

        async def life(log: OpenLog) -> None:
            streams.append((await log.append()).stream)

        self.run(life, life, life)
        assert len(set(streams)) == 3
        assert [s.ordinal for s in streams] == sorted(s.ordinal for s in streams)

    def test_an_older_epoch_of_this_peer_gets_back_what_others_hold_of_it(self) -> None:
        async def life(log: OpenLog) -> None:
            await log.append()
            lost = events(StreamId(self.storage().peer, 0, 77, b"elsewher"), 4)
            result = await log.apply([segment(lost)])
            assert result.forks == ()
            assert log.heads()[lost[0].header.stream] == Head(4, lost[-1].hash)

        self.run(life)


async def read_all(log: OpenLog, of: StreamId) -> Segment | None:
    """Return a whole stream by reading it in steps."""
    whole: Segment | None = None
    while True:
        first = 1 if whole is None else whole.first + len(whole.events)
        part = await log.read(of, first, 4_000)
        if part is None:
            return whole
        whole = part if whole is None else replace(whole, events=whole.events + part.events)
