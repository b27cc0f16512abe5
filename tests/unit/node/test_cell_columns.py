"""Filters over columns answer as a scan over the cells would."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from node.cell_columns import CellColumns, CellFilter, CellRow
from node.inbox_query import Scope
from proto.ids import AgentId, TenantId
from proto.payloads import PRIVATE

TENANT, OTHER = TenantId(b"t" * 16), TenantId(b"o" * 16)
AGENTS = [AgentId(bytes([n]) * 16) for n in range(3)]
PROJECTS = ["billing", "web", PRIVATE]
OWNERS = ["ann", "bob"]
TYPES = ["Fact", "Decision"]
TAGS = ["red", "blue"]

rows = st.builds(
    CellRow,
    cell_no=st.just(0),
    project=st.sampled_from(PROJECTS),
    owner=st.sampled_from(OWNERS),
    agent_id=st.sampled_from(AGENTS),
    cell_type=st.sampled_from(TYPES),
    salience=st.integers(0, 10_000),
    layer=st.integers(0, 1),
    wall_ms=st.integers(0, 100),
    tags=st.lists(st.sampled_from(TAGS), unique=True).map(tuple),
    superseded=st.booleans(),
)
filters = st.builds(
    CellFilter,
    scope=st.builds(
        Scope,
        owner=st.sampled_from(OWNERS),
        readable=st.none() | st.sets(st.sampled_from(PROJECTS[:2])).map(frozenset),
        project=st.none() | st.sampled_from(PROJECTS),
    ),
    layer=st.integers(0, 1),
    cell_types=st.lists(st.sampled_from([*TYPES, "Risk"]), max_size=2, unique=True).map(tuple),
    tags=st.lists(st.sampled_from([*TAGS, "green"]), max_size=2, unique=True).map(tuple),
    agents=st.lists(st.sampled_from(AGENTS), max_size=2, unique=True).map(tuple),
    since_ms=st.none() | st.integers(0, 100),
    min_salience=st.integers(0, 10_000),
    include_superseded=st.booleans(),
)


def _passes(row: CellRow, wanted: CellFilter) -> bool:
    scope = wanted.scope
    visible = row.owner == scope.owner if row.project == PRIVATE else True
    if scope.project is not None:
        visible = visible and row.project == scope.project
    elif scope.readable is not None and row.project != PRIVATE:
        visible = visible and row.project in scope.readable
    return (
        visible
        and row.layer == wanted.layer
        and (not wanted.cell_types or row.cell_type in wanted.cell_types)
        and all(tag in row.tags for tag in wanted.tags)
        and (not wanted.agents or row.agent_id in wanted.agents)
        and (wanted.since_ms is None or row.wall_ms >= wanted.since_ms)
        and row.salience >= wanted.min_salience
        and (wanted.include_superseded or not row.superseded)
    )


@settings(max_examples=200, deadline=None)
@given(st.lists(rows, max_size=90), filters)
def test_a_filter_passes_what_a_scan_passes(cells: list[CellRow], wanted: CellFilter) -> None:
    numbered = [
        CellRow(n + 1, *(getattr(c, f) for f in CellRow.__dataclass_fields__ if f != "cell_no"))
        for n, c in enumerate(cells)
    ]
    columns = CellColumns()
    columns.put(OTHER, [CellRow(1_000, "billing", "ann", AGENTS[0], "Fact", 5_000, 0, 1, (), False)])
    columns.put(TENANT, numbered)
    expected = [c.cell_no for c in numbered if _passes(c, wanted)]
    found = columns.passing(TENANT, wanted)
    if found is None:
        assert expected == [c.cell_no for c in numbered if c.layer == wanted.layer]
    else:
        assert found.tolist() == expected
    asked = np.array([*range(len(numbered), 0, -1), 1_000, 2_000], dtype=np.int64)
    admitted = columns.admits(TENANT, wanted, asked)
    assert sorted(asked[admitted].tolist()) == expected


def test_superseding_hides_a_cell_and_unknown_numbers_are_ignored() -> None:
    columns = CellColumns()
    columns.put(TENANT, [CellRow(n, "web", "ann", AGENTS[0], "Fact", 5_000, 0, 1, (), False) for n in (1, 2)])
    columns.supersede([2, 99])
    found = columns.passing(TENANT, CellFilter(Scope("ann"), 0))
    assert found is not None
    assert found.tolist() == [1]


def test_a_cell_put_again_replaces_its_row() -> None:
    columns = CellColumns()
    columns.put(TENANT, [CellRow(1, "web", "ann", AGENTS[0], "Fact", 5_000, 0, 1, ("red",), False)])
    columns.put(TENANT, [CellRow(1, "billing", "ann", AGENTS[0], "Fact", 5_000, 0, 1, (), False)])
    assert columns.count(TENANT) == 1
    found = columns.passing(TENANT, CellFilter(Scope("ann", None, "web"), 0))
    assert found is not None
    assert found.tolist() == []
