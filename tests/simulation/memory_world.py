"""The simulated world with agents in it: more settings, and what agents asked for and were given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from tests.simulation.memory_history import History
from tests.simulation.trace import Trace
from tests.simulation.world import ALL_FAULTS, Settings, World

if TYPE_CHECKING:
    from tests.simulation.checks import Checks
    from tests.simulation.memory_process import MemoryProcess


@dataclass(frozen=True, slots=True)
class MemorySettings(Settings):
    """What happens in a run, beyond the faults of `Settings`.

    Args:
        reply_loss: share of replies to readers that are lost.
        request_loss: share of requests of readers that are lost.
        gateway_restarts: how often a gateway process ends, or an agent loses its context, before a call.
        sticky: how often a reader stays with the peer of its last call.
        skew_ms: wall clocks are off by at most this.
        clocks: what is wrong with the wall clock of one peer in two; see `clocks.KINDS`.
        two_spaces: one peer embeds in another space than the rest.
        storm: crashes, restores and clones follow one another.
        stores, beacons, sessions, consolidations, retirements, invitations, poison: how many, at random moments.
        second_gateway: one agent also reads through another gateway, at the same time.
    """

    appends: int = 0
    duration_ms: int = 10_000
    reply_loss: float = 0.15
    request_loss: float = 0.05
    gateway_restarts: float = 0.06
    sticky: float = 0.5
    skew_ms: float = 2_000.0
    clocks: tuple[str, ...] = ("right",)
    faults: frozenset[str] = ALL_FAULTS - {"retire"}  # peers are retired by events, see `retirement`
    two_spaces: bool = False
    storm: bool = False
    stores: int = 40
    beacons: int = 10
    sessions: int = 5
    consolidations: int = 12
    retirements: int = 0
    invitations: int = 3
    poison: int = 3
    second_gateway: bool = False


class MemoryWorld(World):
    """A world whose processes are `MemoryProcess`."""

    settings: MemorySettings

    def __init__(
        self, seed: int, settings: MemorySettings, checks: Checks, trace: Trace | None = None
    ) -> None:
        super().__init__(seed, settings, checks, trace)
        self.history = History()
        self.counts = self.history.counts

    def peers(self) -> list[MemoryProcess]:
        """Return the processes that run and do not know that their peer has retired."""
        running = cast("list[MemoryProcess]", self.running())
        return [p for p in running if p.site.replica.retired(p.site.peer) is None]
