"""REST as a table: which route is which method of the service, and how a request becomes its arguments.

Pure.  Validation is the same as for the tools; this only says where the arguments come from.  A new route is
a new row.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl

from mcp_gateway import jsonrpc, operations
from mcp_gateway.specs import CallSpec
from proto.errors import TABLE, HyphaeError, Invalid
from proto.limits import BULK_BODY_BYTES, HTTP_BODY_BYTES

QUERY_FIELDS = 256  # three full filters and whatever else a call takes


@dataclass(frozen=True, slots=True)
class Route:
    """One row.

    Args:
        verb: of HTTP.
        template: of the path; `{name}` is an argument, one segment without a colon.
        call: method of the service.
        what: it does, as one sentence.
        body_bytes: limit of the body.
    """

    verb: str
    template: str
    call: str
    what: str
    body_bytes: int = HTTP_BODY_BYTES

    @property
    def spec(self) -> CallSpec:
        """What describes the method."""
        spec = operations.find(self.call)
        assert spec is not None
        return spec

    @property
    def in_path(self) -> frozenset[str]:
        """The arguments that the path holds."""
        return frozenset(re.findall(r"\{(\w+)\}", self.template))


ROUTES = (
    Route("POST", "/v1/nodes", "store", "Store a memory."),
    Route(
        "POST", "/v1/nodes:bulk", "store_bulk", "Store up to 256 memories, each by itself.", BULK_BODY_BYTES
    ),
    Route("GET", "/v1/nodes/{node_id}", "get_node", "Read a whole memory with its provenance."),
    Route("POST", "/v1/recall", "recall", "Search memories."),
    Route("POST", "/v1/query", "query", "Search one layer."),
    Route("GET", "/v1/sessions", "list_sessions", "List your open sessions."),
    Route("POST", "/v1/sessions", "open_session", "Open a working session."),
    Route("POST", "/v1/sessions/{session_id}:close", "close_session", "Close a session."),
    Route("GET", "/v1/beacons", "page_beacons", "List your beacons."),
    Route("POST", "/v1/beacons", "place_beacon", "Place, change or remove a standing interest."),
    Route("DELETE", "/v1/beacons/{beacon_id}", "withdraw_beacon", "Remove a beacon."),
    Route("POST", "/v1/inbox:drain", "drain_inbox", "Read what waits for you, page by page."),
    Route("GET", "/v1/diffs", "diffs_since", "Read again what was delivered to you since a time."),
    Route("GET", "/v1/scenes", "list_scenes", "List scenes, latest first."),
    Route("GET", "/v1/scenes/{scene_id}", "get_scene", "Read a scene with its memories."),
    Route("POST", "/v1/scenes/consolidate", "consolidate_scenes", "Group memories into scenes."),
    Route("GET", "/v1/explain/recall", "explain_recall", "Why a search returns a memory or does not."),
    Route("GET", "/v1/explain/inbox/{diff_id}", "explain_entry", "Why a diff is in your inbox."),
    Route("GET", "/v1/export", "export", "Read everything that you may read, page by page."),
    Route("GET", "/v1/whoami", "whoami", "Whom your key authenticates."),
    Route("GET", "/v1/keys", "list_keys", "List keys, without their secrets."),
    Route("POST", "/v1/keys", "issue_key", "Issue a key; its secret is in this answer alone."),
    Route("DELETE", "/v1/keys/{id}", "revoke_key", "Revoke a key."),
    Route("POST", "/v1/keys/{id}:rotate", "rotate_key", "Replace a key by one with the same rights."),
    Route("GET", "/v1/peers", "peers", "List the members of the mesh."),
    Route("POST", "/v1/peers:invite", "invite_peer", "Make a token with which other machines join."),
    Route(
        "POST",
        "/v1/peers/{peer}:retire",
        "retire_peer",
        "End the membership of a peer that is gone for good.",
    ),
    Route("GET", "/v1/status", "status", "Look at the peer."),
)


@dataclass(frozen=True, slots=True)
class Found:
    """The routes of a path by verb, and the arguments that the path holds."""

    by_verb: Mapping[str, Route]
    args: Mapping[str, str]


def _index() -> tuple[dict[str, dict[str, Route]], list[tuple[re.Pattern[str], dict[str, Route]]]]:
    fixed: dict[str, dict[str, Route]] = {}
    for route in ROUTES:
        fixed.setdefault(route.template, {})[route.verb] = route
    patterns = []
    for template in [template for template in fixed if "{" in template]:
        pattern = re.sub(r"\{(\w+)\}", r"(?P<\1>[^/:]+)", template)
        patterns.append((re.compile(pattern), fixed.pop(template)))
    return fixed, patterns


_FIXED, _PATTERNS = _index()


def find(path: str) -> Found | None:
    """Return what answers at a path, or None."""
    fixed = _FIXED.get(path)
    if fixed is not None:
        return Found(fixed, {})
    for pattern, by_verb in _PATTERNS:
        found = pattern.fullmatch(path)
        if found is not None:
            return Found(by_verb, found.groupdict())
    return None


def collect(
    path_args: Mapping[str, str], query: bytes, body: bytes, spec: CallSpec | None = None
) -> dict[str, Any]:
    """Return the raw arguments of a request: of its path, its query string and its JSON body.

    Args:
        path_args: as `find` returned them.
        query: the query string; a name given twice becomes an array.
        body: a JSON object, or nothing.
        spec: of the call: a name that stands for an array becomes one also where it is given once.

    Raises:
        Invalid: the body is no JSON object, the query is no UTF-8 or has too many fields, or one argument is
            given in two places.
    """
    args: dict[str, Any] = dict(path_args)
    for source in (_fields(query, spec), _object(body)):
        for name, value in source.items():
            if name in args:
                raise Invalid(f"{name[:40]} is given twice: in the path or query, and again. Give it once.")
            args[name] = value
    return args


def _fields(query: bytes, spec: CallSpec | None) -> dict[str, Any]:
    if not query:
        return {}
    try:
        pairs = parse_qsl(
            query.decode(), keep_blank_values=True, max_num_fields=QUERY_FIELDS, errors="strict"
        )
    except UnicodeDecodeError:
        raise Invalid("the query is not UTF-8. Nothing was changed. Encode it as UTF-8.") from None
    except ValueError:
        raise Invalid(f"the query has more than {QUERY_FIELDS} fields. Give fewer.") from None
    fields: dict[str, Any] = {}
    for name, value in pairs:
        if name not in fields:
            fields[name] = value
        elif isinstance(fields[name], list):
            fields[name].append(value)
        else:
            fields[name] = [fields[name], value]
    arrays = () if spec is None else [a.name for a in spec.arguments if a.kind in ("strings", "integers")]
    for name in arrays:
        if isinstance(one := fields.get(name), str) and not one.lstrip().startswith("["):
            fields[name] = [one]
    return fields


def _object(body: bytes) -> Mapping[str, Any]:
    if not body.strip():
        return {}
    try:
        value = jsonrpc.loads(body)
    except ValueError as error:
        raise Invalid(f"the body is no JSON: {error}. Nothing was changed. Send one JSON object.") from None
    if not isinstance(value, dict):
        raise Invalid('the body is no JSON object. Nothing was changed. Send one such as {"k": 5}.')
    return value


def error_body(error: HyphaeError) -> dict[str, Any]:
    """Return an error as REST shows it."""
    fields: dict[str, Any] = {"code": error.code, "message": error.message, "definite": error.definite}
    if error.retry_after_ms is not None:
        fields["retry_after_ms"] = error.retry_after_ms
    return {"error": fields}


def error_status(error: HyphaeError) -> int:
    """Return the HTTP status of an error."""
    return TABLE[error.code].http


def retry_after(error: HyphaeError) -> list[tuple[bytes, bytes]]:
    """Return the Retry-After header of an error, in whole seconds, if it has one."""
    if error.retry_after_ms is None:
        return []
    return [(b"retry-after", str(max(1, -(-error.retry_after_ms // 1000))).encode("ascii"))]
