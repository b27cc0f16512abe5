"""The simulated world with agents in it: more settings, and what agents asked for and were given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from tests.simulation.memory_history import History
from tests.simulation.world import Settings, World

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
        fast_clock: one peer's clock is an hour ahead.
        two_spaces: one peer embeds in another space than the rest.
        storm: crashes, restores and clones follow one another.
        tails: processes crash while they have events that are not durable yet.
        stores, beacons, sessions, consolidations, retirements: how many, at random moments.
    """

    appends: int = 0
    duration_ms: int = 10_000
    reply_loss: float = 0.15
    request_loss: float = 0.05
    gateway_restarts: float = 0.06
    sticky: float = 0.5
    skew_ms: float = 2_000.0
    fast_clock: bool = False
    two_spaces: bool = False
    storm: bool = False
    tails: bool = True
    stores: int = 40
    beacons: int = 10
    sessions: int = 5
    consolidations: int = 12
    retirements: int = 0


class MemoryWorld(World):
    """A world whose processes are `MemoryProcess`."""

    settings: MemorySettings

    def __init__(self, seed: int, settings: MemorySettings, checks: Checks) -> None:
        super().__init__(seed, settings, checks)
        self.history = History()

    def peers(self) -> list[MemoryProcess]:
        """Return the processes that run and do not know that their peer has retired."""
        running = cast("list[MemoryProcess]", self.running())
        return [p for p in running if p.site.replica.retired(p.site.peer) is None]
