"""Waiting for a moment for what a caller knows to exist and what has not reached this peer yet."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import apsw

from node.service.context import PeerContext


async def arrives(context: PeerContext, is_here: Callable[[apsw.Connection], bool], wait_s: float) -> bool:
    """Tell whether something is found here, waiting for it as long as it can come.

    Args:
        is_here: asked on a reading thread, at first and after each commit.
        wait_s: seconds at most.
    """
    signal, cluster = context.signal, context.cluster
    told = 0 if signal is None else signal.local
    found = await context.pool.read(is_here)
    if found or signal is None or cluster is None or not cluster.status()["connected"]:
        return found  # nothing to wait for, or no way for it to come
    loop = asyncio.get_running_loop()
    until = loop.time() + wait_s
    while not found and (left_s := until - loop.time()) > 0:
        await signal.wait_beyond(told, left_s)
        told = signal.local
        found = await context.pool.read(is_here)
    return found
