"""One row of the table."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Figure:
    """One row of the table.

    Args:
        holds: whether the bar is met; None for a figure without one.
    """

    what: str
    value: str
    bar: str
    holds: bool | None
    detail: str = ""
