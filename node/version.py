"""The version of the installed distribution."""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as of


@cache
def version() -> str:
    """Return it as `0.1.0`, or `0` when run from files that were never installed."""
    try:
        return of("hyphae-mesh")
    except PackageNotFoundError:
        return "0"
