"""What the service does beside the eleven tools, for REST, the command line and peers, as the same data.

The duty: the argument tables of those operations and one look-up over everything that can be called.  It
knows no route and checks nothing itself.
"""

from __future__ import annotations

from mcp_gateway.argument_kinds import CURSOR_CHARS, count, flag, identifier, name, search_arguments
from mcp_gateway.specs import ArgumentSpec, CallSpec
from mcp_gateway.tools import TOOLS
from proto import limits

SCOPES = ("read", "write", "mcp-read", "mcp-write", "admin", "operator")
RIGHTS = ("r", "rw")
INVITE_TTL_MAX_S = 7 * 24 * 3600
TAIL_WAIT_MAX_MS = 25_000
TAIL_ENTRIES_MAX = 1_000
SCENES_WAIT_MAX_MS = 25_000
POSITION_MAX = 2**53
EXPORT_LIMIT = 100
WHY_CHARS = 200

_CURSOR = ArgumentSpec("cursor", "string", "next_cursor of the page before", max_chars=CURSOR_CHARS)
_SHOWS = frozenset({"include_content", "max_bytes"})  # how a search is shown, not what it finds
_LAYER = ArgumentSpec("layer", "integer", "Default 0", minimum=0, maximum=2, example="0")

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
        CallSpec("get_node", (identifier("node_id", required=True, form="id_or_beginning"),), reads=True),
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
            consequence="Nothing was stored.",
            in_doubt="Send it again if each cell has an idempotency_key; else look first with recall.",
        ),
        CallSpec("page_beacons", (count("limit", limits.PAGE, "Default 100"), _CURSOR), reads=True),
        CallSpec(
            "consolidate_scenes",
            (
                name("project", example='"billing"'),
                identifier("session_id"),
                ArgumentSpec("wait_ms", "integer", minimum=0, maximum=SCENES_WAIT_MAX_MS, example="10000"),
            ),
        ),
        CallSpec("withdraw_beacon", (identifier("beacon_id", required=True),)),
        CallSpec("list_sessions", (name("project", example='"billing"'),), reads=True),
        CallSpec(
            "explain_recall",
            (
                identifier(
                    "node_id", "The memory that came or did not", required=True, form="id_or_beginning"
                ),
                _LAYER,
                *(a for a in search_arguments(explained=True) if a.name not in _SHOWS),
            ),
            reads=True,
        ),
        CallSpec("explain_entry", (identifier("diff_id", required=True),), reads=True),
        CallSpec(
            "export",
            (
                name("project", "Default: every project you may read", example='"billing"'),
                count("limit", limits.PAGE, f"Default {EXPORT_LIMIT}"),
                _CURSOR,
            ),
            reads=True,
        ),
        CallSpec("whoami", reads=True),
        CallSpec("issue_key", _KEY_RIGHTS),
        CallSpec("list_keys", (count("limit", limits.PAGE, "Default 500"), _CURSOR), reads=True),
        CallSpec("revoke_key", (identifier("id", required=True, form="name"),)),
        CallSpec("rotate_key", (identifier("id", required=True, form="name"),)),
        CallSpec("peers", reads=True),
        CallSpec(
            "invite_peer",
            (ArgumentSpec("ttl_seconds", "integer", minimum=60, maximum=INVITE_TTL_MAX_S, example="3600"),),
        ),
        CallSpec(
            "retire_peer",
            (
                name("peer", "Its name or id", required=True, example='"laptop"'),
                name("why", "Shown to everybody, the peer itself included", max_chars=WHY_CHARS),
                flag("let_in", "Let what has arrived of a retired peer since count after all"),
            ),
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

_OTHER_SCOPES = {
    **dict.fromkeys(("store", "store_bulk", "consolidate_scenes"), "write"),
    **dict.fromkeys(("issue_key", "list_keys", "revoke_key", "rotate_key", "peers"), "admin"),
    **dict.fromkeys(("invite_peer", "retire_peer", "verify_log", "shutdown"), "operator"),
    "whoami": "",
}


def scope_of(method: str) -> str:
    """Return the scope that a method needs, for documentation; "" for none.  The service itself decides."""
    return _OTHER_SCOPES.get(method, "read")


def find(method: str) -> CallSpec | None:
    """Return what describes a method of the service, or None when there is no such method."""
    return TOOLS.get(method) or OPERATIONS.get(method)
