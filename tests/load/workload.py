"""What the agents of the load do, what they were promised by it, and what they got.

Agents come in teams that share a project.  Each has a beacon for everything in it, so that whatever one of
them stores must reach all the others, exactly; besides, they search, place beacons and work in sessions.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from tests.load.clients import Client, Outcome
from tests.load.measures import Measures

TEAM = 10
PAGE = 50
SUBJECTS = (
    "payments",
    "search",
    "login",
    "the importer",
    "the mobile app",
    "invoices",
    "backups",
    "the cache",
)
FACTS = (
    "{} must answer within {} ms or callers give up",
    "we retry {} at most {} times, because more made it worse",
    "the queue of {} is bounded at {} and refuses beyond",
    "{} keeps its state for {} days before it is archived",
    "on-call found that {} leaks {} file handles a day",
)
TYPES = ("Decision", "Fact", "Risk", "Lesson", "Constraint")


@dataclass
class Agent:
    """One agent and what it knows.

    Args:
        name: of the agent.
        client: its connection; the others are for calls side by side.
        team: number of its team.
        random: its own, seeded.
    """

    name: str
    client: Client
    team: int
    random: random.Random
    stored: set[str] = field(default_factory=set)
    listed: dict[str, str] = field(default_factory=dict)  # diff id -> node id
    repeated: int = 0
    ack: str | None = None

    @property
    def project(self) -> str:
        return f"team-{self.team}"

    def sentence(self) -> str:
        fact, number = self.random.choice(FACTS), self.random.randrange(10_000_000)
        return fact.format(self.random.choice(SUBJECTS), number)


class Workload:
    """Calls of agents, counted and timed.

    Args:
        measures: told of every call.
    """

    def __init__(self, measures: Measures) -> None:
        self._measures = measures
        self._kinds: dict[str, tuple[int, Callable[[Agent, Client], Awaitable[object]]]] = {
            "ping": (15, self.ping),
            "tools/list": (5, self.tools_list),
            "recall": (20, self.recall),
            "store": (20, self.store),
            "drain_inbox": (15, lambda agent, _client: self.drain(agent)),
            "list_beacons": (8, self.list_beacons),
            "place_beacon": (4, self.place_beacon),
            "sessions": (5, self.sessions),
            "diffs_since": (4, self.diffs_since),
            "list_scenes": (4, self.list_scenes),
        }

    async def live(self, agent: Agent, until_s: float, think_s: float) -> None:
        """Make mixed calls, one after the other with time to think between them, until a monotonic time."""
        await asyncio.sleep(agent.random.random() * think_s)
        weights = [weight for weight, _ in self._kinds.values()]
        while time.monotonic() < until_s:
            kind = agent.random.choices(list(self._kinds), weights)[0]
            await self._kinds[kind][1](agent, agent.client)
            await asyncio.sleep(agent.random.expovariate(1 / think_s))

    async def storm(self, agent: Agent, client: Client, until_s: float) -> None:
        """Make the costly calls without a pause but the one that a refusal asks for, until a monotonic time."""
        calls = (self.recall, self.recall, self.store, self.ping)
        while time.monotonic() < until_s:
            if not await agent.random.choice(calls)(agent, client):
                await asyncio.sleep(agent.random.random())

    # -- kinds of calls

    async def ping(self, agent: Agent, client: Client) -> bool:
        return (await self._call(client, "ping", "ping", {})).result is not None

    async def tools_list(self, agent: Agent, client: Client) -> None:
        await self._call(client, "tools/list", "tools/list", {})

    async def store(self, agent: Agent, client: Client) -> bool:
        cell = {
            "content": agent.sentence(),
            "cell_type": agent.random.choice(TYPES),
            "project": agent.project,
        }
        stored = await self._tool(client, "store", **cell)
        if stored is not None:
            agent.stored.add(stored["node_id"])
        return stored is not None

    async def recall(self, agent: Agent, client: Client) -> bool:
        return await self._tool(client, "recall", query=agent.sentence(), project=agent.project) is not None

    async def finds(self, agent: Agent, node_id: str) -> bool:
        """Tell whether a memory is found by its id; asked again while the peer is overloaded."""
        while True:
            found = await self._tool(agent.client, "recall", query=node_id, project=agent.project, k=3)
            if found is not None:
                return node_id in [result["node_id"] for result in found["results"]]
            await asyncio.sleep(0.1)

    async def watch(self, agent: Agent) -> None:
        """Place the beacon for everything in the team's project."""
        placed = await self._tool(agent.client, "place_beacon", interest="*", project=agent.project)
        assert placed is not None, "the first beacon was refused"

    async def place_beacon(self, agent: Agent, client: Client) -> None:
        interest = agent.random.choice(SUBJECTS)
        await self._tool(client, "place_beacon", interest=interest, project=agent.project)

    async def list_beacons(self, agent: Agent, client: Client) -> None:
        await self._tool(client, "list_beacons")

    async def list_scenes(self, agent: Agent, client: Client) -> None:
        await self._tool(client, "list_scenes", project=agent.project)

    async def diffs_since(self, agent: Agent, client: Client) -> None:
        await self._tool(client, "diffs_since", since="1h", project=agent.project)

    async def sessions(self, agent: Agent, client: Client) -> None:
        opened = await self._tool(client, "open_session", project=agent.project)
        while opened is not None:
            closed = await self._tool(client, "close_session", session_id=opened["session_id"])
            opened = opened if closed is None else None  # an open one would be left behind

    async def drain(self, agent: Agent) -> bool:
        """List a page, acknowledging the one before; tell whether there may be more."""
        ack = {} if agent.ack is None else {"ack": agent.ack}
        page = await self._tool(agent.client, "drain_inbox", limit=PAGE, project=agent.project, **ack)
        if page is None:
            return True
        agent.ack = page["cursor"] if page["diffs"] else None
        for diff in page["diffs"]:
            agent.repeated += diff["diff_id"] in agent.listed and not page.get("may_repeat", False)
            agent.listed[diff["diff_id"]] = diff["node_id"]
        return bool(page["diffs"])

    async def _tool(self, client: Client, name: str, **arguments: Any) -> dict[str, Any] | None:
        outcome = await self._call(client, name, "tools/call", {"name": name, "arguments": arguments})
        return outcome.result

    async def _call(self, client: Client, kind: str, method: str, params: dict[str, Any]) -> Outcome:
        began = time.perf_counter()
        outcome = await client.call(method, params)
        self._measures.note(kind, time.perf_counter() - began, outcome.failure)
        return outcome
