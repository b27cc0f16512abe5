"""What the service does beside the eleven tools, for REST, the command line and peers, as the same data.

The duty: the argument tables of those operations and one look-up over everything that can be called.  It
knows no route and checks nothing itself.
"""

from __future__ import annotations

from mcp_gateway.argument_kinds import identifier, name
from mcp_gateway.specs import ArgumentSpec, CallSpec
from mcp_gateway.tools import TOOLS
from proto import limits

SCOPES = ("read", "write", "mcp-read", "mcp-write", "admin", "operator")
RIGHTS = ("r", "rw")
INVITE_TTL_MAX_S = 7 * 24 * 3600
TAIL_WAIT_MAX_MS = 25_000
TAIL_ENTRIES_MAX = 1_000
POSITION_MAX = 2**53

_KEY_RIGHTS = (
    name("agent", required=True, max_chars=limits.AGENT_CHARS, example='"cursor"'),
    name("owner", max_chars=limits.AGENT_CHARS, example='"dana"'),
    name("tenant", max_chars=limits.AGENT_CHARS, example='"default"'),
    ArgumentSpec(
        "scopes",
        "strings",
        enum=SCOPES,
        max_items=len(SCOPES),
        empty_is_absent=False,
        example='["read","write"]',
    ),
    ArgumentSpec(
        "projects",
        "grants",
        enum=RIGHTS,
        max_items=limits.FILTER_ITEMS,
        max_chars=limits.PROJECT_CHARS,
        empty_is_absent=False,
        form="name",
        example='{"billing":"rw","web":"r"}',
    ),
    name("default_project", example='"billing"'),
)

OPERATIONS: dict[str, CallSpec] = {
    call.name: call
    for call in (
        CallSpec("get_node", (identifier("node_id", required=True),), reads=True),
        CallSpec(
            "store_bulk",
            (
                ArgumentSpec(
                    "cells",
                    "objects",
                    required=True,
                    max_items=limits.BULK_CELLS,
                    empty_is_absent=False,
                    example='[{"content":"...","cell_type":"Fact"}]',
                ),
            ),
            stores=True,
        ),
        CallSpec("withdraw_beacon", (identifier("beacon_id", required=True),)),
        CallSpec("whoami", reads=True),
        CallSpec("issue_key", _KEY_RIGHTS),
        CallSpec("list_keys", reads=True),
        CallSpec("revoke_key", (identifier("id", required=True),)),
        CallSpec("rotate_key", (identifier("id", required=True),)),
        CallSpec("peers", reads=True),
        CallSpec(
            "invite_peer",
            (ArgumentSpec("ttl_seconds", "integer", minimum=60, maximum=INVITE_TTL_MAX_S, example="3600"),),
        ),
        CallSpec("status", reads=True),
        CallSpec(
            "tail",
            (
                ArgumentSpec("after", "integer", minimum=0, maximum=POSITION_MAX, example="0"),
                ArgumentSpec("limit", "integer", minimum=1, maximum=TAIL_ENTRIES_MAX, example="100"),
                ArgumentSpec("wait_ms", "integer", minimum=0, maximum=TAIL_WAIT_MAX_MS, example="25000"),
            ),
            reads=True,
        ),
        CallSpec("verify_log", reads=True),
        CallSpec("shutdown"),
    )
}


def find(method: str) -> CallSpec | None:
    """Return what describes a method of the service, or None when there is no such method."""
    return TOOLS.get(method) or OPERATIONS.get(method)
