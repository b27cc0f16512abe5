"""Draining keeps an agent's beacons alive: once half of a beacon's time is gone, a drain renews it."""

from __future__ import annotations

import apsw

from node import database
from node.replica import Draft
from node.service.context import Call, PeerContext
from node.stored_events import read_stored
from proto.errors import HyphaeError
from proto.payloads import BeaconPlaced, BeaconsRenewed

CHECK_EVERY_MS = 10 * 60_000
AGENTS_REMEMBERED = 10_000  # of more than so many all are looked at again, which only costs a query each


async def renew_beacons(context: PeerContext, call: Call) -> None:
    """Append one `BeaconsRenewed` for the beacons of the caller that are past half of their time, if any."""
    now_ms = context.now_ms
    agent = call.principal.agent_id
    if now_ms - context.renewals_checked_ms.get(agent, 0) < CHECK_EVERY_MS:
        return
    if len(context.renewals_checked_ms) >= AGENTS_REMEMBERED:
        context.renewals_checked_ms.clear()
    context.renewals_checked_ms[agent] = now_ms
    due = await context.pool.read(lambda db: _due(db, agent, now_ms))
    for ttl_s, beacons in due.items():
        renewed = BeaconsRenewed(beacons=tuple(beacons), expires_ms=now_ms + ttl_s * 1000)
        (outcome,) = await context.writer.append([Draft.of(call.principal.tenant, agent, renewed)])
        if isinstance(outcome, HyphaeError):
            raise outcome


def _due(db: apsw.Connection, agent: bytes, now_ms: int) -> dict[int, list[bytes]]:
    out: dict[int, list[bytes]] = {}
    for beacon, local, renewed_ms in database.rows(
        db,
        "SELECT p.beacon, max(p.local), ifnull(max(r.expires_ms), 0) FROM placements p"
        " LEFT JOIN renewals r ON r.beacon=p.beacon WHERE p.agent_id=? GROUP BY p.beacon",
        agent,
    ):
        stored = read_stored(db, local)
        payload = None if stored is None else stored.payload
        if not isinstance(payload, BeaconPlaced):
            continue
        expires_ms = max(payload.expires_ms, renewed_ms)
        if now_ms < expires_ms < now_ms + payload.ttl_s * 500:
            out.setdefault(payload.ttl_s, []).append(beacon)
    return out
