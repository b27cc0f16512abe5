"""Snapshots of the FAISS index: whatever is wrong with the file, nothing of it is used and nothing is raised."""

from __future__ import annotations

import stat
from pathlib import Path

import numpy as np
import pytest

from node.faiss_index import FaissIndexes
from node.vector_index import IndexKey
from proto.ids import TenantId

DIM = 8
KEY: IndexKey = (TenantId(b"t" * 16), 0)


@pytest.fixture
def snapshot(tmp_path: Path) -> Path:
    indexes = FaissIndexes()
    rows = np.eye(DIM, dtype=np.float32)
    indexes.add(KEY, np.arange(DIM, dtype=np.int64), rows)
    indexes.save(tmp_path / "vectors", b"stamp")
    return tmp_path / "vectors"


def refuses(path: Path, dimensions: int = DIM) -> bool:
    """Tell whether a load gives nothing and leaves an index that works."""
    indexes = FaissIndexes()
    row = np.ones((1, DIM), dtype=np.float32)
    indexes.add(KEY, np.array([77]), row)
    refused = indexes.load(path, dimensions) is None
    if refused:
        assert indexes.ntotal(KEY) == 0
        indexes.add(KEY, np.array([78]), row)
        assert indexes.search(KEY, row[0], 5)[0].tolist() == [78]
    return refused


def test_a_whole_snapshot_is_taken(snapshot: Path) -> None:
    assert not refuses(snapshot)


def test_a_missing_file_or_a_directory_is_no_snapshot(tmp_path: Path) -> None:
    assert refuses(tmp_path / "absent")
    assert refuses(tmp_path)


def test_a_file_cut_anywhere_is_refused(snapshot: Path) -> None:
    data = snapshot.read_bytes()
    for size in (*range(80), len(data) // 2, len(data) - 33, len(data) - 1):
        snapshot.write_bytes(data[:size])
        assert refuses(snapshot), size


def test_a_flipped_bit_anywhere_is_refused(snapshot: Path) -> None:
    data = snapshot.read_bytes()
    for at in (*range(0, len(data), 7), len(data) - 1):
        changed = bytearray(data)
        changed[at] ^= 0x10
        snapshot.write_bytes(changed)
        assert refuses(snapshot), at


def test_zeros_or_more_bytes_than_were_written_are_refused(snapshot: Path) -> None:
    data = snapshot.read_bytes()
    for changed in (bytes(len(data)), data + b"\0", data[:40] + bytes(len(data) - 40)):
        snapshot.write_bytes(changed)
        assert refuses(snapshot)


def test_a_snapshot_of_another_dimension_is_refused(snapshot: Path) -> None:
    assert refuses(snapshot, dimensions=DIM + 1)


def test_saving_replaces_the_file_whole_and_leaves_no_other(snapshot: Path) -> None:
    indexes = FaissIndexes()
    indexes.save(snapshot, b"of nothing")
    assert FaissIndexes().load(snapshot, DIM) == b"of nothing"
    assert [p.name for p in snapshot.parent.iterdir()] == ["vectors"]
    assert stat.S_IMODE(snapshot.stat().st_mode) == 0o600
