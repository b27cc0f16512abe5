"""What the acts of the story share: the mesh, the memories, the keys, the agents, and what was measured.

Holds and closes them; tells and claims nothing itself.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from deploy.demo.agents import HttpAgent, McpAgent, StdioAgent
from deploy.demo.checking import until
from deploy.demo.corpus import Memory
from deploy.demo.forecast import Forecast
from deploy.demo.http_wire import Refused, Rest, Unreachable
from deploy.demo.interrupts import Interrupts
from deploy.demo.mesh_under_test import MeshUnderTest
from deploy.demo.telling import Telling

PEERS = 3
READER = "data-agent"  # wrote none of the memories that are labelled with what it asks for
WRITER = "billing-claude"
ASKER = "mobile-agent"
INTEREST = "payment retries and idempotency keys"
LABEL = "payment-retries"
THRESHOLD = 3_000  # ten-thousandths: the default of place_beacon, 0.30
LATE_MEMORY = Memory(
    WRITER,
    "billing",
    "Decision",
    0.8,
    ("payments", "retries"),
    "After a restart the payment worker asks the provider by idempotency key before it retries a payment: "
    "in the night of incident 2025-118 its own memory of what was under way turned out to be incomplete.",
)


@dataclass(slots=True)
class Stage:
    """See the module.

    Args:
        node_ids: of what was acknowledged, by content.
        figures: what was measured, for the summary; names end in their unit.
    """

    telling: Telling
    mesh: MeshUnderTest
    interrupts: Interrupts
    memories: Sequence[Memory]
    night: Sequence[Memory]
    keys: dict[str, str] = field(default_factory=dict)
    agents: list[McpAgent] = field(default_factory=list)
    node_ids: dict[str, str] = field(default_factory=dict)
    figures: dict[str, Any] = field(default_factory=dict)

    def rest(self, number: int, agent: str | None = None) -> Rest:
        """Return REST of a peer, under the key of an agent or the operator's."""
        key = self.mesh.admin_key if agent is None else self.keys[agent]
        return Rest(self.mesh.url(number), key)

    def close(self) -> None:
        """Let all agents leave."""
        while self.agents:
            self.agents.pop().close()


@dataclass(frozen=True, slots=True)
class Cast:
    """The three attached agents, and what the reader ought to find.

    Args:
        reader: over stdio, on peer-1.
        writer: over HTTP, on peer-2.
        asker: over HTTP, on peer-3.
    """

    reader: StdioAgent
    writer: HttpAgent
    asker: HttpAgent
    forecast: Forecast


class Clock:
    """Milliseconds since it was made."""

    def __init__(self) -> None:
        self._began = time.perf_counter()

    def ms(self) -> float:
        """Return how many have passed."""
        return (time.perf_counter() - self._began) * 1000


def wait_for_cells(stage: Stage, number: int, count: int, deadline_s: float) -> None:
    """Wait until a peer holds at least so many memories.

    Raises:
        StoryFailed: the deadline passed.
    """
    peer = stage.rest(number)
    held = -1

    def enough() -> bool | None:
        nonlocal held
        with suppress(Refused, Unreachable):  # a peer that has just been started may not answer yet
            held = int(peer.status()["cells"])
        return held >= count or None

    until(enough, deadline_s, lambda: f"peer-{number} holds {held} memories of {count}.")
    peer.close()
