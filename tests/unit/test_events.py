"""Sealing, parsing and restoring events: bytes that are what they claim, or an error."""

from __future__ import annotations

from dataclasses import replace

import pytest

from proto.clock import Hlc
from proto.codec import decode, encode
from proto.errors import ProtocolError
from proto.events import (
    NO_HASH,
    PARTITION_MAX,
    SALT_BYTES,
    SEQUENCE_MAX,
    Event,
    chain_hash,
    parse_header,
    payload_digest,
    restore,
    seal,
)
from proto.ids import NO_TENANT
from proto.limits import EVENT_BYTES
from tests.support.sealed import NOBODY, events, stream

SALT = bytes(SALT_BYTES)


def sealed(payload: bytes = b"payload", sequence: int = 1, previous: bytes = NO_HASH) -> Event:
    at = stream(7, 3)
    return seal(at, sequence, Hlc(5, 6), "CellStored", NO_TENANT, NOBODY, payload, SALT, previous)


def with_field(index: int, value: object) -> bytes:
    fields = list(decode(sealed().header_bytes))
    fields[index] = value
    return encode(fields)


def test_a_sealed_event_is_restored_with_the_same_hash() -> None:
    event = sealed()
    assert restore(event.header_bytes, event.salt, event.payload, NO_HASH) == event


def test_a_header_names_its_place_time_and_payload() -> None:
    header = sealed(sequence=4).header
    assert header.position == (stream(7, 3), 4)
    assert header.hlc == Hlc(5, 6)
    assert header.payload_bytes == len(b"payload")
    assert header.payload_digest == payload_digest(SALT, b"payload")


def test_each_hash_depends_on_all_events_before_it() -> None:
    one, two = events(stream(1), 3, seed=1), events(stream(1), 3, seed=2)
    assert one[2].hash == chain_hash(one[1].hash, one[2].header_bytes)
    assert chain_hash(two[1].hash, one[2].header_bytes) != one[2].hash


def test_a_payload_other_than_the_header_names_is_refused() -> None:
    event = sealed()
    for salt, payload in (
        (event.salt, b"paylaod"),
        (event.salt, b"payload "),
        (b"x" * 16, b"payload"),
        (None, b"payload"),
        (b"x" * 15, b"payload"),
        (event.salt, None),
    ):
        with pytest.raises(ProtocolError):
            restore(event.header_bytes, salt, payload, NO_HASH)


def test_an_event_whose_payload_was_erased_keeps_its_hash() -> None:
    event = sealed()
    erased = restore(event.header_bytes, None, None, NO_HASH)
    assert erased == replace(event, salt=None, payload=None)


def test_an_event_at_the_size_limit_is_sealed_and_one_byte_more_is_refused() -> None:
    room = EVENT_BYTES - len(sealed(bytes(70_000)).header_bytes)
    largest = sealed(bytes(room))
    assert restore(largest.header_bytes, largest.salt, largest.payload, NO_HASH) == largest
    with pytest.raises(ProtocolError, match="limit"):
        sealed(bytes(room + 1))


def test_a_received_event_beyond_the_size_limit_is_refused() -> None:
    payload = bytes(EVENT_BYTES)
    header = with_field(12, len(payload))
    fields = list(decode(header))
    fields[11] = payload_digest(SALT, payload)
    with pytest.raises(ProtocolError, match="limit"):
        restore(encode(fields), SALT, payload, NO_HASH)


@pytest.mark.parametrize(
    ("index", "value"),
    [
        (0, 2),
        (0, True),
        (0, "1"),
        (1, b"short"),
        (1, "text that is sixteen"),
        (2, -1),
        (2, SEQUENCE_MAX + 1),
        (2, True),
        (3, b"seven.."),
        (4, PARTITION_MAX + 1),
        (5, 0),
        (5, 1.0),
        (6, -1),
        (7, None),
        (8, ""),
        (8, "k" * 41),
        (8, "größer"),
        (8, b"CellStored"),
        (9, bytes(15)),
        (10, bytes(17)),
        (11, bytes(31)),
        (12, -1),
    ],
)
def test_a_header_with_a_wrong_field_is_refused(index: int, value: object) -> None:
    with pytest.raises(ProtocolError):
        parse_header(with_field(index, value))


def test_a_header_of_another_shape_is_refused() -> None:
    fields = decode(sealed().header_bytes)
    for shape in (fields[:-1], (*fields, 1), (), {"version": 1}, 7):
        with pytest.raises(ProtocolError):
            parse_header(encode(shape))
