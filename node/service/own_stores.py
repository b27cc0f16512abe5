"""What a caller has stored is found by it at once, on whichever peer it reads next.

A gateway process names the memories that it stored last with each search.  A peer that lacks one waits for it
for a moment; if it does not come, the result says that it is stale.  Only the caller's own memories are looked
for, so nobody learns from this whether anything of somebody else exists.
"""

from __future__ import annotations

import apsw

from node import database
from node.principals import Principal
from node.service.arrivals import arrives
from node.service.context import Call, PeerContext
from proto.errors import Invalid
from proto.ids import parse_uuid
from proto.messages import OWN_STORES

WAIT_S = 0.5
STALE = (
    "stale: something that you stored has not reached this peer yet. It is safe; search again in a moment."
)


async def are_here(context: PeerContext, call: Call) -> bool:
    """Tell whether what the caller stored last is found here, waiting for it up to half a second."""
    named = _named(call)
    if not named:
        return True
    return await arrives(context, lambda db: _are_found(context, db, call.principal, named), WAIT_S)


def _named(call: Call) -> list[bytes]:
    try:
        return [
            parse_uuid(text, "node_id") for text in (call.request.wrote or "").split(",")[:OWN_STORES] if text
        ]
    except Invalid:
        return []


def _are_found(context: PeerContext, db: apsw.Connection, p: Principal, named: list[bytes]) -> bool:
    """Tell whether all these memories of an agent can be searched: they are indexed just after their commit."""
    marks = ",".join("?" * len(named))
    held = database.rows(
        db,
        f"SELECT cell, cell_no FROM cells WHERE cell IN ({marks}) AND tenant_id=? AND agent_id=?",  # noqa: S608
        *named,
        p.tenant,
        p.agent_id,
    )
    return {cell for cell, cell_no in held if context.retrieval.knows(p.tenant, cell_no)} == set(named)
