"""What happens to a world: work, and everything that goes wrong."""

from __future__ import annotations

from collections.abc import Callable

from proto.ids import PeerId
from tests.simulation import steps
from tests.simulation.partitions import SHAPES, WHOLE
from tests.simulation.process import Process
from tests.simulation.site import Site
from tests.simulation.world import World
from tests.support.sealed import peer

CLONES_MAX = 2
JOINS_MAX = 2
BURST = 12
BACKLOG = 60  # events that a peer writes while all others are down
PROBED_MS = 300

WEIGHTS = {
    "partition": 24,
    "heal": 20,
    "outage": 6,
    "crash": 16,
    "crash of all": 3,
    "rolling restart": 3,
    "catching up": 2,
    "restore": 14,
    "wipe": 3,
    "clone": 6,
    "hang": 8,
    "slow": 4,
    "join": 3,
    "retire": 3,
}
"""How often each fault strikes; "heal" mends the network."""


class Nemesis:
    """Schedules work and faults for the duration of a run.

    Args:
        new_process: makes a process on a site, for copied directories and newcomers.
        new_site: makes the empty directory of a newcomer.
    """

    def __init__(
        self,
        world: World,
        new_process: Callable[[Site], Process],
        new_site: Callable[[PeerId], Site] | None = None,
    ) -> None:
        self._world = world
        self._new_process, self._new_site = new_process, new_site
        self._clones = self._joins = 0
        self._kinds, self._weights = zip(*WEIGHTS.items(), strict=True)
        duration = world.settings.duration_ms
        for _ in range(world.settings.appends):
            world.at(world.rng.uniform(0, duration), self._work)
        world.at(200, self._strike)
        world.at(100, self._probe)
        if world.settings.tails:
            world.at(250, self._crash_before_commit)

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
            self._world.at(PROBED_MS, self._probe)

    def _strike(self) -> None:
        if self._world.healed:
            return
        rng, settings = self._world.rng, self._world.settings
        kind = rng.choices(self._kinds, self._weights)[0]
        if kind == "heal":
            self._cut(WHOLE, "the network is whole again")
        elif kind in settings.faults:
            getattr(self, f"_{kind.replace(' ', '_')}")()
        if self._world.now < settings.duration_ms:
            self._world.at(rng.uniform(200, 1_200) / settings.pace, self._strike)

    def _count(self, what: str) -> None:
        self._world.counts[what] += 1

    # -- the network

    def _partition(self) -> None:
        shape = self._world.rng.choice(list(SHAPES))
        ways = SHAPES[shape](self._world.rng, range(len(self._world.processes)))
        self._count("partitions")
        self._count(f"partitions: {shape}")
        if self._world.rng.random() < 0.15:
            self._count("partitions: flapping")
            for turn in range(6):
                self._world.at(turn * self._world.rng.uniform(60, 200), self._flap, ways, turn % 2 == 0)
        else:
            self._cut(ways, f"the network is cut: {shape}")

    def _flap(self, ways: frozenset[tuple[int, int]], is_cut: bool) -> None:
        self._cut(
            ways if is_cut else WHOLE, "the network is cut, flapping" if is_cut else "the network flaps back"
        )

    def _cut(self, ways: frozenset[tuple[int, int]], why: str) -> None:
        if not self._world.healed:
            self._world.cut = ways
            self._world.note(None, "{}", why)

    def _outage(self) -> None:
        self._count("outages")
        self._world.set_network(False)
        self._world.at(self._world.rng.uniform(100, 1_500), self._world.set_network, True)

    # -- processes

    def _crash(self) -> None:
        process = self._world.rng.choice(self._world.processes)
        if process.up:
            process.crash()
            self._world.at(self._world.rng.uniform(100, 2_000), self._boot, process)

    def _crash_before_commit(self) -> None:
        """Crash a process that has staged events and not yet made them durable, now and then."""
        world = self._world
        if world.healed:
            return
        staging = [process for process in world.running() if process.commit_due]
        if staging and world.rng.random() < 0.04:
            self._restart_later(world.rng.choice(staging), world.rng.uniform(100, 1_500))
        if world.now < world.settings.duration_ms:
            world.at(world.rng.uniform(40, 120) / world.settings.pace, self._crash_before_commit)

    def _crash_of_all(self) -> None:
        """Everybody loses power at one moment, and comes back after a while."""
        self._count("crashes of all")
        for process in self._world.processes:
            self._restart_later(process, self._world.rng.uniform(100, 800))

    def _rolling_restart(self) -> None:
        """One after the other, each for a short while."""
        self._count("rolling restarts")
        for turn, process in enumerate(self._world.processes):
            self._world.at(turn * 250, self._restart_later, process, 150)

    def _catching_up(self) -> None:
        """All but one are down while it writes a lot; then they come back at one moment."""
        writer, *others = self._world.rng.sample(self._world.processes, len(self._world.processes))
        if not writer.up or writer.hung or not others:
            return
        self._count("storms of catching up")
        for process in others:
            self._restart_later(process, 600)
        for _ in range(BACKLOG):
            writer.append()

    def _restart_later(self, process: Process, after_ms: float) -> None:
        if process.up and not self._world.healed:
            process.crash()
            self._world.at(after_ms, self._boot, process)

    def _hang(self) -> None:
        process = self._world.rng.choice(self._world.processes)
        if process.up and not process.hung:
            self._count("hangs")
            process.hang()
            self._world.at(self._world.rng.uniform(300, 6_000), process.wake)

    def _slow(self) -> None:
        process = self._world.rng.choice(self._world.processes)
        self._count("slow consumers")
        self._world.note(process, "becomes slow")
        process.slow_ms = self._world.rng.uniform(20, 150)
        self._world.at(self._world.rng.uniform(500, 4_000), setattr, process, "slow_ms", 0.0)

    # -- directories

    def _restore(self) -> None:
        """Take a backup first; later, put it back."""
        process = self._world.rng.choice(self._world.processes)
        if not process.up:
            return
        if process.backup is None or self._world.rng.random() < 0.3:
            process.backup = process.site.backup()
            return
        self._count("restores")
        self._replace_disk(process, process.backup)

    def _wipe(self) -> None:
        """The disk is gone, the identity of the peer is not."""
        process = self._world.rng.choice(self._world.processes)
        if process.up:
            self._count("wiped peers")
            self._replace_disk(process, process.site.blank())

    def _replace_disk(self, process: Process, content: object) -> None:
        process.crash()
        process.restore(content)
        self._world.at(self._world.rng.uniform(100, 1_500), self._boot, process)

    def _clone(self) -> None:
        """Copy a directory, or an old backup of it, and run both."""
        if self._clones >= CLONES_MAX:
            return
        self._clones += 1
        self._count("clones")
        original = self._world.rng.choice(self._world.processes)
        content = original.backup if original.backup is not None else original.site.backup()
        twin = self._new_process(original.site.clone(content))
        twin.is_twin = True
        self._world.add(twin)
        self._world.note(twin, "is a copy of {}", original.name)
        twin.boot()

    # -- members

    def _join(self) -> None:
        if self._joins >= JOINS_MAX or self._new_site is None:
            return
        self._joins += 1
        self._count("joins")
        newcomer = self._new_process(self._new_site(peer(len(self._world.members) + 1)))
        self._world.join(newcomer)

    def _retire(self) -> None:
        """End the membership of a peer, whose process goes on and may not have heard of it."""
        remaining = sorted(self._world.members - self._world.retired)
        if len(remaining) > 2:
            self._count("retirements")
            gone = self._world.rng.choice(remaining)
            self._world.note(None, "{} retires", steps.named(gone))
            self._world.retire(gone)

    def _boot(self, process: Process) -> None:
        if not process.up:
            process.boot()
