"""The heads file: two slots, overwritten in turn, each believed only with its checksum."""

from __future__ import annotations

from pathlib import Path

import pytest

from node.heads_file import SLOT_BYTES, HeadsFile, RecordedHead
from tests.support.sealed import stream


def _head(sequence: int) -> RecordedHead:
    return RecordedHead(stream(1), sequence, bytes([sequence]) * 32)


def _reopened(path: Path) -> RecordedHead | None:
    file = HeadsFile(path)
    try:
        return file.recorded
    finally:
        file.close()


def test_a_new_file_remembers_nothing(tmp_path: Path) -> None:
    assert _reopened(tmp_path / "heads") is None


def test_the_last_head_is_remembered_and_the_file_keeps_its_size(tmp_path: Path) -> None:
    path = tmp_path / "heads"
    file = HeadsFile(path)
    for sequence in range(1, 8):
        file.record(_head(sequence))
    file.close()
    assert _reopened(path) == _head(7)
    assert path.stat().st_size == 2 * SLOT_BYTES


@pytest.mark.parametrize("broken", [0, 1])
def test_with_one_slot_damaged_the_other_is_believed(tmp_path: Path, broken: int) -> None:
    path = tmp_path / "heads"
    file = HeadsFile(path)
    file.record(_head(1))  # slot 1
    file.record(_head(2))  # slot 0
    file.close()
    data = bytearray(path.read_bytes())
    data[broken * SLOT_BYTES + 20] ^= 1
    path.write_bytes(data)
    assert _reopened(path) == _head(1 if broken == 0 else 2)


def test_with_both_slots_damaged_nothing_is_believed_and_writing_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "heads"
    file = HeadsFile(path)
    file.record(_head(1))
    file.record(_head(2))
    file.close()
    path.write_bytes(b"\xff" * 2 * SLOT_BYTES)
    file = HeadsFile(path)
    assert file.recorded is None
    file.record(_head(3))
    file.close()
    assert _reopened(path) == _head(3)


def test_a_truncated_file_is_made_whole_again(tmp_path: Path) -> None:
    path = tmp_path / "heads"
    path.write_bytes(b"HYH1")
    file = HeadsFile(path)
    file.record(_head(4))
    file.close()
    assert _reopened(path) == _head(4)
