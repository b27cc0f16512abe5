"""Which clients are driven, in which eras: one row per client.

The duty: the table, and what it means for documentation.  A client runs over every transport in every era that
it has; versions are those of the lock files.  It must not know how a client is driven.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

TRANSPORTS: Final = ("stdio", "http")

LEGACY: Final = "legacy"  # begins with `initialize`
AUTO: Final = "auto"  # asks `server/discover` first
MODERN: Final = "modern"  # speaks 2026-07-28 and nothing else

REVISIONS: Final = {LEGACY: "2025-11-25", AUTO: "2026-07-28", MODERN: "2026-07-28"}
"""The revision that client and server end with, by era of the client: the newest that both have."""


@dataclass(frozen=True, slots=True)
class ClientRow:
    """One client.

    Args:
        id: name of its driver.
        title: for people.
        package: as a lock file names it.
        version: that the lock file pins.
        eras: that it can be told to speak, its default first.
        runtime: what runs its driver: an environment of Python, or Node.js.
        command_line: it is a process and a connection per step, and of an error shows only the message.
    """

    id: str
    title: str
    package: str
    version: str
    eras: tuple[str, ...]
    runtime: str
    command_line: bool = False


CLIENTS: Final = (
    ClientRow("python_mcp2", "Python SDK 2", "mcp", "2.3.0", (AUTO, LEGACY, MODERN), ".venv"),
    ClientRow("python_mcp1", "Python SDK 1", "mcp", "1.30.0", (LEGACY,), ".venv-mcp1"),
    ClientRow("python_fastmcp", "FastMCP", "fastmcp", "4.2.3", (AUTO, LEGACY, MODERN), ".venv-fastmcp"),
    ClientRow(
        "typescript_v2",
        "TypeScript client 2",
        "@modelcontextprotocol/client",
        "2.4.0",
        (LEGACY, AUTO, MODERN),
        "node",
    ),
    ClientRow("typescript_v1", "TypeScript SDK 1", "@modelcontextprotocol/sdk", "1.32.2", (LEGACY,), "node"),
    ClientRow(
        "inspector",
        "Inspector CLI, `--strict`",
        "@modelcontextprotocol/inspector",
        "2.12.0",
        (LEGACY, AUTO, MODERN),
        ".venv",
        command_line=True,
    ),
)


@dataclass(frozen=True, slots=True)
class Case:
    """One client over one transport in one era."""

    client: ClientRow
    transport: str
    era: str

    def __str__(self) -> str:
        return f"{self.client.id}-{self.transport}-{self.era}"


def cases() -> Iterator[Case]:
    """Yield every combination that is driven."""
    for client in CLIENTS:
        for transport in TRANSPORTS:
            for era in client.eras:
                yield Case(client, transport, era)


def table() -> str:
    """Return the table of docs/connect.md, with a line break at the end."""
    head = "| client | package, version | eras, its default first | transports |\n|---|---|---|---|\n"
    return head + "".join(
        f"| {row.title} | `{row.package}` {row.version} | {', '.join(row.eras)} | {', '.join(TRANSPORTS)} |\n"
        for row in CLIENTS
    )
