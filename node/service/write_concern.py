"""Write concern: how many members must hold a store durably before it is answered, and what is said if not.

A store is durable here before this is asked, so nothing is lost or undone by a shortfall: the answer says how
many members hold it for certain, and it goes on spreading.  Nothing is waited for that cannot come.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

from node.service.context import PeerContext
from proto.streams import Position, StreamId

SPARE = 3  # members from which a second one can be waited for although one is away
# Longer than it takes to mend a lost live event (a digest within 1.2 s, 60 ms to settle, one pull), shorter than
# callers over NATS wait for a peer before they ask another (`mesh.requester_nats.PATIENCE_S`).
WAIT_S = 1.5
MARGIN_S = 0.3  # before the deadline of the call, for the way back


def concern_of(setting: int, members: int) -> int:
    """Return how many members must hold a store.

    Args:
        setting: from the operator; 0 to decide by the members.
        members: of the mesh, whether or not they are up.
    """
    return setting or (2 if members >= SPARE else 1)


class WriteConcern:
    """Asks the mesh around this peer.

    Args:
        count: told, of each store for which others were waited, the seconds and whether it fell short.
    """

    def __init__(self, context: PeerContext, count: Callable[[float, bool], None]) -> None:
        self._context = context
        self._count = count

    async def shortfall(self, stored: Iterable[Position], deadline_ms: int) -> dict[str, Any]:
        """Return {} once enough members hold these events, else what to say of them.

        Args:
            stored: events that are durable here; of several in one stream the last is waited for.
            deadline_ms: of the call, wall clock.
        """
        context = self._context
        wanted = concern_of(context.write_concern, context.member_count())
        last: dict[StreamId, int] = {}
        for stream, sequence in stored:
            last[stream] = max(sequence, last.get(stream, 0))
        if wanted <= 1 or not last:
            return {}
        began = time.monotonic()
        durable_on = await self._least(last, wanted, (deadline_ms - context.now_ms) / 1000 - MARGIN_S)
        self._count(time.monotonic() - began, durable_on < wanted)
        if durable_on >= wanted:
            return {}
        where = "one peer" if durable_on == 1 else f"{durable_on} peers"
        note = f"Stored, on {where} so far; it spreads to the others by itself. Nothing to repeat."
        return {"durable_on": durable_on, "wanted": wanted, "note": note}

    async def _least(self, last: dict[StreamId, int], wanted: int, left_s: float) -> int:
        """Return on how many members all of the events are, having waited for those that can be reached."""
        cluster = self._context.cluster
        if cluster is None:
            return 1
        status = cluster.status()
        reachable = status["connected"] and status["peers_up"] >= wanted
        until = time.monotonic() + (min(WAIT_S, left_s) if reachable else 0.0)
        return min(
            [
                max(1, await cluster.durable_on(stream, sequence, wanted, until - time.monotonic()))
                for stream, sequence in last.items()
            ]
        )
