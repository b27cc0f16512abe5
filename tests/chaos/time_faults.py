"""Faults in time and on links: deaths at named instants, wrong clocks, slow, deaf and broken links, members, backlogs.

Most need a `FineCluster`, which is one of processes; `NEED_PROCESSES` names them.  The injector knows nothing else
of the product than `aimed` has names for.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from tests.chaos.aimed import COMMIT_INSTANTS, SNAPSHOT_INSTANTS
from tests.chaos.bulk import holds, poke, status, store_many
from tests.chaos.cluster import PEERS, SERVERS, Cluster, FineCluster
from tests.chaos.strike import Fault, Strike
from tests.support.tcp_proxy import IN, OUT

HOUR_MS: Final = 3_600_000
DEATH_S: Final = 15.0  # until an aimed kill has hit, poked
SETTLED_S: Final = 30.0
BACKLOG: Final = int(os.environ.get("CHAOS_BEHIND", "300"))  # events that a peer misses
ON_ITS_WAY: Final = 50
CATCH_UP_S: Final = 60.0 + BACKLOG / 200
MEMBER: Final = "member_comes_and_goes"
APART: Final = "clocks_apart"

FineFault = Callable[[FineCluster, random.Random], Strike]


# -- deaths at named instants


def _aimed_at(instant: str) -> FineFault:
    def kill_at(cluster: FineCluster, rng: random.Random) -> Strike:
        peer = rng.choice([p for p in PEERS if cluster.runs(p)] or PEERS)
        cluster.arm(peer, instant)
        until = time.monotonic() + DEATH_S
        while cluster.runs(peer) and time.monotonic() < until:
            poke(cluster, peer, rng)
        died_at = cluster.disarm(peer)
        cluster.kill([peer])
        return Strike([peer], rng.uniform(0, 1), lambda: cluster.revive([peer]), noted={"died_at": died_at})

    return kill_at


# -- clocks


def clock_fast(cluster: FineCluster, rng: random.Random) -> Strike:
    """One peer is an hour ahead."""
    return _clocks(cluster, {rng.choice(PEERS): HOUR_MS}, rng.uniform(2, 6))


def clock_slow(cluster: FineCluster, rng: random.Random) -> Strike:
    return _clocks(cluster, {rng.choice(PEERS): -HOUR_MS}, rng.uniform(2, 6))


def clocks_apart(cluster: FineCluster, rng: random.Random) -> Strike:
    """Each peer has another hour, and one of them begins a new life in it."""
    hours = dict(zip(rng.sample(PEERS, 3), (-HOUR_MS, 0, HOUR_MS), strict=True))
    strike = _clocks(cluster, hours, rng.uniform(2, 6))
    peer = rng.choice(PEERS)
    cluster.kill([peer])
    cluster.revive([peer])
    return strike


def clock_jumps(cluster: FineCluster, rng: random.Random) -> Strike:
    """The clock of one peer jumps to and fro within two hours, ten times."""
    peer, waiting = rng.choice(PEERS), threading.Event()
    for _ in range(10):
        cluster.set_clock(peer, rng.randint(-HOUR_MS, HOUR_MS))
        waiting.wait(rng.uniform(0.1, 0.6))
    return _clocks(cluster, {peer: rng.choice((-HOUR_MS, HOUR_MS))}, 0.5)


def _clocks(cluster: FineCluster, off_ms: Mapping[str, int], hold_s: float) -> Strike:
    for peer, off in off_ms.items():
        cluster.set_clock(peer, off)

    def heal() -> None:
        for peer in off_ms:
            cluster.set_clock(peer, 0)

    return Strike(list(off_ms), hold_s, heal, noted={"off_ms": dict(off_ms)})


# -- links


def slow_consumer(cluster: FineCluster, rng: random.Random) -> Strike:
    """What comes in to a peer trickles for 10 s, while another one sends it more than that."""
    peer, other = rng.sample(PEERS, 2)
    rate = rng.randint(1_000, 8_000)
    cluster.slow([peer], rate)
    sent = len(store_many(cluster, other, 1_024, rng, words=60))
    told = {"bytes_per_s": rate, "sent": sent}
    return Strike([peer], 10.0, lambda: cluster.connect([peer]), noted=told)


def deaf_one(cluster: FineCluster, rng: random.Random) -> Strike:
    """A peer speaks and hears nothing."""
    return _one_way(cluster, rng, IN)


def mute_one(cluster: FineCluster, rng: random.Random) -> Strike:
    """A peer hears and cannot be heard."""
    return _one_way(cluster, rng, OUT)


def _one_way(cluster: FineCluster, rng: random.Random, direction: str) -> Strike:
    peer = rng.choice(PEERS)
    cluster.stall([peer], direction)
    return Strike([peer], rng.uniform(1, 8), lambda: cluster.connect([peer]))


def reset_one(cluster: FineCluster, rng: random.Random) -> Strike:
    """The connections of a peer are reset several times, then refused for a while."""
    peer, waiting = rng.choice(PEERS), threading.Event()
    for _ in range(3):
        cluster.reset([peer], refuse=False)
        waiting.wait(rng.uniform(0.1, 1))
    cluster.reset([peer], refuse=True)
    return Strike([peer], rng.uniform(0.5, 6), lambda: cluster.connect([peer]))


def bridge(cluster: FineCluster, rng: random.Random) -> Strike:
    """Two peers do not hear each other, and both hear the third one."""
    one, other = rng.sample(range(3), 2)
    cluster.cut_route(SERVERS[one], SERVERS[other])
    targets = [PEERS[one], PEERS[other]]
    return Strike(targets, rng.uniform(3, 10), lambda: cluster.join_route(SERVERS[one], SERVERS[other]))


# -- members


def member_comes_and_goes(cluster: FineCluster, rng: random.Random) -> Strike:
    """A fourth peer joins and serves; healing retires it while it is cut off and stores on, which comes late."""
    began = time.monotonic()
    try:
        name = cluster.admit()
    except AssertionError as error:
        return Strike([], 0.0, lambda: None, noted={"not_admitted": str(error)[-200:]})
    told: dict[str, object] = {"joined_s": round(time.monotonic() - began, 1)}
    served = store_many(cluster, name, 20, rng)
    return Strike([name], rng.uniform(1, 4), lambda: _retire(cluster, rng, name, served, told), noted=told)


def _retire(
    cluster: FineCluster, rng: random.Random, name: str, served: Sequence[str], told: dict[str, object]
) -> None:
    """Retire it, let what it stored meanwhile arrive, and note what the members make of it."""
    _until(lambda: all(holds(cluster, p, served) == served for p in PEERS if cluster.runs(p)))
    alone_s = time.monotonic()
    cluster.disconnect([name])
    late = store_many(cluster, name, 5, rng)
    before = _late_events(cluster)
    try:
        cluster.retire(name)
    except AssertionError as error:  # another fault of the pair is not healed yet
        told["not_retired"] = str(error)[-200:]
        cluster.dismiss(name)
        return
    cluster.connect([name])

    def arrived() -> bool:
        now = _late_events(cluster)
        return all(now[p] >= before[p] + len(late) for p in now if p in before)

    _until(arrived)
    _until(lambda: not poke(cluster, name, rng))
    now = _late_events(cluster)
    told["late"] = len(late)
    told["kept_aside"] = {p: now[p] - before[p] for p in now if p in before}
    told["shown"] = {p: holds(cluster, p, late) for p in PEERS}
    told["lost"] = {
        p: len(served) - len(held) for p in PEERS if (held := holds(cluster, p, served)) is not None
    }
    told["still_stores"] = poke(cluster, name, rng)
    cluster.dismiss(name)
    told["aside_s"] = round(time.monotonic() - alone_s, 4)


def _late_events(cluster: FineCluster) -> dict[str, int]:
    """Return by peer how many events of retired peers came late; of those that answer."""
    return {p: int(said["late_events"]) for p in PEERS if (said := status(cluster, p))}


# -- backlogs


def behind_one(cluster: Cluster, rng: random.Random) -> Strike:
    """One peer misses many events, then all are restarted together."""
    return _behind(cluster, rng, [rng.choice(PEERS)])


def behind_two(cluster: Cluster, rng: random.Random) -> Strike:
    return _behind(cluster, rng, rng.sample(PEERS, 2))


def behind_in_turn(cluster: Cluster, rng: random.Random) -> Strike:
    """Each peer misses events that the two others have, then all are restarted together."""
    for peer in rng.sample(PEERS, 3)[:2]:
        _without(cluster, rng, [peer])
        cluster.revive([peer])
    return _behind(cluster, rng, [rng.choice(PEERS)])


def _without(cluster: Cluster, rng: random.Random, down: Sequence[str]) -> int:
    cluster.kill(down)
    up = next(p for p in PEERS if p not in down)
    return len(store_many(cluster, up, BACKLOG, rng))


def _behind(cluster: Cluster, rng: random.Random, down: Sequence[str]) -> Strike:
    missed = _without(cluster, rng, down)
    up = next(p for p in PEERS if p not in down)
    events = int(status(cluster, up).get("events", 0))
    cluster.kill(PEERS)
    told: dict[str, object] = {"missed": missed, "stored": events}

    def heal() -> None:
        began = time.monotonic()
        cluster.revive(PEERS)
        told["restarted_s"] = round(time.monotonic() - began, 1)
        there = _until(lambda: _is_level(cluster, events), CATCH_UP_S)
        told["caught_up_s"] = round(time.monotonic() - began, 1) if there else None

    return Strike(down, 0.0, heal, total=True, noted=told)


def _is_level(cluster: Cluster, events: int) -> bool:
    """Tell whether all peers hold so many events, and as many as one another but for what is on its way."""
    held = [int(status(cluster, peer).get("events", 0)) for peer in PEERS]
    return min(held) >= events and max(held) - min(held) <= ON_ITS_WAY


def _until(condition: Callable[[], bool], seconds: float = SETTLED_S) -> bool:
    """Wait for a condition; return whether it came true."""
    until, waiting = time.monotonic() + seconds, threading.Event()
    while not condition():
        if time.monotonic() > until:
            return False
        waiting.wait(0.1)
    return True


# -- which there are


def _fine(fault: FineFault) -> Fault:
    """Return a fault for any cluster, which has to be a fine one."""

    def strike(cluster: Cluster, rng: random.Random) -> Strike:
        assert isinstance(cluster, FineCluster), cluster.description
        return fault(cluster, rng)

    return strike


AIMED_KILLS: Final[Mapping[str, Fault]] = {
    f"kill_{instant}": _fine(_aimed_at(instant)) for instant in (*COMMIT_INSTANTS, *SNAPSHOT_INSTANTS)
}
CLOCKS: Final[Mapping[str, Fault]] = {
    f.__name__: _fine(f) for f in (clock_fast, clock_slow, clocks_apart, clock_jumps)
}
LINKS: Final[Mapping[str, Fault]] = {
    f.__name__: _fine(f) for f in (slow_consumer, deaf_one, mute_one, reset_one, bridge)
}
MEMBERS: Final[Mapping[str, Fault]] = {MEMBER: _fine(member_comes_and_goes)}
BACKLOGS: Final[Mapping[str, Fault]] = {f.__name__: f for f in (behind_one, behind_two, behind_in_turn)}
TIME_FAULTS: Final[Mapping[str, Fault]] = {**AIMED_KILLS, **CLOCKS, **LINKS, **MEMBERS, **BACKLOGS}
NEED_PROCESSES: Final = frozenset(
    {
        **AIMED_KILLS,
        **CLOCKS,
        **LINKS,
        **MEMBERS,
        "behind_in_turn": behind_in_turn,
    }  # the last takes minutes elsewhere
)
