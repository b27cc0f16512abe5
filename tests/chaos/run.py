"""One run: a cluster, agents at work, faults, quiet, and what everybody holds in the end.

Written once for every kind of cluster.  The result is a history; judging it is `checkers`' duty.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from tests.chaos.caller import CALL_S
from tests.chaos.cluster import PEERS, Cluster
from tests.chaos.disk_faults import BESIDE_KILLS, DISK_FAULTS
from tests.chaos.ending import listen, look_into_all
from tests.chaos.faults import FAULTS, Injector
from tests.chaos.history import HEAL, NOTE, OK, UNKNOWN, History
from tests.chaos.looking import LOOKING
from tests.chaos.serving import for_each
from tests.chaos.time_faults import (
    AIMED_KILLS,
    BACKLOGS,
    CLOCKS,
    LINKS,
    MEMBERS,
    NEED_PROCESSES,
    TIME_FAULTS,
)
from tests.chaos.workload import PROFILES, Agent, make_agents
from tests.support.http_agent import HttpAgent
from tests.support.hyphae_command import eventually

SETTLE_S: Final = 60.0
PROBE_S: Final = 1.0
BETWEEN_S: Final = 2.0  # faults of a scenario, at most
ALONE: Final = frozenset({"restart_in_turn", *BACKLOGS})  # what restarts everybody makes no pair
WANTED: Final = 2  # members that hold a store before it is answered, in a mesh of three


@dataclass(frozen=True, slots=True)
class Scenario:
    """Which faults a run draws from.

    Args:
        faults: the first round plays each of them once; those that a cluster does not offer are left out.
        pairs: two at a time.
        then: what is drawn from after the first round; nothing for the same.
        small_disks: peers have file systems of their own that can be filled, where that is possible.
        model: with the real embedding model, where there is a choice.
    """

    name: str
    faults: Sequence[str]
    pairs: bool = False
    then: Sequence[str] = ()
    small_disks: bool = False
    model: bool = False


OFTEN: Final = tuple(f for f in FAULTS if f not in {**DISK_FAULTS, **BESIDE_KILLS})  # no disk is struck
SCENARIOS: Final[Mapping[str, Scenario]] = {
    scenario.name: scenario
    for scenario in (
        Scenario("kills", ("kill_peer", "kill_all_peers")),
        Scenario("servers", ("kill_server", "kill_all_servers", "pause_server")),
        Scenario("pauses", ("pause_peer", "pause_server")),
        Scenario("partitions", ("cut_off_one", "cut_off_each", "flap")),
        Scenario("restarts", ("restart_in_turn",)),
        Scenario("honesty", (*LOOKING, "cut_off_each", "pause_peer")),
        Scenario("instants", tuple(AIMED_KILLS)),
        Scenario("clocks", (*CLOCKS, "kill_peer")),
        Scenario("links", tuple(LINKS)),
        Scenario("members", (*MEMBERS, "kill_peer", "cut_off_one", "pause_server")),
        Scenario("behind", tuple(BACKLOGS)),
        Scenario("far_behind", ("behind_one",)),
        Scenario("mixed", OFTEN),
        Scenario("processes", tuple(sorted(NEED_PROCESSES))),
        Scenario("pairs", tuple(f for f in OFTEN if f not in ALONE), pairs=True),
        Scenario("model", tuple(f for f in OFTEN if f not in {**TIME_FAULTS, **LOOKING}), model=True),
        Scenario("disks", tuple(DISK_FAULTS), then=(*BESIDE_KILLS, *LOOKING), small_disks=True),
    )
}


def play(
    cluster: Cluster,
    scenario: Scenario,
    history: History,
    seed: int,
    seconds: float,
    say: Callable[[str], None],
    home: Path,
) -> None:
    """Run a scenario on a cluster that is up; stops it in the end.

    Args:
        seconds: during which faults are injected; each is injected at least once.
        home: a directory for what agents start.
    """
    rng, stop = random.Random(f"{seed}/{scenario.name}"), threading.Event()
    urls = {peer: cluster.url(peer) for peer in PEERS}
    operator = cluster.operator_key()
    _until_all_are_members(urls, operator)
    of: dict[str, Any] = {"names": list(PEERS), "w": WANTED, "cluster": cluster.description}
    history.note(NOTE, "observer", "peers", seed=seed, **of)
    keys = _keys(urls["peer-1"], operator)
    agents = make_agents(history, urls, keys, seed, stop, cluster.nats_url(), home)
    try:
        _work(agents, stop, cluster, scenario, history, rng, seconds, say)
        _heal(cluster, history)
        _look_at_the_end(agents, urls, operator, history, say)
    finally:
        for_each(Agent.close, agents)
    cluster.stop()
    for peer, seen in zip(PEERS, for_each(cluster.inspect, PEERS), strict=True):
        history.note(NOTE, "observer", "log", peer, **seen)
    look_into_all(cluster, history)


def _work(
    agents: Sequence[Agent],
    stop: threading.Event,
    cluster: Cluster,
    scenario: Scenario,
    history: History,
    rng: random.Random,
    seconds: float,
    say: Callable[[str], None],
) -> None:
    """Let the agents work while faults are injected."""
    urls, operator = [cluster.url(peer) for peer in PEERS], cluster.operator_key()
    threads = [threading.Thread(target=agent.work, name=agent.profile.name) for agent in agents]
    try:
        for_each(Agent.settle, agents)
        for thread in threads:
            thread.start()
        injector = Injector(
            cluster,
            history,
            rng,
            lambda: for_each(lambda url: _events(url, operator, PROBE_S), urls),
        )
        offered = tuple(filter(cluster.offers, scenario.faults))
        _inject(injector, replace(scenario, faults=offered), rng, seconds, say)
    finally:
        stop.set()
        for thread in threads:
            if thread.ident is not None:
                thread.join()


def _keys(url: str, operator: str) -> dict[str, str]:
    caller = HttpAgent(url, operator)
    keys = {}
    for profile in PROFILES:
        rights = {"agent": profile.name, "owner": profile.owner, "tenant": profile.tenant}
        keys[profile.name] = str(caller("issue_key", **rights)["key"])
    caller.close()
    return keys


def _inject(
    injector: Injector, scenario: Scenario, rng: random.Random, seconds: float, say: Callable[[str], None]
) -> None:
    until = time.monotonic() + seconds
    first = rng.sample(scenario.faults, len(scenario.faults))
    injector.rest(1.0)
    while first or time.monotonic() < until:
        names = [first.pop() if first else rng.choice(scenario.then or scenario.faults)]
        if scenario.pairs:
            names.append(rng.choice([f for f in scenario.faults if f not in names]))
        say(f"{scenario.name}: {' and '.join(names)}")
        injector.play(*names)
        injector.rest(rng.uniform(0, BETWEEN_S))
        if scenario.then and not first and names[0] in scenario.faults:
            until = time.monotonic() + seconds  # of what comes then


def _heal(cluster: Cluster, history: History) -> None:
    """Undo whatever may be left, and note the moment from which everything must come right."""
    cluster.resume(PEERS)
    cluster.connect(PEERS)
    history.note(HEAL, "observer", "everything")


def _look_at_the_end(
    agents: Sequence[Agent],
    urls: Mapping[str, str],
    operator: str,
    history: History,
    say: Callable[[str], None],
) -> None:
    own = dict(filter(None, for_each(lambda p: _takes_a_store(p, urls[p], operator, history), PEERS)))
    listen({key.removeprefix("observer-"): node for node, key in own.items()}, urls, operator, history)
    for record in list(history.records):
        own.update(record.value.get("must_hold", {}))  # by the injector
    for_each(lambda agent: agent.storing.finish(), agents)
    _settle(urls, operator)
    for_each(lambda agent: agent.reading.to_the_end(), agents)
    say("settled; looking what each peer holds")
    for peer in PEERS:
        held = _held_of(own, peer, urls[peer], operator, history)
        for seen in for_each(lambda agent: agent.look(peer), agents):  # noqa: B023 - used before it changes
            held.update(seen)
        history.note(NOTE, "observer", "holds", peer, keys=held)
        for_each(lambda agent: agent.search(peer), agents)  # noqa: B023
    _settle(urls, operator)


def _until_all_are_members(urls: Mapping[str, str], operator: str) -> None:
    """Wait until every peer counts all of them: from then on as many hold a store as `WANTED` says.

    One that has only begun to join does not know the operator's key yet.
    """
    for url in urls.values():
        caller = HttpAgent(url, operator)

        def counts_all(caller: HttpAgent = caller) -> bool:
            told = caller.ask("status", {}).result
            return told is not None and told["write_concern"] == WANTED

        eventually(counts_all, "all are members", SETTLE_S)
        caller.close()


def _held_of(
    nodes: Mapping[str, str], peer: str, url: str, operator: str, history: History
) -> dict[str, str]:
    """Return which of the observer's own memories a peer holds; note why it does not show another one."""
    caller, held = HttpAgent(url, operator), {}
    try:
        for node, key in nodes.items():
            answer = caller.ask("get_node", {"node_id": node})
            if answer.result is not None:
                held[node] = key
            else:
                history.note(NOTE, "observer", "lacks", peer, node=node, code=answer.code, text=answer.text)
    finally:
        caller.close()
    return held


