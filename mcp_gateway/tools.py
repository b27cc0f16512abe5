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
        name("project", "Default: this session's or workspace's project", example='"billing"'),
        identifier("session_id"),
        tags(),
        identifier("supersedes", "node_id that this replaces: hidden from recall, its readers are told"),
        ArgumentSpec(
            "derived_from",
            "strings",
            "node_ids this rests on; naming both sides of a contradiction reconciles it",
            max_items=limits.DERIVED_FROM,
            max_chars=ID_CHARS,
            example='["6f9619ff-8b86-d011-b42d-00cf4fc964ff"]',
        ),
        ArgumentSpec(
            "idempotency_key",
            "string",
            "Only to repeat a store whose outcome was uncertain; the error names it",
            max_chars=limits.IDEMPOTENCY_KEY_CHARS,
            form="name",
        ),
    ),
    stores=True,
    title="Store a memory",
    description=(
        "Store a memory cell. It is kept and delivered to every agent whose beacon it matches. One "
        "self-contained statement with its reason, best under 1500 characters (limit 65536 bytes); never "
        'secrets. All who may read the project can read it; project "private" is only yours. To correct an '
        "old memory pass supersedes instead of storing beside it."
    ),
    hints=_CHANGES,
)

_RECALL = ToolSpec(
    "recall",
    search_arguments(explained=True),
    reads=True,
    title="Search memories",
    description=(
        "Find the k memories nearest to a query (layer 0, where nearly everything is). Returns only node_id "
        "and distance unless include_content is true. distance: 0 the same, under 0.5 related, over 0.7 "
        "probably unrelated."
    ),
    hints=_READS,
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
)

_OPEN_SESSION = ToolSpec(
    "open_session",
    (
        name("project", "Default: this workspace's project", example='"billing"'),
        name("title", "What you are working on", max_chars=limits.TITLE_CHARS),
    ),
    title="Open a session",
    description=(
        "Open a working session in a project. Memories stored with its session_id belong together, and "
        "drain_inbox with it keeps a place of its own. The answer also lists your sessions still open there "
        "(after a loss of context go on with one of them) and how much waits in your inbox."
    ),
    hints=_CHANGES,
)

_CLOSE_SESSION = ToolSpec(
    "close_session",
    (identifier("session_id", required=True),),
    title="Close a session",
    description=(
        "Close a session by id when its work is done. Closing twice changes nothing; a session idle for "
        "24 h closes itself."
    ),
    hints=_SETTLES,
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
        share("threshold", "leave out unless the inbox is too noisy (raise) or too quiet (lower)"),
        name("project", "Default: every project you may read", example='"billing"'),
        cell_type_filter(),
        ArgumentSpec("layers", "integers", minimum=0, maximum=2, max_items=3, example="[0]"),
        share("min_salience"),
        ArgumentSpec(
            "ttl_seconds",
            "integer",
            "Default 30 days, renewed when you read your inbox",
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
        "unasked. Write it like a search query, one subject each. The answer says how many existing "
        "memories it would have matched. Same interest, project and filters again changes it; ttl_seconds "
        "0 removes it."
    ),
    hints=_SETTLES,
)

_LIST_BEACONS = ToolSpec(
    "list_beacons",
    reads=True,
    title="List beacons",
    description="List the beacons you own, what waits for each and when it expires.",
    hints=_READS,
)

_DIFFS_SINCE = ToolSpec(
    "diffs_since",
    (
        moment("since", "RFC 3339 time, a span such as 24h, or next_since of the page before", required=True),
        count("limit", limits.PAGE, "Default 20"),
        name("project", example='"billing"'),
        flag("include_content", "Default true"),
        byte_budget("Default 20000"),
    ),
    reads=True,
    title="Read diffs again",
    description=(
        "Drain the diffs delivered to you since a time, without moving your place in the inbox: to read "
        "again what you lost."
    ),
    hints=_READS,
)

_GET_SCENE = ToolSpec(
    "get_scene",
    (identifier("scene_id", required=True),),
    reads=True,
    title="Get a scene",
    description="Fetch one scene by id: a group of related memories with its summary.",
    hints=_READS,
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
    description="List the scenes you may read, latest first.",
    hints=_READS,
)

_DRAIN_INBOX = ToolSpec(
    "drain_inbox",
    (
        count("limit", limits.PAGE, "Default 20"),
        identifier("session_id", "Use this session's own place; give it when several run under your key"),
        name("project", "Only this project; the rest stays unread", example='"billing"'),
        ArgumentSpec("ack", "string", "cursor of the page you have read", max_chars=CURSOR_CHARS),
        flag("advance", "false only looks (default true)"),
        flag("include_content", "Default true"),
        moment("skip_before", "Give up entries older than this (time or span), for a huge backlog"),
        byte_budget("Default 20000"),
    ),
    title="Drain the inbox",
    description=(
        "Drain your inbox page by page: memories that matched your beacons, and what contradicts or replaces "
        "memories that you stored or were sent. The server keeps your place: call again until remaining is "
        "0. A page counts as read at your next call; pass its cursor as ack to be exact."
    ),
    hints=_CHANGES,
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
