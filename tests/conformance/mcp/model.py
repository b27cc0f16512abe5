"""What a requirement is: a sentence of somebody else's document, and where it must hold.

Data types only.  A requirement names its source, the revisions and the transports in which the suite shows it;
`test_manifest` compares these claims with the tests.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeVar

Transport = Literal["memory", "stdio", "http"]
Force = Literal["must", "should", "seed", "client", "choice"]

EVERYWHERE: Final[tuple[Transport, ...]] = ("memory", "stdio", "http")
MEMORY: Final[tuple[Transport, ...]] = ("memory",)
STDIO: Final[tuple[Transport, ...]] = ("stdio",)
HTTP: Final[tuple[Transport, ...]] = ("http",)

LEGACY: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
LATEST_LEGACY: Final = ("2025-11-25",)
BATCHING: Final = ("2025-03-26",)
MODERN: Final = ("2026-07-28",)
BOTH: Final = (*LATEST_LEGACY, *MODERN)
ALL: Final = (*LEGACY, *MODERN)

SPECIFICATION: Final = "https://modelcontextprotocol.io/specification/"
SEED: Final = "seed:"

_Test = TypeVar("_Test", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Requirement:
    """One requirement.

    Args:
        id: section and name, such as `wire.id-echo`.
        source: `seed:LINE` or `seed:FIRST-LAST`, else the page and section of the specification, such as
            `2025-11-25/basic/lifecycle#version-negotiation`.
        sentence: what is required, in our words.
        revisions: in which it is shown; empty where no message of a revision is involved.
        transports: over which it is shown.
        force: a MUST or SHOULD of the specification, the seed, a real client that breaks without it, or a
            choice that is left to servers.
        decision: where sources disagree or leave a choice: what was decided, and why.
    """

    id: str
    source: str
    sentence: str
    revisions: tuple[str, ...] = ALL
    transports: tuple[Transport, ...] = EVERYWHERE
    force: Force = "must"
    decision: str = ""

    @property
    def section(self) -> str:
        """The part of the id before the dot."""
        return self.id.partition(".")[0]

    @property
    def link(self) -> str:
        """The source as Markdown."""
        if self.source.startswith(SEED):
            return self.source
        return f"[{self.source}]({SPECIFICATION}{self.source})"

    @property
    def seed_lines(self) -> range:
        """The lines of the seed that it covers; empty for a requirement of the specification."""
        if not self.source.startswith(SEED):
            return range(0)
        first, _, last = self.source.removeprefix(SEED).partition("-")
        return range(int(first), int(last or first) + 1)


@dataclass(frozen=True, slots=True)
class Claims:
    """What a test shows.

    Args:
        ids: of requirements.
        over: transports.
        revisions: empty for a test that speaks none.
    """

    ids: tuple[str, ...]
    over: tuple[Transport, ...]
    revisions: tuple[str, ...]


def requirement(
    *ids: str, over: tuple[Transport, ...] = EVERYWHERE, revisions: tuple[str, ...] = ()
) -> Callable[[_Test], _Test]:
    """Mark a test with what it shows; one that takes `client` runs once per transport and revision."""

    def mark(test: _Test) -> _Test:
        vars(test)["claims"] = Claims(ids, over, revisions)
        return test

    return mark


def claims_of(test: Any) -> Claims | None:
    """Return what a test was marked with."""
    claims = getattr(test, "claims", None)
    return claims if isinstance(claims, Claims) else None
