"""Laws of grouping memories: disjoint, big enough, alike, settled, and the same however it is computed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from node import scene_clustering
from node.scene_clustering import LEAST, Former, Group, Points, cluster
from proto.scoring import scores
from tests.support.laws import LAW

THRESHOLD = 8_000
values = st.lists(st.integers(-5, 5), min_size=3, max_size=3).filter(any)
clouds = st.lists(values, max_size=30)


def points_of(vectors: list[list[int]]) -> Points:
    matrix = np.array(vectors, dtype=np.int8).reshape(len(vectors), 3)
    return Points(matrix, (matrix.astype(np.int64) ** 2).sum(axis=1))


def table(points: Points) -> np.ndarray[tuple[int, int], np.dtype[np.int32]]:
    rows = np.arange(len(points))
    floats = points.floats(rows)
    return scores(floats, points.norms, floats, points.norms)


def former_of(groups: list[Group]) -> list[Former]:
    return [Former(g.middle, g.members) for g in groups]


def shapes(groups: list[Group]) -> list[tuple[int, tuple[int, ...]]]:
    return [(g.middle, g.members) for g in groups]


@LAW
@given(clouds)
def test_groups_are_disjoint_and_big_enough_and_alike(cloud: list[list[int]]) -> None:
    points = points_of(cloud)
    groups = cluster(points, [], THRESHOLD)
    members = [row for g in groups for row in g.members]
    assert len(members) == len(set(members))
    alike = table(points)
    for g in groups:
        assert len(g.members) >= LEAST
        assert g.middle in g.members
        assert list(g.members) == sorted(g.members)
        assert all(alike[g.middle, row] >= THRESHOLD for row in g.members)


@LAW
@given(clouds)
def test_a_second_run_changes_nothing(cloud: list[list[int]]) -> None:
    points = points_of(cloud)
    first = cluster(points, [], THRESHOLD)
    again = cluster(points, former_of(first), THRESHOLD)
    assert shapes(again) == shapes(first)
    assert [g.former for g in again] == list(range(len(first)))


@LAW
@given(clouds)
def test_nothing_is_left_that_would_make_a_group_or_fits_another_better(cloud: list[list[int]]) -> None:
    points = points_of(cloud)
    groups = cluster(points, [], THRESHOLD)
    alike, home = table(points), {row: g for g in groups for row in g.members}
    free = [row for row in range(len(points)) if row not in home]
    for row in free:
        assert sum(alike[row, other] >= THRESHOLD for other in free) < LEAST
        assert all(alike[row, g.middle] < THRESHOLD for g in groups)
    for row, mine in home.items():
        best = max(alike[row, g.middle] for g in groups)
        assert alike[row, mine.middle] == best or len(mine.members) == LEAST


@LAW
@given(clouds, clouds)
def test_groups_stay_when_memories_are_added(cloud: list[list[int]], more: list[list[int]]) -> None:
    before = cluster(points_of(cloud), [], THRESHOLD)
    after = cluster(points_of(cloud + more), former_of(before), THRESHOLD)
    assert {g.former for g in after} - {None} == set(range(len(before)))


@LAW
@given(clouds, st.sets(st.integers(0, 29)))
def test_a_group_that_loses_members_goes_on_or_ends(cloud: list[list[int]], gone: set[int]) -> None:
    before = cluster(points_of(cloud), [], THRESHOLD)
    kept = [row for row in range(len(cloud)) if row not in gone]
    number = {row: i for i, row in enumerate(kept)}
    former = [
        Former(number.get(g.middle), tuple(number[m] for m in g.members if m in number)) for g in before
    ]
    after = cluster(points_of([cloud[row] for row in kept]), former, THRESHOLD)
    assert shapes(cluster(points_of([cloud[row] for row in kept]), former_of(after), THRESHOLD)) == shapes(
        after
    )
    for g in after:
        if g.former is not None:
            assert len(former[g.former].members) >= LEAST


@LAW
@given(clouds, st.integers(1, 7), st.integers(1, 7))
def test_the_size_of_steps_does_not_matter(cloud: list[list[int]], rows: int, columns: int) -> None:
    points = points_of(cloud)
    whole = cluster(points, [], THRESHOLD)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scene_clustering, "ROWS", rows)
        patch.setattr(scene_clustering, "COLUMNS", columns)
        assert shapes(cluster(points, [], THRESHOLD)) == shapes(whole)


@LAW
@given(clouds)
def test_a_group_may_be_larger_than_what_is_remembered_of_a_neighbourhood(cloud: list[list[int]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scene_clustering, "NEIGHBOURS", 2)
        patch.setattr(scene_clustering, "MIDDLES", 2)
        points = points_of([[3, 1, 0]] * 9 + cloud)
        groups = cluster(points, [], THRESHOLD)
        assert any(set(range(9)) <= set(g.members) for g in groups)
        assert shapes(cluster(points, former_of(groups), THRESHOLD)) == shapes(groups)


def test_what_progress_raises_ends_the_work() -> None:
    class Stop(Exception):
        pass

    def stop(_done: int, _total: int) -> None:
        raise Stop

    with pytest.raises(Stop):
        cluster(points_of([[1, 0, 0]] * 3), [], THRESHOLD, stop)


def test_progress_ends_at_the_whole() -> None:
    told: list[tuple[int, int]] = []
    cluster(points_of([[1, 0, 0]] * 3), [], THRESHOLD, lambda done, total: told.append((done, total)))
    assert told[-1] == (3, 3)


def test_exact_duplicates_are_all_members() -> None:
    (group,) = cluster(points_of([[1, 2, 0]] * 5), [], THRESHOLD)
    assert (group.middle, group.members) == (0, (0, 1, 2, 3, 4))


def test_a_group_without_its_middle_takes_the_best_of_its_members() -> None:
    points = points_of([[5, 2, 0], [5, 0, 0], [5, -1, 0]])
    (group,) = cluster(points, [Former(None, (0, 1, 2))], THRESHOLD)
    assert (group.middle, group.former) == (1, 0)
