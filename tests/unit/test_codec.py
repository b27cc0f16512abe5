"""msgpack in and out: plain values only, within bounds."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgpack
import pytest

from proto.codec import DEPTH, decode, encode
from proto.errors import ProtocolError
from proto.limits import NATS_MESSAGE_BYTES


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def test_plain_values_come_back_with_arrays_as_tuples() -> None:
    value = {"none": None, "list": [1, -2, [True]], "bytes": b"\x00\xff", "text": "größer 🍄", "half": 0.5}
    assert decode(encode(value)) == {**value, "list": (1, -2, (True,))}


@pytest.mark.parametrize("value", ["\ud800", object(), {1: 2}.keys(), 2**64, {"deep": {"deeper": {1, 2}}}])
def test_a_value_without_a_wire_form_is_refused(value: Any) -> None:
    with pytest.raises(ProtocolError):
        encode(value)


def test_a_message_at_the_size_limit_is_taken_and_one_byte_more_is_refused() -> None:
    largest = encode(bytes(NATS_MESSAGE_BYTES - 5))
    assert len(largest) == NATS_MESSAGE_BYTES
    assert len(decode(largest)) == NATS_MESSAGE_BYTES - 5
    with pytest.raises(ProtocolError, match="limit"):
        decode(largest + b"\x00")
    with pytest.raises(ProtocolError, match="limit 3"):
        decode(b"\x93\x01\x01\x01", max_bytes=3)


def test_a_message_nested_to_the_limit_is_taken_and_one_deeper_is_refused() -> None:
    assert decode(msgpack.packb(nested(DEPTH))) is not None
    for depth in (DEPTH + 1, 5_000):
        with pytest.raises(ProtocolError):
            decode(b"\x91" * depth + b"\x01")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xc1",
        b"\x91",
        b"\x01\x01",
        b"\xa2\xff\xfe",
        b"\xdd\xff\xff\xff\xff",
        b"\x81\x01\x02",
        b"\x81\xc0\x02",
        b"\xc6\xff\xff\xff\xff",
    ],
)
def test_bytes_that_are_no_single_plain_message_are_refused(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode(data)


def test_extension_types_are_refused_wherever_they_stand() -> None:
    moment = msgpack.packb(datetime.now(UTC), datetime=True)
    other = msgpack.packb(msgpack.ExtType(7, b"data"))
    for extension in (moment, other):
        for data in (extension, b"\x91" + extension, b"\x81\xa1a" + extension):
            with pytest.raises(ProtocolError):
                decode(data)
