"""What every client does, and what it must see: one story, as data.

The duty: steps that a driver can send, and one expectation for each.  The peer's answers over plain HTTP, to
the same key, are the measure: a client must show exactly them.  It must not know any client.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

ELEVEN: Final = (
    "store",
    "recall",
    "query",
    "open_session",
    "close_session",
    "place_beacon",
    "list_beacons",
    "diffs_since",
    "get_scene",
    "list_scenes",
    "drain_inbox",
)

INTEREST: Final = "payment retries and idempotency keys"
WANTED: Final = "A payment is retried under the idempotency key of its first attempt — 冪等 👩‍👩‍👧"
UNWANTED: Final = "The plants in the lobby are watered on Fridays"
OWN: Final = "We ship the mobile app every second Tuesday, because the store reviews take four days"

STORE: Final = {"content": OWN, "cell_type": "Decision", "salience": 0.7, "tags": ["release"]}
RECALL: Final = {"query": "how often do we ship the app?", "from_agents": ["me"], "include_content": True}
DRAIN: Final = {"limit": 5}

SERVICE_ERROR: Final = (4040, "not_found: ", {"code": "not_found", "definite": True})
"""Code of the JSON-RPC error, how its message begins, and its data."""
VALIDATION_ERROR: Final = "invalid: cell_type "

Step = Mapping[str, Any]


def steps(project: str) -> list[Step]:
    """Return what a driver does, in order.  A step without a tool lists the tools.

    Args:
        project: where everything happens, one for each client.
    """
    return [
        {"name": "list"},
        {"name": "store", "tool": "store", "arguments": {**STORE, "project": project}},
        {"name": "recall", "tool": "recall", "arguments": {**RECALL, "project": project}},
        {"name": "invalid", "tool": "store", "arguments": {"content": OWN, "project": project}},
        {
            "name": "missing",
            "tool": "get_scene",
            "arguments": {"scene_id": "6f9619ff-8b86-d011-b42d-00cf4fc964ff"},
        },
        {"name": "drain", "tool": "drain_inbox", "arguments": {**DRAIN, "project": project}},
        {"name": "again", "tool": "drain_inbox", "arguments": {**DRAIN, "project": project}},
    ]
