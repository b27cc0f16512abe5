"""The eleven tools in their fixed order, as data, and their rendering for `tools/list`.

The duty: names, arguments, descriptions and hints.  It knows no transport and dispatches nothing.  The
schemas keep to what every model provider accepts: single types, arrays with items, no references, unions,
composition or `additionalProperties`.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from mcp_gateway.argument_kinds import (
    CELL_TYPES,
    CURSOR_CHARS,
    ID_BEGINNING,
    ID_CHARS,
    byte_budget,
    cell_type_filter,
    count,
    flag,
    identifier,
    moment,
    name,
    search_arguments,
    share,
    tags,
)
from mcp_gateway.specs import ArgumentSpec, Hints, ToolSpec
from proto import limits

_READS = Hints(read_only=True, destructive=False, idempotent=True)
_CHANGES = Hints(read_only=False, destructive=False, idempotent=False)
_SETTLES = Hints(read_only=False, destructive=False, idempotent=True)

_STORE = ToolSpec(
    "store",
    (
        ArgumentSpec(
            "content",
            "string",
            required=True,
            max_bytes=limits.CONTENT_BYTES,
            example='"We retry payments 3 times, because the bank drops 1 in 50."',
        ),
        ArgumentSpec("cell_type", "string", required=True, enum=CELL_TYPES, example='"Decision"'),
        share(
            "salience", "0.3 detail, 0.5 usual (default), 0.8 others should know, 0.95 work breaks if ignored"
        ),
        name(
            "project",
            "Default: the session's, else this workspace's; of a Preference private",
            example='"billing"',
        ),
        identifier("session_id", "from open_session"),
        tags(),
        identifier(
            "supersedes",
            "node_id that this replaces: hidden from recall, its readers are told",
            form="id_or_beginning",
            example=f'"{ID_BEGINNING}"',
        ),
        ArgumentSpec(
            "derived_from",
            "strings",
            "node_ids this rests on; naming both sides of a contradiction reconciles it",
            max_items=limits.DERIVED_FROM,
            max_chars=ID_CHARS,
            form="id_or_beginning",
            example=f'["{ID_BEGINNING}"]',
        ),
        ArgumentSpec(
            "idempotency_key",
            "string",
            "Only to repeat a store whose outcome was uncertain; the error names it",
            max_chars=limits.IDEMPOTENCY_KEY_CHARS,
            form="name",
            example='"k7f3a9"',
        ),
    ),
    stores=True,
    title="Store a memory",
    description=(
        "Store a memory cell; the server embeds it and delivers it to every agent whose beacon it matches. "
        "One self-contained statement with its reason, best under 1500 characters (limit 65536 bytes); never "
        'secrets. All who may read the project can read it; project "private" is only yours. To correct an '
        "old memory pass supersedes instead of storing beside it. Returns its node_id."
    ),
    hints=_CHANGES,
    consequence="Nothing was stored.",
)

_RECALL = ToolSpec(
    "recall",
    search_arguments(explained=True),
    reads=True,
    title="Search memories",
    description=(
        "Find the k nearest memory cells to a query on layer 0, where nearly everything is. Returns only "
        "node_id and distance unless include_content is true. distance: 0 the same, under 0.6 related, over "
        "0.8 probably unrelated. To read one memory whole pass its node_id as query, with include_content true."
    ),
    hints=_READS,
    consequence="Nothing was searched.",
    elsewhere={"layer": "query searches a layer"},
)

_QUERY = ToolSpec(
    "query",
    (
        ArgumentSpec("layer", "integer", required=True, minimum=0, maximum=2, example="1"),
        *search_arguments(explained=False),
    ),
    reads=True,
    title="Search one layer",
    description=(
        "Like recall, with its arguments, on one layer: 0 all memories, 1 summaries and patterns that "
        "several agents confirmed, 2 decisions and constraints confirmed across the project. New decisions "
        "are on layer 0: look for them with recall and cell_types."
    ),
    hints=_READS,
    consequence="Nothing was searched.",
)

_OPEN_SESSION = ToolSpec(
    "open_session",
    (
        name("project", "Default: this workspace's project", example='"billing"'),
        name(
            "title", "What you are working on", max_chars=limits.TITLE_CHARS, example='"retries of payments"'
        ),
    ),
    title="Open a session",
    description=(
        "Open a working session in a project. Memories stored with its session_id belong together, and "
        "drain_inbox with it keeps a place of its own. The answer also lists your sessions still open there "
        "(open_sessions: after a loss of context go on with one of them and close the new one) and how much "
        "waits in your inbox (unread: drain_inbox reads it)."
    ),
    hints=_CHANGES,
    consequence="Nothing was opened.",
    in_doubt="Call open_session again: its open_sessions shows whether one was opened.",
)

_CLOSE_SESSION = ToolSpec(
    "close_session",
    (identifier("session_id", "from open_session", required=True),),
    title="Close a session",
    description=(
        "Close a session by id when its work is done. Closing twice changes nothing; a session idle for "
        "24 h closes itself."
    ),
    hints=_SETTLES,
    consequence="Nothing was closed.",
    in_doubt="Call close_session again: closing twice changes nothing.",
)

_PLACE_BEACON = ToolSpec(
    "place_beacon",
    (
        ArgumentSpec(
            "interest",
            "string",
            'e.g. "payment retries and idempotency"; "*" for everything the filters let through',
            required=True,
            max_bytes=limits.INTEREST_BYTES,
            example='"payment retries"',
        ),
        share("threshold", "leave out unless the inbox is too noisy (raise) or too quiet (lower)", "0.4"),
        name("project", "Default: every project you may read", example='"billing"'),
        cell_type_filter(),
        ArgumentSpec(
            "layers", "integers", "Default [0]", minimum=0, maximum=2, max_items=3, example="[0, 1]"
        ),
        share("min_salience"),
        ArgumentSpec(
            "ttl_seconds",
            "integer",
            "Default 30 days, renewed when you drain your inbox; 0 removes",
            minimum=0,
            maximum=limits.BEACON_TTL_MAX_S,
            example="86400",
        ),
        flag("include_own", "Also your own memories (default false)"),
        flag("strict", "true: only the text decides, not a memory's type and salience (default false)"),
    ),
    title="Place a beacon",
    description=(
        "Place a standing interest: from now on matching memories of other agents arrive in your inbox "
        "unasked (read it with drain_inbox). Write it like a search query, one subject each. would_match "
        "says how many existing memories it would have matched: those do not arrive, recall finds them. "
        "Same interest, project and filters again changes it; ttl_seconds 0 removes it."
    ),
    hints=_SETTLES,
    consequence="Nothing was placed.",
    in_doubt="Call place_beacon again with the same arguments: it stays one beacon.",
)

_LIST_BEACONS = ToolSpec(
    "list_beacons",
    reads=True,
    title="List beacons",
    description="List the beacons you own, how many unread entries wait for each and when it expires.",
    hints=_READS,
    consequence="Nothing was read.",
)

_DIFFS_SINCE = ToolSpec(
    "diffs_since",
    (
        moment("since", "RFC 3339 time, a span such as 24h, or next_since of the page before", required=True),
        count("limit", limits.PAGE, "Default 20"),
        name("project", example='"billing"'),
        flag("include_content", "Default true", usual=True),
        byte_budget("Default 20000"),
    ),
    reads=True,
    title="Read diffs again",
    description=(
        "Drain the diffs delivered to you since a time, oldest first, without moving your place in the "
        "inbox: to read again what you lost. While has_more is true call again with since = next_since."
    ),
    hints=_READS,
    consequence="Nothing was read.",
)

_GET_SCENE = ToolSpec(
    "get_scene",
    (identifier("scene_id", "from list_scenes", required=True),),
    reads=True,
    title="Get a scene",
    description="Fetch one scene by id: a group of related memories with its summary.",
    hints=_READS,
    consequence="Nothing was read.",
)

_LIST_SCENES = ToolSpec(
    "list_scenes",
    (
        name("project", example='"billing"'),
        count("limit", limits.PAGE, "Default 20"),
        ArgumentSpec("cursor", "string", "next_cursor of the page before", max_chars=CURSOR_CHARS),
    ),
    reads=True,
    title="List scenes",
    description="List the scenes in your read scope, latest first: what the project is about at a glance.",
    hints=_READS,
    consequence="Nothing was read.",
)

_DRAIN_INBOX = ToolSpec(
    "drain_inbox",
    (
        count("limit", limits.PAGE, "Default 20"),
        identifier("session_id", "from open_session: reads at this session's own place"),
        name("project", "Only this project; the rest stays unread", example='"billing"'),
        ArgumentSpec("ack", "string", "cursor of the page you have read", max_chars=CURSOR_CHARS),
        flag("advance", "false only looks (default true)", usual=True),
        flag("include_content", "Default true", usual=True),
        moment("skip_before", "Give up entries older than this (time or span), for a huge backlog"),
        byte_budget("Default 20000"),
    ),
    title="Drain the inbox",
    description=(
        "Drain your inbox page by page: memories that matched your beacons, and what replaces memories that "
        "you stored or were sent. The server keeps your place: call again until remaining is 0. A page "
        "counts as read at your next call; pass its cursor as ack to be exact."
    ),
    hints=_CHANGES,
    consequence="Your place in the inbox is unchanged.",
    elsewhere={"since": "diffs_since reads again from a time"},
    in_doubt="Call drain_inbox again: a page that you did not get is listed again.",
)

TOOLS: dict[str, ToolSpec] = {
    tool.name: tool
    for tool in (
        _STORE,
        _RECALL,
        _QUERY,
        _OPEN_SESSION,
        _CLOSE_SESSION,
        _PLACE_BEACON,
        _LIST_BEACONS,
        _DIFFS_SINCE,
        _GET_SCENE,
        _LIST_SCENES,
        _DRAIN_INBOX,
    )
}


_TYPES = {"strings": "array", "integers": "array", "objects": "array", "grants": "object"}
_ITEMS = {"strings": "string", "integers": "integer", "objects": "object"}


@cache
def descriptors() -> tuple[dict[str, Any], ...]:
    """Return the tools as `tools/list` shows them, the same for every caller and revision."""
    return tuple(_descriptor(tool) for tool in TOOLS.values())


def _descriptor(tool: ToolSpec) -> dict[str, Any]:
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {argument.name: _property(argument) for argument in tool.arguments},
    }
    if tool.required:
        schema["required"] = [argument.name for argument in tool.required]
    return {
        "name": tool.name,
        "title": tool.title,
        "description": tool.description,
        "inputSchema": schema,
        "annotations": {
            "readOnlyHint": tool.hints.read_only,
            "destructiveHint": tool.hints.destructive,
            "idempotentHint": tool.hints.idempotent,
            "openWorldHint": tool.hints.open_world,
        },
    }


def _property(argument: ArgumentSpec) -> dict[str, Any]:
    """Return the schema of one argument; enum and bounds of an array are those of its items."""
    bounds: dict[str, Any] = {}
    if argument.enum:
        bounds["enum"] = list(argument.enum)
    if argument.minimum is not None:
        bounds["minimum"] = argument.minimum
    if argument.maximum is not None:
        bounds["maximum"] = argument.maximum
    schema: dict[str, Any] = {"type": _TYPES.get(argument.kind, argument.kind)}
    if argument.kind in _ITEMS:
        schema["items"] = {"type": _ITEMS[argument.kind], **bounds}
    else:
        schema.update(bounds)
    if argument.description:
        schema["description"] = argument.description
    return schema
