"""The revisions of MCP as a table: everything that differs between them, one row each.

Pure.  A row names its era, and an era is how revisions are spoken: their methods, what is added to a result,
the HTTP status of an error.  Two eras exist: `HANDSHAKE`, where `initialize` agrees on a revision, and
`PER_REQUEST`, where each request names its own.  Another revision is another row of `REVISIONS`; nothing
else knows a revision by name.
Source: MCP specification, lifecycle, versioning and transports of each revision.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from mcp_gateway.jsonrpc import INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, PARSE_ERROR

HEADER_MISMATCH: Final = -32020
UNSUPPORTED_VERSION: Final = -32022

DISCOVER: Final = "server/discover"  # asks which revisions there are, so it comes before any is agreed on
ALIKE_FOR_ALL: Final = frozenset({DISCOVER, "tools/list"})  # results that no caller and no call changes
META_PREFIX: Final = "io.modelcontextprotocol/"
SERVER_INFO_KEY: Final = f"{META_PREFIX}serverInfo"
ROSTER_TTL_MS: Final = 300_000  # a server that was updated is seen as it is within five minutes

Fields = Mapping[str, Any]
Envelope = Callable[[str, Fields, Fields], Fields]
"""Method, result and serverInfo to the result as it is sent."""


def _as_it_is(method: str, result: Fields, server: Fields) -> Fields:
    return result


def _complete(method: str, result: Fields, server: Fields) -> Fields:
    """Return a result that stands for itself: final, signed, and how long it may be kept where it may."""
    kept = {"ttlMs": ROSTER_TTL_MS, "cacheScope": "public"} if method in ALIKE_FOR_ALL else {}
    return {"resultType": "complete", **result, **kept, "_meta": {SERVER_INFO_KEY: server}}


@dataclass(frozen=True, slots=True)
class Era:
    """How revisions are spoken.

    Args:
        methods: that exist.
        per_request: each request carries its revision, in an envelope that `ladder` checks.
        envelope: makes a result whole.
        statuses: HTTP status by JSON-RPC error code; 200 for any other.
    """

    methods: frozenset[str]
    per_request: bool = False
    envelope: Envelope = _as_it_is
    statuses: Mapping[int, int] = field(default_factory=lambda: MappingProxyType({}))

    def status(self, code: int) -> int:
        """Return the HTTP status that an error of this code travels with."""
        return self.statuses.get(code, 200)


HANDSHAKE: Final = Era(frozenset({"initialize", "ping", "tools/list", "tools/call"}))
PER_REQUEST: Final = Era(
    frozenset({DISCOVER, "tools/list", "tools/call"}),
    per_request=True,
    envelope=_complete,
    statuses=MappingProxyType(
        {
            PARSE_ERROR: 400,
            INVALID_REQUEST: 400,
            METHOD_NOT_FOUND: 404,
            INVALID_PARAMS: 400,
            HEADER_MISMATCH: 400,
            UNSUPPORTED_VERSION: 400,
        }
    ),
)


@dataclass(frozen=True, slots=True)
class Revision:
    """One revision.

    Args:
        name: its date.
        era: how it is spoken.
        batches: arrays of messages are accepted.
        assumed: an HTTP request that names none is taken to be of this one.
    """

    name: str
    era: Era
    batches: bool = False
    assumed: bool = False


class Revisions:
    """The table of revisions that a server speaks.

    Args:
        rows: newest first; at least one has a handshake, at least one is per request, and one is assumed.
    """

    def __init__(self, rows: Sequence[Revision]) -> None:
        self.rows = tuple(rows)
        self._by_name = {row.name: row for row in rows}
        self.names: tuple[str, ...] = tuple(self._by_name)
        self.agreed: Revision = next(row for row in rows if not row.era.per_request)
        """What a connection speaks before `initialize`, and what `initialize` falls back on."""
        self.per_request: Era = next(row.era for row in rows if row.era.per_request)
        self._assumed = next(row for row in rows if row.assumed)

    def find(self, name: Any, *, per_request: bool) -> Revision | None:
        """Return the revision of this name in that kind of era, or None, also for what is no text."""
        row = self._by_name.get(name) if isinstance(name, str) else None
        return row if row is not None and row.era.per_request is per_request else None

    def negotiate(self, requested: Any) -> Revision:
        """Return the revision to answer `initialize` with: the one asked for, else the newest."""
        return self.find(requested, per_request=False) or self.agreed

    def of_header(self, values: Sequence[str]) -> Revision | None:
        """Return the revision with a handshake that an HTTP request names; None: refuse it.

        Args:
            values: all values of `MCP-Protocol-Version`, without surrounding blanks; none at all is fine.
        """
        if not values:
            return self._assumed
        return self.find(values[0], per_request=False) if len(values) == 1 else None


REVISIONS: Final = Revisions(
    (
        Revision("2026-07-28", PER_REQUEST),
        Revision("2025-11-25", HANDSHAKE),
        Revision("2025-06-18", HANDSHAKE),
        Revision("2025-03-26", HANDSHAKE, batches=True, assumed=True),
        Revision("2024-11-05", HANDSHAKE),
    )
)
