"""Agents at work while things break: they store, search, place and withdraw beacons, open sessions, and read.

Each agent is a thread with its own random numbers.  It keeps to one peer, and goes to another one when a call
fails; a store that failed or is in doubt is repeated under its idempotency key until it is acknowledged, and a page
in doubt is asked for again.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tests.chaos.caller import Caller
from tests.chaos.history import NOTE, History

PROJECTS: Final = ("alpha", "beta")
TOGGLED: Final = "gamma"  # whose beacons come and go
THINK_S: Final = 0.03
REPEAT_S: Final = 0.2
PATIENCE_S: Final = 90.0  # for what has to succeed once nothing is broken any more
WORDS: Final = (
    "payment",
    "retry",
    "ledger",
    "cache",
    "index",
    "deploy",
    "schema",
    "latency",
    "queue",
    "token",
)


@dataclass(frozen=True, slots=True)
class Profile:
    """What an agent is like.

    Args:
        sessions: it reads in so many working sessions side by side; 0 to read as itself.
        acks: it names the cursor of the page that it has read.
    """

    name: str
    owner: str
    tenant: str
    sessions: int = 0
    acks: bool = True

    @property
    def words(self) -> Mapping[str, str]:
        """The canaries of its texts: of its tenant always, of its owner in private projects."""
        return {"tenant": f"canary-tenant-{self.tenant}", "owner": f"canary-owner-{self.owner}"}


PROFILES: Final = (
    Profile("ann", "one", "default"),
    Profile("ben", "one", "default", sessions=2),
    Profile("cat", "two", "default", acks=False),
    Profile("dan", "three", "elsewhere"),
    Profile("eve", "four", "elsewhere", sessions=1),
)


@dataclass(slots=True)
class Place:
    """Where a reader is: its name, the session if it is one, the cursor of the last page that it read."""

    reader: str
    session: str | None = None
    cursor: str | None = None
    unknown_at: set[str] = field(default_factory=set)  # peers that did not know the session when last asked


@dataclass(slots=True)
class Agent:
    """One agent; `work` is its thread.

    Args:
        peers: their names; the first one is where it begins.
        stop: ends its work.
    """

    profile: Profile
    caller: Caller
    peers: list[str]
    rng: random.Random
    history: History
    stop: threading.Event
    _at: int = 0
    _number: int = 0
    _open: dict[str, tuple[str, str]] = field(
        default_factory=dict
    )  # key: project, text; not yet acknowledged
    _places: list[Place] = field(default_factory=list)
    _nodes: dict[str, str] = field(default_factory=dict)

    @property
    def peer(self) -> str:
        return self.peers[self._at % len(self.peers)]

    @property
    def nodes(self) -> Mapping[str, str]:
        """What it was told is stored: node id to key."""
        return self._nodes

    # -- its life

    def settle(self) -> None:
        """Place the beacons that stay, and open the first sessions; nothing is broken yet."""
        for project in PROJECTS:
            self._until(lambda p=project: self._beacon("place", p, {}))  # type: ignore[misc]
        if self.profile.sessions == 0:
            self._places = [Place(self.profile.name)]
        while len(self._places) < self.profile.sessions:
            self._until(self._open_session)

    def work(self) -> None:
        """Do one thing after the other until told to stop."""
        deeds: list[tuple[int, Callable[[], object]]] = [
            (10, self._store),
            (8, self._drain),
            (3, self._recall),
            (1, self._toggle),
            (1, self._change_session),
        ]
        weights, actions = zip(*deeds, strict=True)
        while not self.stop.is_set():
            self.rng.choices(actions, weights)[0]()
            self.stop.wait(self.rng.uniform(0, 2 * THINK_S))

    def finish_stores(self) -> None:
        """Repeat what is in doubt until it is acknowledged."""
        for key in list(self._open):
            self._until(lambda k=key: self._send(k))  # type: ignore[misc]

    def drain_to_the_end(self) -> None:
        """Read until nothing remains, at one peer, and note it."""
        for place in self._places:
            place.unknown_at.clear()
            self._until(lambda p=place: self._page(p) == 0 or p.unknown_at.issuperset(self.peers))  # type: ignore[misc]
            if place.unknown_at:
                self.history.note(NOTE, self.profile.name, "gone", reader=place.reader)
                continue
            self._page(place)  # commits the last page
            self.history.note(NOTE, self.profile.name, "drained", self.peer, reader=place.reader)

    def look(self, peer: str) -> dict[str, str]:
        """Return, of all that it was told is stored, what a peer holds: node id to the key in its text."""
        found = {}
        for node in self._nodes:
            full = self._whole(peer, node) or (
                self._whole(peer, node) if self.caller.code == "connection" else None
            )
            if full is not None:
                found[node] = _key_of(str(full.get("content", "")))
        return found

    def _whole(self, peer: str, node: str) -> dict[str, Any] | None:
        """Return a memory; a connection that was idle for long may have been closed by the peer."""
        return self.caller.call(peer, "look", "get_node", {"node_id": node}, {"node": node}, lambda _r: {})

    def _until(self, step: Callable[[], object]) -> None:
        """Repeat what must succeed, at one peer after the other."""
        patience = threading.Event()
        for _ in range(int(PATIENCE_S / REPEAT_S)):
            if step():
                return
            self._move()
            patience.wait(REPEAT_S)
        raise AssertionError(f"{self.profile.name}: within {PATIENCE_S} s no peer did what it was asked")

    def _move(self) -> None:
        self._at += 1

    # -- what it does

    def _store(self) -> None:
        waiting = [k for k in self._open if self.rng.random() < 0.5]
        if waiting:
            self._send(waiting[0])
            return
        self._number += 1
        key = f"{self.profile.name}-{self._number}"
        project = self.rng.choice((*PROJECTS, TOGGLED, "private"))
        words = self.profile.words
        canary = words["owner"] if project == "private" else words["tenant"]
        subject = " ".join(self.rng.sample(WORDS, 3))
        self._open[key] = project, f"[{key}] {subject}; {canary}-{self._number}"
        self._send(key)

    def _send(self, key: str) -> bool:
        project, text = self._open[key]
        arguments = {"content": text, "cell_type": "Fact", "project": project, "idempotency_key": key}
        noted = {"key": key, "project": project}
        result = self.caller.call(self.peer, "store", "store", arguments, noted, _told_of_store)
        if result is None:
            self._move()
            return False
        self._nodes[result["node_id"]] = key
        del self._open[key]
        return True

    def _recall(self) -> None:
        query = " ".join(self.rng.sample(WORDS, 2))
        arguments = {"query": query, "k": 20, "include_content": True}
        found = self.caller.call(self.peer, "recall", "recall", arguments, {}, lambda _r: {})
        if found is None:
            self._move()

    def _toggle(self) -> None:
        if self.rng.random() < 0.5:
            self._beacon("place", TOGGLED, {})
        else:
            self._beacon("withdraw", TOGGLED, {"ttl_seconds": 0})

    def _beacon(self, what: str, project: str, more: Mapping[str, Any]) -> bool:
        noted = {"project": project}
        arguments = {"interest": "*", "project": project, **more}
        done = self.caller.call(self.peer, what, "place_beacon", arguments, noted, lambda _r: noted)
        if done is None:
            self._move()
        return done is not None

    def _change_session(self) -> None:
        """Close one of the sessions, having read it to the end or not, and open another."""
        if self._places and self.profile.sessions and self.rng.random() < 0.3:
            place = self.rng.choice(self._places)
            noted = {"reader": place.reader}
            closed = self.caller.call(
                self.peer, "close", "close_session", {"session_id": place.session}, noted, lambda _r: {}
            )
            if closed is not None:
                self._places.remove(place)
        if len(self._places) < self.profile.sessions:
            self._open_session()

    def _open_session(self) -> bool:
        opened = self.caller.call(
            self.peer, "open", "open_session", {}, {}, lambda r: {"session": r["session_id"]}
        )
        if opened is None:
            self._move()
            return False
        self._places.append(Place(f"{self.profile.name}/{opened['session_id']}", opened["session_id"]))
        return True

    def _drain(self) -> None:
        if self._places:
            self._page(self.rng.choice(self._places))

    def _page(self, place: Place) -> int | None:
        """Read one page; return how many wait after it, or None where there was no answer."""
        arguments: dict[str, Any] = {"limit": self.rng.choice((1, 5, 20, 100))}
        noted: dict[str, Any] = {"reader": place.reader, "acks": self.profile.acks}
        if place.session is not None:
            arguments["session_id"] = place.session
        if self.profile.acks and place.cursor is not None:
            arguments["ack"] = noted["ack"] = place.cursor
        page = self.caller.call(self.peer, "drain", "drain_inbox", arguments, noted, _told_of_page)
        if page is None:
            if self.caller.code == "not_found":
                place.unknown_at.add(self.peer)
            self._move()
            return None
        place.cursor = page["cursor"]
        place.unknown_at.clear()
        return int(page["remaining"])


def _told_of_store(result: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what is noted of a store; how many members hold it is there only when they are fewer than wanted."""
    return {"node": result["node_id"], **{n: result[n] for n in ("durable_on", "wanted") if n in result}}


