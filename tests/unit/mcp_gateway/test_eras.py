"""Negotiation and the version header, by the table of revisions."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_gateway import eras

NAMES = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"]


@pytest.mark.parametrize("name", NAMES)
def test_a_known_revision_is_echoed(name: str) -> None:
    assert eras.negotiate(name).name == name


@pytest.mark.parametrize("name", [None, "", "2026-07-28", "2099-01-01", "2025-11-25 ", 5, [], {}])
def test_anything_else_is_answered_with_the_newest(name: Any) -> None:
    assert eras.negotiate(name).name == "2025-11-25"


def test_only_one_revision_has_batches() -> None:
    assert [r.name for r in eras.LEGACY.revisions if r.batches] == ["2025-03-26"]


@pytest.mark.parametrize(
    ("values", "name"),
    [
        ([], "2025-03-26"),
        *[([name], name) for name in NAMES],
        ([""], None),
        (["2026-07-28"], None),
        (["2099-01-01"], None),
        (["2025-11-25", "2025-11-25"], None),
        (["2025-11-25, 2025-06-18"], None),
    ],
)
def test_the_header_names_one_revision_or_is_refused(values: list[str], name: str | None) -> None:
    revision = eras.of_header(values)
    assert (revision.name if revision else None) == name
