"""Appending one event on behalf of a call."""

from __future__ import annotations

from collections.abc import Callable

from node.replica import Draft
from node.service.context import Call, PeerContext
from node.sqlite_log import Logged
from proto.errors import HyphaeError
from proto.payloads import Payload, WireFrontier


async def append_one(context: PeerContext, call: Call, build: Callable[[WireFrontier], Payload]) -> Logged:
    """Append one event durably as the caller's.

    Raises:
        HyphaeError: it was kept out; nothing changed.
    """
    p = call.principal
    (outcome,) = await context.writer.append([Draft(p.tenant, p.agent_id, build)])
    if isinstance(outcome, HyphaeError):
        raise outcome
    return outcome
