"""The whole proof: a real peer, its agents, two phases of load, and what must hold after them.

`anytime` no failure but declared overload; `finally` every acknowledged store is found by its id, every log
verifies, every inbox got every diff of its team exactly, nothing is left under way, no process has grown beyond
what it stores.  Run by `python -m tests.load`, or as a test by naming this file.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.load.clients import HttpClient, StdioClient
from tests.load.measures import Held, Measures
from tests.load.workload import TEAM, Agent, Workload
from tests.support.http_agent import HttpAgent
from tests.support.running_mesh import RunningPeer, running_peer

WARM_UP = 1 / 3  # of the mixed phase: pools, caches and the allocator are full by then
STORM_S = 15.0
LANES = 6  # connections of each agent in the storm: more calls at once than a peer has places
THINK_S = 2.5  # of an agent between two calls: two cores carry 200 of them, half busy
PEER_BYTES = 32 * 1024 * 1024  # growth without a cause: allocator, page cache, Python's own
CELL_BYTES = 24 * 1024  # of the peer for each memory: text, vector, columns, index, and nine inbox entries
GATEWAY_BYTES = 6 * 1024 * 1024
HANDLES = 8

Say = Callable[[str], None]


@dataclass
class Report:
    """What came of it.

    Args:
        violations: sentences; none when all held.
        facts: figures by name.
        phases: rows of `Measures.rows` by phase.
    """

    violations: list[str] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)
    phases: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    def expect(self, holds: bool, otherwise: str) -> None:
        if not holds:
            self.violations.append(otherwise)


@dataclass(frozen=True, slots=True)
class Size:
    """How large the load is: seconds of the mixed phase, agents over HTTP, gateways."""

    seconds: float = 60.0
    agents: int = 200
    gateways: int = 20


async def prove(size: Size, say: Say) -> Report:
    """Run everything; nothing that was started is left afterwards."""
    report, measures = Report(), Measures()
    with running_peer("--no-nats") as peer:
        operator = peer.operator()
        operator("status")
        before = Held.of(peer.pid)
        say(f"a peer with the real model: process {peer.pid}")
        async with _agents(peer, operator, size, say) as agents:
            operator.close()  # it is opened again when needed: the peer hangs up on idle ones
            load = _Load(peer, operator, agents, Workload(measures), measures, report, say)
            for step in (load.mixed(size.seconds), load.storm(), load.check()):
                await step
                held, own = Held.of(peer.pid), Held.of(os.getpid())
                say(
                    f"  the peer: {held.rss / 1e6:.0f} MB, {held.cpu_s:.0f} s of CPU; this process: {own.cpu_s:.0f} s"
                )
                report.facts.setdefault("peer_mb after each phase", []).append(round(held.rss / 1e6, 1))
        await _until(lambda: Held.of(peer.pid).handles <= before.handles + HANDLES)
        after = Held.of(peer.pid)
        report.facts["handles of the peer"] = [before.handles, after.handles]
        report.expect(
            after.handles <= before.handles + HANDLES,
            f"the peer had {before.handles} file handles before its clients and {after.handles} after them",
        )
    return report


@asynccontextmanager
async def _agents(peer: RunningPeer, operator: HttpAgent, size: Size, say: Say) -> AsyncIterator[list[Agent]]:
    """Issue a key to each agent and connect it; every client is gone afterwards."""
    agents: list[Agent] = []
    try:
        for number in range(size.agents + size.gateways):
            name = f"load-{number}"
            key = str(operator("issue_key", agent=name)["key"])
            client = (
                HttpClient(peer.url, key)
                if number < size.agents
                else await StdioClient.start(peer.directory, peer.root / name, key)
            )
            team = number % max(1, (size.agents + size.gateways) // TEAM)
            agents.append(Agent(name, client, team, random.Random(number)))
        say(f"{size.agents} agents over HTTP and {size.gateways} stdio gateways are connected")
        yield agents
    finally:
        await asyncio.gather(*(agent.client.close() for agent in agents))


@dataclass
class _Load:
    """One run against one peer."""

    peer: RunningPeer
    operator: HttpAgent
    agents: list[Agent]
    work: Workload
    measures: Measures
    report: Report
    say: Say

    async def mixed(self, seconds: float) -> None:
        """Mixed calls with time to think; memory is compared between the end of the warm-up and the end."""
        await asyncio.gather(*(self.work.watch(agent) for agent in self.agents))
        self.measures.phase = "mixed"
        until_s = time.monotonic() + seconds
        living = asyncio.gather(*(self.work.live(agent, until_s, THINK_S) for agent in self.agents))
        await asyncio.wait({living}, timeout=seconds * WARM_UP)
        warm, cells, calls = self._held(), self._stored(), self.measures.calls("mixed")
        await living
        self._compare(warm, self._held(), self._stored() - cells, self.measures.calls("mixed") - calls)

    async def storm(self) -> None:
        """More calls at once than the peer admits, without a pause; then one call that must succeed."""
        self.measures.phase = "storm"
        clients = [(a, a.client) for a in self.agents if isinstance(a.client, HttpClient)]
        lanes = [(agent, client.another()) for agent, client in clients for _ in range(LANES)]
        self.say(f"overload on purpose: {len(lanes)} connections, {STORM_S:.0f} s")
        until_s = time.monotonic() + STORM_S
        try:
            await asyncio.gather(*(self.work.storm(agent, lane, until_s) for agent, lane in lanes))
        finally:
            await asyncio.gather(*(lane.close() for _, lane in lanes))
        share = self.measures.overloaded("storm") / max(1, self.measures.calls("storm"))
        self.report.facts["share of declared overload"] = {
            "mixed": round(self.measures.overloaded("mixed") / max(1, self.measures.calls("mixed")), 4),
            "storm": round(share, 4),
        }

    async def check(self) -> None:
        """Look at everything that must hold in the end."""
        self.measures.phase = "check"
        self.say(f"finding {self._stored()} memories by their ids, and draining every inbox")
        await asyncio.gather(*(self._check_found(agent) for agent in self.agents))
        await asyncio.gather(*(self._check_inbox(agent) for agent in self.agents))
        verified = await asyncio.to_thread(self.operator, "verify_log")
        self.report.facts["log"] = verified
        self.report.expect(bool(verified["ok"]), f"the log does not verify: {verified}")
        text = (await asyncio.to_thread(self.operator.send, "GET", "/metrics", None))[1].decode()
        self.report.expect("\nhyphae_calls_under_way 0.0\n" in text, "calls are still under way")
        for failure, count in self.measures.failures.items():
            self.report.expect(False, f"{count} x {failure}")
        self.report.phases = {phase: self.measures.rows(phase) for phase in ("mixed", "storm")}
        self.report.facts["memories stored"] = self._stored()
        self.report.facts["entries listed"] = sum(len(agent.listed) for agent in self.agents)

    async def _check_found(self, agent: Agent) -> None:
        for node_id in agent.stored:
            self.report.expect(
                await self.work.finds(agent, node_id), f"{node_id} was acknowledged and is lost"
            )

    async def _check_inbox(self, agent: Agent) -> None:
        while await self.work.drain(agent):
            continue
        due = {
            node_id
            for other in self.agents
            if other.team == agent.team and other is not agent
            for node_id in other.stored
        }
        missing = due - set(agent.listed.values())
        self.report.expect(not missing, f"{agent.name} never saw {len(missing)} of {len(due)} diffs")
        self.report.expect(not agent.repeated, f"{agent.name} saw {agent.repeated} diffs again, unmarked")

    def _compare(self, warm: dict[str, Held], end: dict[str, Held], cells: int, calls: int) -> None:
        """Compare what processes hold at the end of the warm-up with what they hold at the end."""
        grown = {name: end[name].rss - warm[name].rss for name in warm}
        peer = grown.pop("peer")
        worst = max(grown.values(), default=0)
        self.report.facts["memory"] = {
            "peer_mb": [round(h["peer"].rss / 1e6, 1) for h in (warm, end)],
            "peer_grown_kb_per_1000_calls": round(peer / 1000 / max(1, calls) * 1000, 1),
            "peer_grown_kb_per_memory": round(peer / 1000 / max(1, cells), 1),
            "calls_between": calls,
            "memories_between": cells,
            "largest_growth_of_a_gateway_kb": round(worst / 1000, 1),
            "gateway_mb": round(max((h.rss for n, h in end.items() if n != "peer"), default=0) / 1e6, 1),
        }
        limit = PEER_BYTES + cells * CELL_BYTES
        self.report.expect(
            peer <= limit, f"the peer grew by {peer} bytes over {cells} memories, limit {limit}"
        )
        self.report.expect(worst <= GATEWAY_BYTES, f"a gateway grew by {worst} bytes, limit {GATEWAY_BYTES}")
        for name, held in warm.items():
            leaks = end[name].handles > held.handles + HANDLES or end[name].threads > held.threads + 2
            self.report.expect(not leaks, f"{name} held {held} after the warm-up and {end[name]} at the end")

    def _held(self) -> dict[str, Held]:
        gateways = {a.name: a.client.process.pid for a in self.agents if isinstance(a.client, StdioClient)}
        return {name: Held.of(pid) for name, pid in {"peer": self.peer.pid, **gateways}.items()}

    def _stored(self) -> int:
        return sum(len(agent.stored) for agent in self.agents)


async def _until(condition: Callable[[], bool]) -> None:
    """Wait a while for a condition; whoever asked looks again."""
    until_s = time.monotonic() + 10
    while not condition() and time.monotonic() < until_s:
        await asyncio.sleep(0.05)


@pytest.mark.timeout(420)
def test_two_hundred_agents_and_twenty_gateways_are_served_without_a_violation() -> None:
    assert asyncio.run(prove(Size(), print)).violations == []
