"""What is done to a mesh: each fault has a name, a choice of targets, and an end that undoes it.

The injector knows the `Cluster` and the history, and nothing of the workload.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from tests.chaos.cluster import PEERS, SERVERS, Cluster
from tests.chaos.disk_faults import BESIDE_KILLS, DISK_FAULTS
from tests.chaos.facts import HEALING
from tests.chaos.history import BEGIN, FAULT, HEAL, NOTE, History
from tests.chaos.looking import LOOKING
from tests.chaos.strike import Fault, Strike
from tests.chaos.time_faults import TIME_FAULTS


def kill_peer(cluster: Cluster, rng: random.Random) -> Strike:
    """Kill one peer and start it again at once or after a while."""
    return _killed(cluster, [rng.choice(PEERS)], rng.choice((0.0, rng.uniform(0, 3))))


def kill_all_peers(cluster: Cluster, rng: random.Random) -> Strike:
    return _killed(cluster, PEERS, rng.uniform(0, 1), total=True)


def kill_server(cluster: Cluster, rng: random.Random) -> Strike:
    return _killed(cluster, [rng.choice(SERVERS)], rng.uniform(0, 4))


def kill_all_servers(cluster: Cluster, rng: random.Random) -> Strike:
    return _killed(cluster, SERVERS, rng.uniform(0, 4))


def pause_peer(cluster: Cluster, rng: random.Random) -> Strike:
    return _paused(cluster, [rng.choice(PEERS)], rng.uniform(1, 8))


def pause_server(cluster: Cluster, rng: random.Random) -> Strike:
    return _paused(cluster, [rng.choice(SERVERS)], rng.uniform(1, 8))


def cut_off_one(cluster: Cluster, rng: random.Random) -> Strike:
    """Partition: one peer alone, the two others together."""
    return _cut_off(cluster, [rng.choice(PEERS)], rng.uniform(1, 8))


def cut_off_each(cluster: Cluster, rng: random.Random) -> Strike:
    """Partition: each peer alone."""
    return _cut_off(cluster, PEERS, rng.uniform(1, 8))


def flap(cluster: Cluster, rng: random.Random) -> Strike:
    """Partition that comes and goes four times."""
    peer, waiting = rng.choice(PEERS), threading.Event()
    for _ in range(3):
        cluster.disconnect([peer])
        waiting.wait(rng.uniform(0.1, 0.8))
        cluster.connect([peer])
        waiting.wait(rng.uniform(0.1, 0.8))
    return _cut_off(cluster, [peer], 0.5)


def restart_in_turn(cluster: Cluster, rng: random.Random) -> Strike:
    """Rolling restart: everybody is ended and started again, one after the other, as in an upgrade."""
    members = [*rng.sample(SERVERS, len(SERVERS)), *rng.sample(PEERS, len(PEERS))]
    for member in members:
        cluster.end(member)
        cluster.revive([member])
    return Strike(members, 0.0, lambda: None)


FAULTS: Final[Mapping[str, Fault]] = {
    fault.__name__: fault
    for fault in (
        kill_peer,
        kill_all_peers,
        kill_server,
        kill_all_servers,
        pause_peer,
        pause_server,
        cut_off_one,
        cut_off_each,
        flap,
        restart_in_turn,
    )
} | {**LOOKING, **TIME_FAULTS, **DISK_FAULTS, **BESIDE_KILLS}


class Injector:
    """Plays faults one after the other.

    Args:
        rng: decides what, whom and how long.
        probe: returns how many events each peer holds, None where it does not say; asked before each heal, so that
            the history shows whether the fault had an effect.
    """

    def __init__(
        self,
        cluster: Cluster,
        history: History,
        rng: random.Random,
        probe: Callable[[], Sequence[int | None]],
    ) -> None:
        self._cluster, self._history, self._rng, self._probe = cluster, history, rng, probe
        self._waiting = threading.Event()

    def play(self, *names: str) -> None:
        """Strike with all, hold, heal in the opposite order."""
        strikes: list[tuple[str, Strike]] = []
        events: list[int | None] = []
        try:
            for name in names:
                self._history.note(BEGIN, "injector", name)
                strike = FAULTS[name](self._cluster, self._rng)
                strikes.append((name, strike))
                noted = {"targets": list(strike.targets), "total": strike.total, **strike.noted}
                self._history.note(FAULT, "injector", name, **noted)
            self._waiting.wait(max(strike.hold_s for _, strike in strikes))
            events = list(self._probe())
        finally:
            self._history.note(NOTE, "injector", HEALING)
            for name, strike in reversed(strikes):
                told = strike.heal() or {}
                noted = {"targets": list(strike.targets), "events": events, **strike.noted, **told}
                self._history.note(HEAL, "injector", name, **noted)

    def rest(self, seconds: float) -> None:
        """Leave the mesh alone for a while."""
        self._waiting.wait(seconds)


def _killed(cluster: Cluster, targets: Sequence[str], hold_s: float, *, total: bool = False) -> Strike:
    cluster.kill(targets)
    return Strike(targets, hold_s, lambda: cluster.revive(targets), total)


def _paused(cluster: Cluster, targets: Sequence[str], hold_s: float) -> Strike:
    cluster.pause(targets)
    return Strike(targets, hold_s, lambda: cluster.resume(targets))


def _cut_off(cluster: Cluster, targets: Sequence[str], hold_s: float) -> Strike:
    cluster.disconnect(targets)
    return Strike(targets, hold_s, lambda: cluster.connect(targets))