def _told_of_page(page: Mapping[str, Any]) -> Mapping[str, Any]:
    entries = [
        [d["diff_id"], d.get("node_id", ""), _key_of(d.get("content", "")), d["project"]]
        for d in page["diffs"]
    ]
    told = {"cursor": page["cursor"], "remaining": page["remaining"], "entries": entries}
    return {**told, "may_repeat": True} if page.get("may_repeat") else told


def _key_of(text: str) -> str:
    return text.partition("]")[0].removeprefix("[")


def make_agents(
    history: History,
    urls: Mapping[str, str],
    keys: Mapping[str, str],
    seed: int,
    stop: threading.Event,
    profiles: Sequence[Profile] = PROFILES,
) -> list[Agent]:
    """Return agents that begin at different peers, and note who they are.

    Args:
        keys: of the agents, by name.
    """
    agents = []
    for number, profile in enumerate(profiles):
        peers = list(urls)
        peers = peers[number % len(peers) :] + peers[: number % len(peers)]
        history.note(NOTE, profile.name, "agent", tenant=profile.tenant, owner=profile.owner)
        caller = Caller(history, profile.name, keys[profile.name], urls)
        rng = random.Random(f"{seed}/{profile.name}")
        agents.append(Agent(profile, caller, peers, rng, history, stop))
    return agents
