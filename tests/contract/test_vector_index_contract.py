"""What every vector index promises, for each adapter: exact, filtered, and safe beside changes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from node.faiss_index import FaissIndexes
from node.vector_index import IndexKey, VectorIndexes
from proto.ids import TenantId

DIM = 24
KEY: IndexKey = (TenantId(b"a" * 16), 0)
OTHER_TENANT: IndexKey = (TenantId(b"b" * 16), 0)
OTHER_LAYER: IndexKey = (TenantId(b"a" * 16), 1)
MAKERS: list[Callable[[], VectorIndexes]] = [FaissIndexes]


def vectors(n: int, seed: int = 0) -> np.ndarray:
    rows = np.random.default_rng(seed).standard_normal((n, DIM))
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), dtype=np.float32)


def numbers(*ids: int) -> np.ndarray:
    return np.array(ids, dtype=np.int64)


@pytest.fixture(params=MAKERS)
def indexes(request: pytest.FixtureRequest) -> VectorIndexes:
    made: VectorIndexes = request.param()
    return made


def test_search_is_exact_and_nearest_first(indexes: VectorIndexes) -> None:
    rows, ids = vectors(500), np.arange(1_000, 1_500)
    indexes.add(KEY, ids, rows)
    for query in vectors(20, seed=1):
        found, cosines = indexes.search(KEY, query, 10)
        expected = np.sort(rows @ query)[::-1][:10]
        assert cosines == pytest.approx(expected, abs=1e-5)
        assert rows[found - 1_000] @ query == pytest.approx(cosines, abs=1e-5)
        assert len(set(found.tolist())) == 10


@pytest.mark.parametrize("passing", [1, 7, 10, 11, 250])
def test_a_filtered_search_gives_k_results_whenever_k_pass(indexes: VectorIndexes, passing: int) -> None:
    rows = vectors(500)
    indexes.add(KEY, np.arange(500), rows)
    query = vectors(1, seed=2)[0]
    farthest_first = np.argsort(rows @ query)
    allowed = np.sort(farthest_first[:passing])
    found, cosines = indexes.search(KEY, query, 10, allowed)
    assert found.tolist() == farthest_first[:passing][::-1][:10].tolist()
    assert len(cosines) == min(10, passing)


def test_ids_far_apart_may_be_allowed_and_unknown_ones_are_ignored(indexes: VectorIndexes) -> None:
    ids = numbers(0, 7, 8, 63, 64, 1_000_000)
    rows = vectors(6)
    indexes.add(KEY, ids, rows)
    for one in ids.tolist():
        found, _ = indexes.search(KEY, rows[0], 5, np.unique(numbers(one, 9, 65)))
        assert found.tolist() == [one]


def test_one_index_never_answers_for_another(indexes: VectorIndexes) -> None:
    rows = vectors(3)
    for n, key in enumerate((KEY, OTHER_TENANT, OTHER_LAYER)):
        indexes.add(key, numbers(n), rows[n : n + 1])
    for n, key in enumerate((KEY, OTHER_TENANT, OTHER_LAYER)):
        assert indexes.search(key, rows[0], 10)[0].tolist() == [n]
        assert indexes.ntotal(key) == 1


def test_what_is_removed_is_not_found_and_the_rest_still_is(indexes: VectorIndexes) -> None:
    rows = vectors(100)
    indexes.add(KEY, np.arange(100), rows)
    indexes.remove(KEY, np.append(np.arange(0, 100, 2), 12_345))
    assert indexes.ntotal(KEY) == 50
    for one in (1, 51, 99):
        assert indexes.search(KEY, rows[one], 1)[0].tolist() == [one]
    assert set(indexes.search(KEY, rows[0], 100)[0].tolist()) == set(range(1, 100, 2))


def test_a_removed_id_may_be_added_with_another_vector(indexes: VectorIndexes) -> None:
    rows = vectors(2)
    indexes.add(KEY, numbers(5), rows[:1])
    indexes.remove(KEY, numbers(5))
    indexes.add(KEY, numbers(5), rows[1:])
    assert indexes.search(KEY, rows[1], 3)[1] == pytest.approx([1.0], abs=1e-5)


def test_cosines_of_given_ids_are_those_of_a_search_and_zero_for_unknown_ones(indexes: VectorIndexes) -> None:
    rows = vectors(50)
    indexes.add(KEY, np.arange(50), rows)
    query = vectors(1, seed=3)[0]
    assert indexes.cosines(KEY, query, numbers(3, 1, 49)) == pytest.approx(rows[[3, 1, 49]] @ query, abs=1e-5)
    assert indexes.cosines(KEY, query, numbers(3, 77)) == pytest.approx([rows[3] @ query, 0.0], abs=1e-5)
    assert indexes.cosines(OTHER_TENANT, query, numbers(3)).tolist() == [0.0]
    assert indexes.cosines(KEY, query, numbers()).tolist() == []


def test_an_empty_index_finds_nothing(indexes: VectorIndexes) -> None:
    query = vectors(1)[0]
    for k, allowed in ((10, None), (0, None), (5, numbers(1))):
        assert indexes.search(KEY, query, k, allowed)[0].tolist() == []
    indexes.remove(KEY, numbers(1))
    indexes.add(KEY, numbers(1), query[None])
    assert indexes.search(KEY, query, 10, numbers())[0].tolist() == []
    assert indexes.search(KEY, query, 1_000_000)[0].tolist() == [1]
    indexes.clear()
    assert indexes.ntotal(KEY) == 0


def test_a_snapshot_gives_back_every_index_and_its_stamp(indexes: VectorIndexes, tmp_path: Path) -> None:
    rows = vectors(40)
    indexes.add(KEY, np.arange(40), rows)
    indexes.add(OTHER_LAYER, numbers(99), rows[:1])
    indexes.remove(KEY, numbers(3))
    path = tmp_path / "index" / "vectors"
    indexes.save(path, b"covers this")
    copy = type(indexes)()
    assert copy.load(path, DIM) == b"covers this"
    assert (copy.ntotal(KEY), copy.ntotal(OTHER_LAYER), copy.ntotal(OTHER_TENANT)) == (39, 1, 0)
    copy.add(KEY, numbers(3), rows[3:4])
    copy.remove(KEY, numbers(4))
    assert copy.search(KEY, rows[3], 1)[0].tolist() == [3]


def test_eight_threads_search_right_while_one_adds_and_removes(indexes: VectorIndexes) -> None:
    fixed, moving = vectors(300, seed=4), vectors(300, seed=5)
    indexes.add(KEY, np.arange(300), fixed)
    stop, wrong = threading.Event(), list[str]()

    def search(seed: int) -> None:
        chosen = np.random.default_rng(seed)
        allowed = np.arange(300)
        try:
            while not stop.is_set():
                one = int(chosen.integers(300))
                everywhere, _ = indexes.search(KEY, fixed[one], 3)
                within, _ = indexes.search(KEY, fixed[one], 300, allowed)
                if everywhere[0] != one or within[0] != one or len(within) != 300:
                    wrong.append(f"{one}: {everywhere} {len(within)}")
        except Exception as error:
            wrong.append(repr(error))

    threads = [threading.Thread(target=search, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for n in range(150):
        indexes.add(KEY, numbers(1_000 + n), moving[n : n + 1])
        if n % 3 == 2:
            indexes.remove(KEY, numbers(1_000 + n, 999 + n))
    stop.set()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert indexes.ntotal(KEY) == 300 + 50
