"""Changes one thing in the default ONNX model: look words up first, widen them to float32 afterwards.

The model says "widen the int8 table of words, then look up".  ONNX Runtime does the first part once and keeps
the result: 47 MB for 30,522 words, of which a text needs a few rows.  Looking up first gives the same numbers,
bit for bit, from 12 MB.  Works on the protobuf wire format (onnx.proto: ModelProto.graph = 7, GraphProto.node
= 1, NodeProto.input = 1, output = 2), so that no ONNX library is needed at run time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

_MODEL_GRAPH: Final = 7
_GRAPH_NODE: Final = 1
_NODE_INPUT: Final = 1
_NODE_OUTPUT: Final = 2
_VARINT, _FIXED64, _DELIMITED, _FIXED32 = 0, 1, 2, 5


class _Field(NamedTuple):
    """One field of a message: all of it, and its content where that is length-delimited."""

    number: int
    whole: memoryview
    body: memoryview


def look_up_before_widening(model: bytes, table: str) -> bytes:
    """Turn `Gather(Mul(Cast(table_q), table_scale), ids)` inside out.

    Args:
        model: a serialised ModelProto in which `{table}_f = Cast({table}_q)`, `{table} = Mul({table}_f,
            {table}_scale)` with one scale a row, and `{table}` is only looked up, along its rows.
        table: name of the widened table.

    Returns:
        The model with the same outputs; byte for byte the same model where it has no such table.

    Raises:
        ValueError: the bytes are no protobuf message.
    """
    parts: list[bytes | memoryview] = []
    for field in _fields(memoryview(model)):
        if field.number == _MODEL_GRAPH:
            graph = _rewrite(field.body, table)
            parts += [_varint(_MODEL_GRAPH << 3 | _DELIMITED), _varint(len(graph)), graph]
        else:
            parts.append(field.whole)
    return b"".join(parts)


def _rewrite(graph: memoryview, table: str) -> bytes:
    parts: list[bytes | memoryview] = []
    widen = scale = None
    for field in _fields(graph):
        inputs, outputs = _names(field) if field.number == _GRAPH_NODE else ([], [])
        if outputs == [f"{table}_f"]:
            widen = field.body
        elif outputs == [table]:
            scale = field.body
        elif inputs[:1] == [table] and widen is not None and scale is not None:
            ids, result = inputs[1], outputs[0]
            parts += [
                _node(field.body, [f"{table}_q", ids], f"{result}_q"),
                _node(field.body, [f"{table}_scale", ids], f"{result}_scale"),
                _node(widen, [f"{result}_q"], f"{result}_f"),
                _node(scale, [f"{result}_f", f"{result}_scale"], result),
            ]
        else:
            parts.append(field.whole)
    return b"".join(parts)


def _names(node: _Field) -> tuple[list[str], list[str]]:
    """Return the inputs and outputs of a node."""
    names: dict[int, list[str]] = {_NODE_INPUT: [], _NODE_OUTPUT: []}
    for field in _fields(node.body):
        if field.number in names:
            names[field.number].append(str(field.body, "utf-8"))
    return names[_NODE_INPUT], names[_NODE_OUTPUT]


def _node(like: memoryview, inputs: list[str], output: str) -> bytes:
    """Return a node's field for the graph: the operation and attributes of `like`, wired otherwise."""
    wires = [(_NODE_INPUT, name) for name in inputs] + [(_NODE_OUTPUT, output)]
    parts: list[bytes | memoryview] = [_delimited(number, name.encode()) for number, name in wires]
    parts += [f.whole for f in _fields(like) if f.number not in (_NODE_INPUT, _NODE_OUTPUT, 3)]  # 3: its name
    return _delimited(_GRAPH_NODE, b"".join(parts))


def _delimited(number: int, body: bytes) -> bytes:
    return _varint(number << 3 | _DELIMITED) + _varint(len(body)) + body


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _fields(message: memoryview) -> Iterator[_Field]:
    at = 0
    while at < len(message):
        start = at
        tag, at = _read_varint(message, at)
        kind, body = tag & 7, message[:0]
        if kind == _VARINT:
            _, at = _read_varint(message, at)
        elif kind == _DELIMITED:
            size, at = _read_varint(message, at)
            body, at = message[at : at + size], at + size
        elif kind in (_FIXED64, _FIXED32):
            at += 8 if kind == _FIXED64 else 4
        else:
            raise ValueError(f"wire type {kind} at byte {start} is not protobuf")
        if at > len(message):
            raise ValueError(f"the field at byte {start} ends at {at}, the message has {len(message)} bytes")
        yield _Field(tag >> 3, message[start:at], body)


def _read_varint(message: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(message) and shift < 64:
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    raise ValueError(f"the number before byte {at} does not end")
