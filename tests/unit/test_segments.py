"""Measuring, trimming, splitting, joining and checking segments."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mesh.ports import Head
from mesh.segments import (
    event_bytes,
    fitting,
    head_of,
    joined,
    last_of,
    packed,
    restore_events,
    segment_bytes,
    segment_of,
    split,
)
from proto.errors import ProtocolError
from tests.support.sealed import events, segment, stream

A, B = stream(1), stream(2)


def test_a_segment_knows_its_last_sequence_and_the_head_it_leads_to() -> None:
    all_events = events(A, 6)
    part = segment(all_events, 3, 5)
    assert last_of(part) == 5
    assert head_of(part) == Head(5, all_events[4].hash)


def test_events_become_a_segment_and_come_back() -> None:
    all_events = events(A, 4)
    assert restore_events(segment_of(all_events[1:], all_events[0].hash)) == tuple(all_events[1:])


def test_what_fits_is_a_prefix() -> None:
    whole = segment(events(A, 5, size=100))
    size = segment_bytes(whole)
    assert fitting(whole, size) is whole
    shorter = fitting(whole, size - 1)
    assert shorter is not None
    assert shorter == replace(whole, events=whole.events[:4])
    assert fitting(whole, event_bytes(whole.events[0])) is None


def test_a_segment_split_in_parts_is_joined_to_itself() -> None:
    whole = segment(events(A, 20, size=100), 3)
    parts = split(whole, 900)
    assert len(parts) > 2
    assert all(segment_bytes(part) <= 900 for part in parts)
    assert joined(parts) == [whole]


def test_an_event_larger_than_the_bound_goes_alone() -> None:
    whole = segment(events(A, 3, size=5_000))
    assert [len(part.events) for part in split(whole, 1_000)] == [1, 1, 1]


def test_only_neighbours_that_follow_on_each_other_are_joined() -> None:
    a, b = events(A, 6), events(B, 3)
    parts = [segment(a, 1, 2), segment(b), segment(a, 3, 4), segment(a, 6, 6)]
    assert joined(parts) == parts


def test_packing_keeps_order_and_the_size_of_each_message() -> None:
    parts = [segment(events(A, 9, size=200)), segment(events(B, 9, size=200))]
    groups = packed(parts, 1_500)
    assert all(sum(map(segment_bytes, group)) <= 1_500 for group in groups)
    assert joined(part for group in groups for part in group) == parts


def test_an_event_at_a_place_that_is_not_its_own_is_refused() -> None:
    good = segment(events(A, 3))
    for bad in (replace(good, stream=B), replace(good, first=2), replace(good, events=good.events[::-1])):
        with pytest.raises(ProtocolError):
            restore_events(bad)