def _takes_a_store(peer: str, url: str, operator: str, history: History) -> tuple[str, str] | None:
    """Store at one peer until it says yes; return node and key, or None if it never does."""
    key, until = f"observer-{peer}", time.monotonic() + SETTLE_S
    arguments = {"content": f"[{key}] still here", "cell_type": "Fact", "idempotency_key": key}
    pause = threading.Event()
    while time.monotonic() < until:
        op = history.invoke("observer", "store", peer, key=key, project="default")
        caller = HttpAgent(url, operator, timeout_s=CALL_S)
        try:
            node = caller("store", **arguments)["node_id"]
        except (AssertionError, OSError, ValueError) as error:
            history.end(UNKNOWN, op, "observer", "store", peer, why=type(error).__name__)
            pause.wait(0.1)
            continue
        finally:
            caller.close()
        history.end(OK, op, "observer", "store", peer, node=node)
        return node, key
    return None


def _settle(urls: Mapping[str, str], operator: str) -> None:
    """Return when all peers have the same number of events twice in a row, or after a while."""
    until, before, pause = time.monotonic() + SETTLE_S, None, threading.Event()
    while time.monotonic() < until:
        now = [_events(url, operator) for url in urls.values()]
        if len(set(now)) == 1 and now == before and now[0] is not None:
            return
        before = now
        pause.wait(0.5)


def _events(url: str, operator: str, timeout_s: float = CALL_S) -> int | None:
    caller: Any = HttpAgent(url, operator, timeout_s=timeout_s)
    try:
        return int(caller("status")["events"])
    except (AssertionError, OSError, ValueError):
        return None
    finally:
        caller.close()
