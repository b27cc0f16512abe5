"""The revisions of MCP as a table: what differs between them, and which one holds.

Pure.  All revisions with a handshake share one shape of messages; only batches differ.  A revision without
one (2026-07-28) is a further era: its row and its rules come here, and the dispatcher asks `LEGACY.methods`
rather than knowing methods by name.
Source: MCP specification, lifecycle and transports of each revision.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

LATEST: Final = "2025-11-25"
ASSUMED_OVER_HTTP: Final = "2025-03-26"  # what the specification says of a request without the header


@dataclass(frozen=True, slots=True)
class Revision:
    """One revision.

    Args:
        name: its date.
        batches: arrays of messages are accepted.
    """

    name: str
    batches: bool = False


@dataclass(frozen=True, slots=True)
class Era:
    """Revisions that are spoken alike, newest first, and the methods that they have."""

    revisions: tuple[Revision, ...]
    methods: frozenset[str]

    def find(self, name: Any) -> Revision | None:
        """Return the revision of this name, or None, also for what is no text."""
        return next((revision for revision in self.revisions if revision.name == name), None)


LEGACY: Final = Era(
    (
        Revision(LATEST),
        Revision("2025-06-18"),
        Revision("2025-03-26", batches=True),
        Revision("2024-11-05"),
    ),
    frozenset({"initialize", "ping", "tools/list", "tools/call"}),
)


def negotiate(requested: Any) -> Revision:
    """Return the revision to answer `initialize` with: the one asked for, else the newest."""
    return LEGACY.find(requested) or LEGACY.revisions[0]


def of_header(values: Sequence[str]) -> Revision | None:
    """Return the revision that the `MCP-Protocol-Version` headers of a request name; None: refuse it.

    Args:
        values: all values of the header, without surrounding blanks; none at all is fine.
    """
    if not values:
        return LEGACY.find(ASSUMED_OVER_HTTP)
    return LEGACY.find(values[0]) if len(values) == 1 else None


def supported() -> str:
    """Return the names of all revisions, newest first, for error texts."""
    return ", ".join(revision.name for revision in LEGACY.revisions)
