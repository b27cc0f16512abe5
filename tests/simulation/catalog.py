"""All simulations by name: what a seed of each is, its planted bugs, what must sometimes happen in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from tests.simulation import bugs, forks, memory, memory_bugs, replication
from tests.simulation.outcome import Outcome
from tests.simulation.trace import Trace


class Simulate(Protocol):
    """Runs one seed to its end and checks it."""

    def __call__(self, seed: int, *, bug: str = ..., trace: Trace | None = ...) -> Outcome: ...


class PlantedBug(Protocol):
    """What the suite must know of a planted bug."""

    @property
    def breaks(self) -> str:
        """The guarantee by which it must be found."""

    @property
    def seeds(self) -> int:
        """Within how many it must be found."""


@dataclass(frozen=True, slots=True)
class Simulation:
    """One kind of history.

    Args:
        sometimes: by situation, how often it must occur, per seed on average.
        share: of the time of a long run.
        chunk: seeds that a worker takes at once, a few seconds' worth.
    """

    simulate: Simulate
    bugs: Mapping[str, PlantedBug]
    sometimes: Mapping[str, float]
    share: float
    chunk: int


SIMULATIONS = {
    replication.NAME: Simulation(replication.simulate, bugs.BUGS, replication.SOMETIMES, 0.45, 50),
    memory.NAME: Simulation(memory.simulate, memory_bugs.BUGS, memory.SOMETIMES, 0.4, 10),
    forks.NAME: Simulation(forks.simulate, forks.BUGS, forks.SOMETIMES, 0.15, 10),
}


def run(name: str, first: int, count: int, bug: str, until: str = "") -> list[Outcome]:
    """Run seeds one after the other.

    Args:
        until: stop once a finding begins with this guarantee, such as "G5".
    """
    outcomes: list[Outcome] = []
    for seed in range(first, first + count):
        outcomes.append(SIMULATIONS[name].simulate(seed, bug=bug))
        if until and any(finding.startswith(f"{until}:") for finding in outcomes[-1].findings):
            break
    return outcomes
