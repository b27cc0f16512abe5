"""Lines out of chunks, with a bound."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_gateway.lines import LineSplitter, Oversized


def split(data: bytes, limit: int = 1000, size: int = 7) -> list[bytes | Oversized]:
    splitter = LineSplitter(limit)
    lines: list[bytes | Oversized] = []
    for start in range(0, len(data), size):
        lines += splitter.feed(data[start : start + size])
    return lines + splitter.finish()


@given(st.lists(st.binary(max_size=60).filter(lambda b: b"\n" not in b)), st.integers(1, 70))
def test_lines_do_not_depend_on_how_they_are_cut_into_chunks(lines: list[bytes], size: int) -> None:
    assert split(b"".join(line + b"\n" for line in lines), 60, size) == lines


def test_a_last_line_without_newline_is_a_line() -> None:
    assert split(b"a\nbc") == [b"a", b"bc"]
    assert split(b"a\n") == [b"a"]
    assert split(b"") == []


def test_a_line_is_allowed_to_the_limit_and_not_beyond() -> None:
    assert split(b"a" * 1000 + b"\nb\n") == [b"a" * 1000, b"b"]
    assert split(b"a" * 1001 + b"\nb\n") == [Oversized(1001, None), b"b"]
    assert split(b"a" * 1001) == [Oversized(1001, None)]


def test_an_oversized_line_is_not_kept() -> None:
    splitter = LineSplitter(1000)
    for _ in range(1000):
        assert splitter.feed(b"a" * 1000) == []
        assert len(splitter._buffer) <= 1000
    assert splitter.feed(b"\nb\n") == [Oversized(1_000_000, None), b"b"]


@pytest.mark.parametrize("id", [0, 12, -3, "abc", "server-1"])
@pytest.mark.parametrize(
    "order", [["jsonrpc", "id", "params"], ["id", "params"], ["params", "jsonrpc", "id"]]
)
def test_the_id_of_an_oversized_message_is_read_where_clients_put_it(id: Any, order: list[str]) -> None:
    members = {"jsonrpc": "2.0", "id": id, "params": {"content": "x" * 5000, "id": 99}}
    for separators in ((",", ":"), (", ", ": ")):
        data = json.dumps({name: members[name] for name in order}, separators=separators).encode()
        assert split(data + b"\n", size=100) == [Oversized(len(data), id)]


@pytest.mark.parametrize(
    "data",
    [
        json.dumps({"params": {"content": "x" * 5000, "id": 99}}).encode(),
        json.dumps({"params": {"id": 99, "content": "x" * 5000}}).encode(),
        json.dumps({"content": 'x"id":5' + "x" * 5000}).encode(),
        json.dumps([{"id": 5, "params": "x" * 5000, "jsonrpc": "2.0"}]).encode(),
        json.dumps({"id": None, "params": "x" * 5000}).encode(),
        json.dumps({"id": 1.5, "params": "x" * 5000}).encode(),
    ],
    ids=range(6),
)
def test_an_id_that_is_not_the_message_s_own_is_not_taken_for_it(data: bytes) -> None:
    assert split(data + b"\n", size=100) == [Oversized(len(data), None)]
