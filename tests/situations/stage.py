"""Where a working situation is played: a team of its own on a real peer, and agents that see text only.

Each answer is held to what clients show (`tests.support.mcp_agent`).  A situation is a script: who the agents
are, the calls that an agent should make in their order, and what it gets; what a text advises is carried out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any

from tests.support.mcp_agent import McpAgent
from tests.support.open_service import OpenPeer


class Stage:
    """A team: one tenant, which sees nothing of other situations.

    Args:
        runner: of the loop that the peer lives on.
        peer: that serves the team.
        team: its name.
    """

    def __init__(self, runner: asyncio.Runner, peer: OpenPeer, team: str) -> None:
        self.runner, self.peer, self.team = runner, peer, team

    async def key(self, name: str, **rights: Any) -> dict[str, Any]:
        """Issue a key of this team; return {id, key, ...}."""
        return dict(await self.peer.call("issue_key", {"agent": name, "tenant": self.team, **rights}))

    async def agent(self, name: str, *, workspace: str | None = "shop", **rights: Any) -> McpAgent:
        """Return an agent that works in a workspace."""
        return McpAgent(self.peer, (await self.key(name, **rights))["key"], workspace)


def situation(script: Callable[[Stage], Awaitable[None]]) -> Callable[[Stage], None]:
    """Return the test that plays a script on the peer with the real model."""

    @wraps(script)
    def test(stage: Stage) -> None:
        stage.runner.run(_bounded(script(stage)))

    return test


def situation_without_model(script: Callable[[Stage], Awaitable[None]]) -> Callable[[Stage], None]:
    """Return the test that plays a script where nothing depends on what texts mean."""

    def test(small_stage: Stage) -> None:
        small_stage.runner.run(_bounded(script(small_stage)))

    test.__name__, test.__doc__ = script.__name__, script.__doc__
    return test


async def _bounded(play: Awaitable[None]) -> None:
    async with asyncio.timeout(60):
        await play
