"""Agents at work while things break: they store, search, place and withdraw beacons, open sessions, and read.

Each agent is a thread with its own random numbers.  It keeps to one peer, and goes to another one when a call
fails; a store that failed or is in doubt is repeated under its idempotency key until it is acknowledged, and a page
in doubt is asked for again.  What it does is in `storing` and `reading`.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tests.chaos.caller import Caller, Calling
from tests.chaos.history import NOTE, History
from tests.chaos.post import Post
from tests.chaos.profiles import NATS, PROFILES, PROJECTS, TOGGLED, URL, Profile
from tests.chaos.reading import Reading, key_of
from tests.chaos.serving import for_each
from tests.chaos.stdio_caller import StdioCaller
from tests.chaos.storing import Shelf, Storing

__all__ = ["PROFILES", "Agent", "make_agents"]

THINK_S: Final = 0.03
SEARCHED: Final = 5  # memories looked for at each peer in the end


class Agent:
    """One agent; `work` is its thread.

    Args:
        stop: ends its work.
    """

    def __init__(self, post: Post, shelf: Shelf, twins: Sequence[Caller], stop: threading.Event) -> None:
        self.post, self.profile = post, post.profile
        self.storing = Storing(post, shelf)
        self.reading = Reading(post, twins)
        self._twins, self._stop = twins, stop

    def close(self) -> None:
        for caller in (self.post.door, self.post.http, *self._twins):
            caller.close()

    # -- its life

    def settle(self) -> None:
        """Place the beacons that stay, and open the first sessions; nothing is broken yet."""
        for project in PROJECTS:
            self.post.until(lambda p=project: self._beacon("place", p, {}))  # type: ignore[misc]
        self.reading.settle()

    def work(self) -> None:
        """Do one thing after the other until told to stop."""
        deeds: list[tuple[float, Callable[[], object]]] = [
            (10, self.storing.store),
            (8, self.reading.drain),
            (4, self.storing.find),
            (1, self.storing.recall),
            (1, self.storing.again),
            (1, self.storing.pry),
            (1, self.storing.hurry),
            (1, self.reading.at_once),
            (1, self._toggle),
            (0.5, self._place_again),
            (1, self.reading.change_session),
            (0.1, self.reading.restart_gateway),
        ]
        weights, actions = zip(*deeds, strict=True)
        while not self._stop.is_set():
            self.post.rng.choices(actions, weights)[0]()
            self._stop.wait(self.post.rng.uniform(0, 2 * THINK_S))

    def look(self, peer: str) -> dict[str, str]:
        """Return, of all that it was told is stored, what a peer holds: node id to the key in its text."""
        found = {}
        for node in self.storing.all:
            full = self._whole(peer, node) or (
                self._whole(peer, node) if self.post.http.code == "connection" else None
            )
            if full is not None:
                found[node] = key_of(str(full.get("content", "")))
        return found

    def _whole(self, peer: str, node: str) -> dict[str, Any] | None:
        """Return a memory; a connection that was idle for long may have been closed by the peer."""
        return self.post.http.call(peer, "look", "get_node", {"node_id": node}, {"node": node}, lambda _r: {})

    def search(self, peer: str) -> None:
        """Search a peer for some of its memories, by word and by meaning, and note what was not found."""
        stored = list(self.storing.all.values())
        missed = []
        for memory in self.post.rng.sample(stored, min(SEARCHED, len(stored))):
            for mode, query in (("lexical", memory.word), ("vector", memory.arguments["content"])):
                arguments = {"query": query, "mode": mode, "k": 10, "include_superseded": True}
                found = self.post.http.call(peer, "search", "recall", arguments, {}, lambda _r: {})
                if found is None or memory.node not in {r["node_id"] for r in found["results"]}:
                    missed.append([memory.key, mode])
        self.post.history.note(NOTE, self.profile.name, "searched", peer, missed=missed)

    # -- beacons

    def _toggle(self) -> None:
        if self.post.rng.random() < 0.5:
            self._beacon("place", TOGGLED, {})
        else:
            self._beacon("withdraw", TOGGLED, {"ttl_seconds": 0})

    def _place_again(self) -> None:
        self._beacon("place", self.post.rng.choice(PROJECTS), {})

    def _beacon(self, what: str, project: str, more: Mapping[str, Any]) -> bool:
        noted = {"project": project}
        arguments = {"interest": "*", "project": project, **more}

        def telling(result: Mapping[str, Any]) -> Mapping[str, Any]:
            return {**noted, "beacon": result.get("beacon_id", "")}

        return self.post.ask(what, "place_beacon", arguments, noted, telling) is not None


def make_agents(
    history: History,
    urls: Mapping[str, str],
    keys: Mapping[str, str],
    seed: int,
    stop: threading.Event,
    nats_url: str | None,
    home: Path,
    profiles: Sequence[Profile] = PROFILES,
) -> list[Agent]:
    """Return agents that begin at different peers, and note who they are.

    Args:
        keys: of the agents, by name.
        nats_url: for gateways that choose among peers; None to have them all keep to one.
        home: of gateways.
    """
    shelf = Shelf()

    def made(numbered: tuple[int, Profile]) -> Agent:
        number, profile = numbered
        peers = [*urls][number % len(urls) :] + [*urls][: number % len(urls)]
        door: Calling
        http, *twins = (Caller(history, profile.name, keys[profile.name], urls) for _ in range(3))
        if profile.door == NATS and nats_url is not None:
            way, peers = {"HYPHAE_NATS_URL": nats_url}, [""]
        elif profile.door in (NATS, URL):
            way, peers = {"HYPHAE_URL": urls[peers[0]]}, peers[:1]
        else:
            way = {}
        door = StdioCaller(history, profile.name, keys[profile.name], way, home) if way else http
        rng = random.Random(f"{seed}/{profile.name}")
        return Agent(Post(profile, door, http, peers, rng, history), shelf, twins, stop)

    for profile in profiles:
        history.note(NOTE, profile.name, "agent", tenant=profile.tenant, owner=profile.owner)
    return for_each(made, enumerate(profiles))
