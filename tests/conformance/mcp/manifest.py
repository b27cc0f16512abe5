"""The manifest: all requirements, and the tests that show them, found by their marks."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.conformance.mcp.model import Claims, Requirement, claims_of
from tests.conformance.mcp.requirements.modern import MODERN
from tests.conformance.mcp.requirements.protocol import BATCHES, LIFECYCLE, WIRE
from tests.conformance.mcp.requirements.seed import SEED
from tests.conformance.mcp.requirements.tools import CALL, ERRORS, IDENTITY, LIST
from tests.conformance.mcp.requirements.transports import HTTP_SURFACE, STDIO

PACKAGE = "tests.conformance.mcp"
ABOUT_THE_SUITE: Final = frozenset({"test_manifest", "test_wrong_servers"})
MANIFEST: Final[tuple[Requirement, ...]] = (
    *LIFECYCLE,
    *WIRE,
    *BATCHES,
    *LIST,
    *CALL,
    *ERRORS,
    *STDIO,
    *HTTP_SURFACE,
    *MODERN,
    *IDENTITY,
    *SEED,
)


@dataclass(frozen=True, slots=True)
class ConformanceTest:
    """One test function.

    Args:
        module: without its package.
        name: of the function.
        claims: what it is marked with; None for a test that forgot.
        takes: names of its fixtures and parameters.
    """

    module: str
    name: str
    claims: Claims | None
    takes: frozenset[str]


def conformance_tests() -> tuple[ConformanceTest, ...]:
    """Return all tests of this folder but those about the suite itself, by file and place."""
    modules = sorted(path.stem for path in Path(__file__).parent.glob("test_*.py"))
    found = []
    for module in modules:
        if module in ABOUT_THE_SUITE:
            continue
        for name, test in vars(importlib.import_module(f"{PACKAGE}.{module}")).items():
            if name.startswith("test_") and _is_of(test, module):
                taken = frozenset(inspect.signature(test).parameters)
                found.append(ConformanceTest(module, name, claims_of(test), taken))
    return tuple(found)


def _is_of(test: Callable[..., Any], module: str) -> bool:
    return inspect.isfunction(test) and test.__module__.endswith(module)
