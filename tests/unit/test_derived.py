"""What is derived outside the database follows the log, also where a cell is written twice or wrongly."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from node.cell_columns import CellColumns
from node.derived import DerivedState
from node.faiss_index import FaissIndexes
from proto.payloads import CellStored
from tests.support.members import retire
from tests.support.replicas import (
    EAST,
    NORTH,
    SPACE,
    START_MS,
    TENANT,
    Peer,
    encoded,
    foreign,
    memory,
    vector,
)

KEY = TENANT, 0


class _Search:
    """A replica with its indexes."""

    def __init__(self, tmp_path: Path) -> None:
        self.peer = Peer(1)
        self.indexes, self.columns = FaissIndexes(), CellColumns()
        self.derived = DerivedState(self.indexes, self.columns, SPACE)
        self._snapshot = tmp_path / "snapshot"
        self.derived.load(self.peer.db, self._snapshot, 4)

    def receive(self, *memories: CellStored, number: int = 9, wall_ms: int = START_MS) -> None:
        """Apply memories of another peer in one transaction."""
        segment = foreign(*encoded(*memories), number=number, wall_ms=wall_ms)
        self.derived.take(self.peer.replica.write((), (segment,), START_MS * 1000).changes)

    def loaded(self) -> _Search:
        """Return the same, built from the database as at a start."""
        again = object.__new__(_Search)
        again.peer = self.peer
        again.indexes, again.columns = FaissIndexes(), CellColumns()
        again.derived = DerivedState(again.indexes, again.columns, SPACE)
        again.derived.load(self.peer.db, self._snapshot, 4)
        return again

    def north(self) -> list[int]:
        """Return the cells that point north."""
        ids, cosines = self.indexes.search(KEY, np.array([1, 0, 0, 0], dtype=np.float32), 10)
        return sorted(int(i) for i, cosine in zip(ids, cosines, strict=True) if cosine > 0.9)


def test_vectors_of_another_size_under_the_name_of_the_space_are_not_indexed(tmp_path: Path) -> None:
    search = _Search(tmp_path)
    search.receive(memory("a"), memory("b", vector=vector(100, 0)), memory("c"))
    assert search.north() == search.loaded().north() == [1, 3]


def test_a_cell_whose_earlier_event_comes_later_is_found_by_what_that_one_says(tmp_path: Path) -> None:
    search = _Search(tmp_path)
    search.receive(memory("a"), number=8, wall_ms=START_MS + 1)
    assert search.north() == [1]
    search.receive(memory("a", vector=EAST), number=9)
    assert search.north() == search.loaded().north() == []
    assert search.indexes.ntotal(KEY) == 1


def test_a_cell_that_is_written_twice_in_one_transaction_is_indexed_once(tmp_path: Path) -> None:
    search = _Search(tmp_path)
    late = foreign(*encoded(memory("a", vector=EAST)), number=8, wall_ms=START_MS + 1)
    early = foreign(*encoded(memory("a", vector=NORTH)), number=9)
    search.derived.take(search.peer.replica.write((), (late, early), START_MS * 1000).changes)
    assert search.north() == search.loaded().north() == [1]
    assert search.indexes.ntotal(KEY) == 1


def test_a_cell_whose_earlier_event_has_no_vector_is_not_found_by_a_later_one(tmp_path: Path) -> None:
    search = _Search(tmp_path)
    search.receive(memory("a"), number=8, wall_ms=START_MS + 1)
    search.receive(memory("a", vector=None), number=9)
    assert search.north() == search.loaded().north() == []


def test_after_everything_was_folded_anew_it_is_as_at_a_start(tmp_path: Path) -> None:
    search, gone = _Search(tmp_path), Peer(7)
    gone.store("a")
    (early,) = gone.segments()
    gone.store("b", vector=EAST)
    search.receive(memory("c"))
    search.derived.take(search.peer.replica.write((), gone.segments(), START_MS * 1000).changes)
    other = Peer(8)
    other.receive([early])
    retire(other, 7)
    changes = search.peer.replica.write((), other.segments(), START_MS * 1000).changes
    assert changes.refolded
    search.derived.load_again(search.peer.db)
    again = search.loaded()
    assert search.columns.numbers(*KEY).tolist() == again.columns.numbers(*KEY).tolist()
    assert search.columns.total() == search.indexes.ntotal(KEY) == again.indexes.ntotal(KEY) == 2
