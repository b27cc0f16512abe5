"""What a caller has stored is found by it at once, on whichever peer it reads next.

A gateway process names the memories that it stored last with each search.  A peer that lacks one waits for it
for a moment; if it does not come, the result says that it is stale.  Only the caller's own memories are looked
for, so nobody learns from this whether anything of somebody else exists.
"""

from __future__ import annotations

import asyncio

import apsw

from node import database
from node.principals import Principal
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
    missing, local = await context.pool.read(lambda db: _missing(context, db, call, named))
    signal, cluster = context.signal, context.cluster
    if not missing or signal is None or cluster is None or not cluster.status()["connected"]:
        return not missing  # nothing to wait for, or no way for it to come
    loop = asyncio.get_running_loop()
    until = loop.time() + WAIT_S
    while missing and (left_s := until - loop.time()) > 0:
        await signal.wait_beyond(local, left_s)
        missing, local = await context.pool.read(lambda db: _missing(context, db, call, named))
    return not missing


def _named(call: Call) -> list[bytes]:
    try:
        return [
            parse_uuid(text, "node_id") for text in (call.request.wrote or "").split(",")[:OWN_STORES] if text
        ]
    except Invalid:
        return []


def _missing(context: PeerContext, db: apsw.Connection, call: Call, named: list[bytes]) -> tuple[bool, int]:
    """Tell whether one of the memories is not here, and the place of arrival up to which that is true."""
    local = int(database.value(db, "SELECT ifnull(max(local), 0) FROM events"))
    return not all(_is_found(context, db, cell, call.principal) for cell in named), local


def _is_found(context: PeerContext, db: apsw.Connection, cell: bytes, p: Principal) -> bool:
    """Tell whether a cell of an agent can be searched: what a commit has changed is indexed just after it."""
    cell_no = database.value(
        db,
        "SELECT cell_no FROM cells WHERE cell=? AND tenant_id=? AND agent_id=?",
        cell,
        p.tenant,
        p.agent_id,
    )
    return cell_no is not None and context.retrieval.knows(p.tenant, cell_no)
