"""Which calls may be sent a second time although the first may have been executed.  Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from proto.messages import Request

READS: Final = frozenset(
    {"recall", "query", "list_beacons", "diffs_since", "get_scene", "list_scenes"}
    | {"get_node", "whoami", "list_keys", "peers", "status", "tail", "verify_log"}
    | {"list_sessions", "page_beacons", "explain_recall", "explain_entry", "export"}
)
_SAME_AGAIN: Final = frozenset({"close_session", "place_beacon", "withdraw_beacon"})


def is_read(request: Request) -> bool:
    """Tell whether a call changes nothing."""
    return request.method in READS


def is_repeatable(request: Request) -> bool:
    """Tell whether executing a call twice leaves what executing it once leaves, with an answer as good."""
    if request.method == "store":
        return _has_key(request.args)
    if request.method == "store_bulk":
        cells = request.args.get("cells")
        return isinstance(cells, (list, tuple)) and all(isinstance(c, Mapping) and _has_key(c) for c in cells)
    return is_read(request) or request.method in _SAME_AGAIN


def _has_key(args: Mapping[str, Any]) -> bool:
    return bool(args.get("idempotency_key"))
