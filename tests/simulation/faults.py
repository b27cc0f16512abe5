"""What happens to a world: work, and everything that goes wrong."""

from __future__ import annotations

from collections.abc import Callable

from tests.simulation.process import Process
from tests.simulation.world import World

CLONES_MAX = 2
BURST = 12


class Nemesis:
    """Schedules work and faults for the duration of a run.

    Args:
        new_process: makes a process on a site, for copied directories.
    """

    def __init__(self, world: World, new_process: Callable[..., Process]) -> None:
        self._world = world
        self._new_process = new_process
        self._clones = 0
        duration = world.settings.duration_ms
        for _ in range(world.settings.appends):
            world.at(world.rng.uniform(0, duration), self._work)
        world.at(200, self._strike)
        world.at(100, self._probe)

    def _work(self) -> None:
        running = self._world.running()
        if not running:
            return
        process = self._world.rng.choice(running)
        for _ in range(BURST if self._world.rng.random() < 0.05 else 1):
            process.append()

    def _probe(self) -> None:
        if self._world.now < self._world.settings.duration_ms:
            self._world.checks.anytime_caught_up_is_true(self._world)
            for process in self._world.running():
                self._world.checks.anytime_durable_on_is_true(process)
            self._world.at(150, self._probe)

    def _strike(self) -> None:
        rng, faults = self._world.rng, self._world.settings.faults
        kind = rng.choices(
            ("partition", "heal", "outage", "crash", "restore", "clone"), (25, 20, 8, 22, 18, 7)
        )[0]
        if kind == "heal":
            self._world.island = frozenset()
        elif kind in faults:
            getattr(self, f"_{kind}")()
        if self._world.now < self._world.settings.duration_ms:
            self._world.at(rng.uniform(200, 1_200), self._strike)

    def _partition(self) -> None:
        numbers = range(len(self._world.processes))
        size = self._world.rng.randrange(1, max(2, len(numbers)))
        self._world.island = frozenset(self._world.rng.sample(numbers, size))

    def _outage(self) -> None:
        self._world.set_network(False)
        self._world.at(self._world.rng.uniform(100, 1_500), self._world.set_network, True)

    def _crash(self) -> None:
        process = self._world.rng.choice(self._world.processes)
        if process.up:
            process.crash()
            self._world.at(self._world.rng.uniform(100, 2_000), self._boot, process)

    def _restore(self) -> None:
        """Take a backup first; later, put it back."""
        process = self._world.rng.choice(self._world.processes)
        if not process.up:
            return
        if process.backup is None or self._world.rng.random() < 0.3:
            process.backup = process.site.backup()
            return
        process.crash()
        process.restore()
        self._world.at(self._world.rng.uniform(100, 1_500), self._boot, process)

    def _clone(self) -> None:
        """Copy a directory, or an old backup of it, and run both."""
        if self._clones >= CLONES_MAX:
            return
        self._clones += 1
        original = self._world.rng.choice(self._world.processes)
        content = original.backup if original.backup is not None else original.site.backup()
        twin = self._new_process(original.site.clone(content))
        self._world.add(twin)
        twin.boot()

    def _boot(self, process: Process) -> None:
        if not process.up:
            process.boot()
