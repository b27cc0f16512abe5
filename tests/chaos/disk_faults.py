"""Faults of disks and data directories: full, damaged, rolled back, run twice, lost.

A disk is struck once the others hold what was on it a moment before; so a history shows what alone may be lost with
it (`tests.chaos.losses`).  In every second case the peer is cut off before, so that there is something to lose.
What must be seen of a fault, and was seen, is noted as signs; the checkers compare them.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from tests.chaos.cluster import PEERS, Cluster
from tests.chaos.damage import KINDS, copy_to, empty, replace_by, set_log_aside
from tests.chaos.operating import (
    NoAnswer,
    Vector,
    answered,
    asked,
    catch_up,
    contents,
    indexed,
    others,
    problems,
    spread,
    told,
    until,
    vector,
)
from tests.chaos.strike import Fault, Strike
from tests.support.places import short_directory

FULL: Final = ("to the last byte", "to the watermark", "every write fails")
REFUSALS: Final = {"overloaded", "unavailable", "uncertain"}
TWIN: Final = "another process runs as this peer"
APART_S: Final = 2.5  # a store that waits for another disk is answered after 1.5 s
WARN_S: Final = 20.0

REFUSED, READ, STORED = "refused while full", "read while full", "stored again without a restart"
LOST, ROLLED_BACK = "lost own events told of", "rolled back"
SERVES, REPAIRED, PULLED = "serves after damage", "damaged log named and set aside", "pulled again"
INDEXED: Final = "each memory is in the index"
WARNED, CONVERGED = "twins warned of", "warning ended with the twin"
JOINED, RETIRED = "joined anew", "lost peer retired"


# -- full


def fill_disk(cluster: Cluster, rng: random.Random) -> Strike:
    """A disk that is full, and has room again."""
    peer, how, number = rng.choice(PEERS), rng.choice(FULL), rng.randrange(10**9)
    cluster.fill(peer, how)

    def heal() -> Mapping[str, Any]:
        signs = []
        try:
            refused = _store(cluster, peer, f"full-{number}")
            signs += [REFUSED] if refused.result is None and refused.code in REFUSALS else []
            found = asked(cluster.url(peer), cluster.operator_key(), "recall", query="payment", k=5)
            signs += [READ] if found.result is not None else []
        except NoAnswer:
            pass
        finally:
            cluster.free(peer)
        stored = _stored(cluster, peer, f"full-{number}")
        return {"signs": [*signs, STORED], "must_hold": stored}

    return Strike([peer], rng.uniform(1, 4), heal, noted={"how": how, "must_show": [REFUSED, READ, STORED]})


# -- damaged


def damage_log(cluster: Cluster, rng: random.Random) -> Strike:
    """A page of the database, of a peer that was ended."""
    return _damaged(cluster, rng, "log", cluster.end)


def damage_wal(cluster: Cluster, rng: random.Random) -> Strike:
    """The write-ahead log of a peer that was killed."""
    return _damaged(cluster, rng, "wal", lambda peer: cluster.kill([peer]))


def damage_heads(cluster: Cluster, rng: random.Random) -> Strike:
    """The file of heads; with it a piece of the write-ahead log in every second case, of which nothing tells then."""
    return _damaged(cluster, rng, "heads", lambda peer: cluster.kill([peer]), also="wal")


def damage_index(cluster: Cluster, rng: random.Random) -> Strike:
    """The snapshot of the vectors, of a peer that was ended."""
    return _damaged(cluster, rng, "index", cluster.end)


def _damaged(
    cluster: Cluster, rng: random.Random, kind: str, down: Callable[[str], None], also: str = ""
) -> Strike:
    peer = rng.choice(PEERS)
    with _struck(cluster, rng, peer) as noted:
        down(peer)
        kinds = [kind, *([also] if also and rng.random() < 0.5 else [])]
        noted["damage"] = [rng.choice(KINDS[k])(cluster.directory(peer), rng) for k in kinds]
    noted["must_show"] = [SERVES, PULLED, INDEXED]
    before: Vector = noted.pop("held")
    return Strike([peer], rng.uniform(0, 1), lambda: _mended(cluster, peer, before), noted=noted)


def _mended(cluster: Cluster, peer: str, before: Vector) -> Mapping[str, Any]:
    """Start a damaged peer as an operator would, and mend it as it says itself; the mesh last, if it is cut off."""
    said, signs, wrong, lost = cluster.starts(peer), [], list[str](), 0
    if not said:
        signs.append(SERVES)
        held = answered(lambda: vector(cluster, peer), before)
        lost = sum(max(0, before[stream] - held.get(stream, 0)) for stream in before)
        wrong = _served_wrong(cluster, peer)
        found = answered(lambda: told(cluster, peer, "verify_log"), {"ok": False})
        said = answered(lambda: problems(cluster, peer), "")
        signs += [LOST] if "the disk lost own events" in said else []
        signs += [ROLLED_BACK] if lost else []
        needs_mending = not found["ok"] or "damaged" in said
    else:
        needs_mending, lost = True, sum(before.values())
        signs.append("refused to start and said why")
        wrong += [] if "error: " in said else [f"{peer} did not start and did not say why: {said[-300:]}"]
    if needs_mending:
        cluster.kill([peer])
        set_log_aside(cluster.directory(peer))
        again = cluster.starts(peer)
        wrong += [f"{peer} does not start without its damaged log: {again[-300:]}"] if again else []
        signs += [REPAIRED, SERVES]
    cluster.connect([peer])
    catch_up(cluster, peer)
    until(lambda: indexed(cluster, peer), f"{peer} has each memory in its index")
    return {"signs": [*signs, PULLED, INDEXED], "wrong": wrong, "said": said[-500:], "events_lost": lost}


def _served_wrong(cluster: Cluster, peer: str) -> list[str]:
    """Return which memories a peer shows otherwise than another one, which is sound."""
    mine = answered(lambda: contents(cluster, peer), {})
    for other in others(peer):
        theirs = answered(lambda o=other: contents(cluster, o), None)  # type: ignore[misc]
        if theirs is not None:
            return [f"{peer} serves {n} damaged: {t!r}" for n, t in mine.items() if theirs.get(n, t) != t]
    return []


# -- rolled back, run twice, lost


def restore_copy(cluster: Cluster, rng: random.Random) -> Strike:
    """A directory as it was some seconds ago, put back under a peer that was killed."""
    peer = rng.choice(PEERS)
    with short_directory() as root:
        copy = root / "copy"
        _copied(cluster, peer, copy)
        _wait(rng.uniform(1, 4))
        with _struck(cluster, rng, peer) as noted:
            cluster.kill([peer])
            replace_by(cluster.directory(peer), copy)
    noted["must_show"] = [SERVES, PULLED]
    before: Vector = noted.pop("held")
    return Strike([peer], rng.uniform(0, 1), lambda: _mended(cluster, peer, before), noted=noted)


def run_twice(cluster: Cluster, rng: random.Random) -> Strike:
    """A copy of a directory that runs beside its original, takes stores, and ends."""
    peer, number = rng.choice(PEERS), rng.randrange(10**9)
    place = short_directory()
    copy = place.__enter__() / "twin"
    _copied(cluster, peer, copy)
    url = cluster.run_copy(peer, copy)

    def heal() -> Mapping[str, Any]:
        try:
            for at in (cluster.url(peer), url):
                until(lambda a=at: TWIN in _problems_at(cluster, a), f"{at} warns of its twin", WARN_S)  # type: ignore[misc]
            stored = _stored_at(cluster, url, f"twin-{number}")
        finally:
            cluster.end_copy(peer)
            place.__exit__(None, None, None)
        until(lambda: TWIN not in _problems_at(cluster, cluster.url(peer)), "the warning ends")
        catch_up(cluster, peer)
        return {"signs": [WARNED, CONVERGED], "must_hold": stored}

    noted = {"twin": True, "must_show": [WARNED, CONVERGED]}
    return Strike([peer], rng.uniform(1, 4), heal, noted=noted)


def wipe_peer(cluster: Cluster, rng: random.Random) -> Strike:
    """A disk that is lost: a new member takes the place of the old one, which the operator retires."""
    peer = rng.choice(PEERS)
    helper = rng.choice(others(peer))
    old = next(p["peer_id"] for p in told(cluster, peer, "peers")["peers"] if p.get("me"))
    with _struck(cluster, rng, peer) as noted:
        cluster.kill([peer])
        empty(cluster.directory(peer))

    def heal() -> Mapping[str, Any]:
        cluster.connect([peer])
        cluster.join_anew(peer)
        for other in others(peer):
            catch_up(cluster, other)
        why = "its disk was lost"
        until(lambda: told(cluster, helper, "retire_peer", peer=old, why=why), f"{helper} retires {old}")
        catch_up(cluster, peer)
        return {"signs": [JOINED, RETIRED]}

    del noted["held"]
    noted |= {"needs_all": True, "must_show": [JOINED, RETIRED]}
    return Strike([peer], rng.uniform(0, 1), heal, noted=noted)


DISK_FAULTS: Final[Mapping[str, Fault]] = {
    fault.__name__: fault
    for fault in (
        fill_disk,
        damage_log,
        damage_wal,
        damage_heads,
        damage_index,
        restore_copy,
        run_twice,
        wipe_peer,
    )
}


def _beside_a_kill(fault: Fault) -> Fault:
    """Return the fault with another peer killed while it lasts: started again before the mending, or after it."""

    def both(cluster: Cluster, rng: random.Random) -> Strike:
        strike = fault(cluster, rng)
        other = rng.choice([p for p in PEERS if p not in strike.targets])
        cluster.kill([other])
        first = rng.random() < 0.5 or strike.noted.get("needs_all", False)

        def heal() -> Mapping[str, Any] | None:
            if first:
                cluster.revive([other])
            try:
                return strike.heal()
            finally:
                cluster.revive([other])

        return Strike(strike.targets, strike.hold_s, heal, noted={**strike.noted, "killed": other})

    return both


BESIDE_KILLS: Final[Mapping[str, Fault]] = {
    f"{name}_beside_kill": _beside_a_kill(fault) for name, fault in DISK_FAULTS.items()
}


# -- inside


@contextmanager
def _struck(cluster: Cluster, rng: random.Random, peer: str) -> Iterator[dict[str, Any]]:
    """Strike a disk in the block, once the others hold what was on it; note for how long only it held new things."""
    since_s, held = spread(cluster, peer)
    noted: dict[str, Any] = {"disk_of": peer, "held": held}
    if rng.random() < 0.5:
        cluster.disconnect([peer])
        noted["cut_off"] = True
        _wait(APART_S)
    yield noted
    noted["age_s"] = round(time.monotonic() - since_s, 4)


def _copied(cluster: Cluster, peer: str, copy: Path) -> None:
    """Copy the directory of a peer that is frozen meanwhile: what a power cut at that moment would leave."""
    cluster.pause([peer])
    try:
        copy_to(cluster.directory(peer), copy)
    finally:
        cluster.resume([peer])


def _store(cluster: Cluster, peer: str, key: str) -> Any:
    return _store_at(cluster, cluster.url(peer), key)


def _store_at(cluster: Cluster, url: str, key: str) -> Any:
    arguments = {"content": f"[{key}] by the injector", "cell_type": "Fact", "idempotency_key": key}
    return asked(url, cluster.operator_key(), "store", **arguments)


def _stored(cluster: Cluster, peer: str, key: str) -> dict[str, str]:
    return _stored_at(cluster, cluster.url(peer), key)


def _stored_at(cluster: Cluster, url: str, key: str) -> dict[str, str]:
    """Store until it is acknowledged; return node and key where enough members hold it."""
    result: Mapping[str, Any] = until(lambda: _store_at(cluster, url, key).result, f"{url} stores {key}")
    return {} if "durable_on" in result else {result["node_id"]: key}


def _problems_at(cluster: Cluster, url: str) -> str:
    answer = asked(url, cluster.operator_key(), "status")
    if answer.result is None:
        raise NoAnswer(f"{url}: {answer.code}")
    return " ".join(answer.result["problems"])


def _wait(seconds: float) -> None:
    threading.Event().wait(seconds)
