"""What an agent writes and looks for: memories, repeats of them, replacements, late calls, and what is not its own."""

from __future__ import annotations

import string
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from proto.messages import OWN_STORES, Request, encode_request
from tests.chaos.post import Post
from tests.chaos.profiles import PRIVATE, PROJECTS, TOGGLED

LATE: Final = "late"  # a project of nobody's interest
LEFT_S: Final = (-1.0, 0.2)  # of the time of a call when it is sent
WORDS: Final = (
    *("payment", "retry", "ledger", "cache", "index"),
    *("deploy", "schema", "latency", "queue", "token"),
)


@dataclass(frozen=True, slots=True)
class Stored:
    """A memory that was acknowledged.

    Args:
        word: stands in its text and in no other.
        stored_at: the peer that said so; empty if a gateway chose it.
        by: which of its agent's gateways stored it, one after the other.
    """

    node: str
    key: str
    word: str
    stored_at: str
    arguments: Mapping[str, Any]
    by: int


@dataclass(slots=True)
class Shelf:
    """The memories of all agents, to reach for what one must not see: (tenant, owner or empty, node)."""

    nodes: list[tuple[str, str, str]] = field(default_factory=list)

    def put(self, post: Post, node: str, project: str) -> None:
        owner = post.profile.owner if project == PRIVATE else ""
        self.nodes.append((post.profile.tenant, owner, node))

    def hidden_from(self, post: Post) -> str | None:
        """Return the id of a memory that an agent must not see."""
        tenant, owner = post.profile.tenant, post.profile.owner
        for _ in range(20):
            of, whose, node = post.rng.choice(self.nodes or [(tenant, "", "")])
            if of != tenant or whose not in ("", owner):
                return node
        return None


@dataclass(slots=True)
class Storing:
    """The writing half of an agent."""

    post: Post
    shelf: Shelf
    _number: int = 0
    _open: dict[str, dict[str, Any]] = field(default_factory=dict)  # by key: arguments, not yet acknowledged
    _refused_at: dict[str, set[str]] = field(default_factory=dict)  # by key: peers that lack what it replaces
    _last: deque[Stored] = field(default_factory=lambda: deque(maxlen=OWN_STORES))
    all: dict[str, Stored] = field(default_factory=dict)  # by node
    _replaced: set[str] = field(default_factory=set)

    def store(self) -> None:
        """Store something new, or repeat what was in doubt."""
        rng = self.post.rng
        waiting = [k for k in self._open if rng.random() < 0.5]
        if waiting:
            self.send(waiting[0])
            return
        self._number += 1
        key = f"{self.post.profile.name}-{self._number}"
        self._open[key] = self._composed(key)
        self.send(key)

    def finish(self) -> None:
        """Repeat what is in doubt until it is acknowledged, or nobody has what it replaces."""
        for key in list(self._open):
            self.post.until(lambda k=key: self.send(k) or k not in self._open)  # type: ignore[misc]

    def again(self) -> None:
        """Repeat what was acknowledged, as if that had been lost, here or at another peer."""
        if self._last:
            stored = self.post.rng.choice(self._last)
            again = self._ask(stored.key, stored.arguments)
            self._last.extend([again] if again else [])  # as its gateway counts

    def find(self) -> None:
        """Look for one of the memories stored last: by a word, or by its id; here, or as gateways do it elsewhere."""
        if not self._last:
            return
        post, stored = self.post, self.post.rng.choice(self._last)
        by_word = {"query": stored.word, "mode": "lexical", "tags": stored.arguments.get("tags")}
        asked = post.rng.choice(({"query": stored.node}, by_word))
        arguments = {"k": 5, "include_superseded": True, **{k: v for k, v in asked.items() if v}}
        noted: dict[str, Any] = {"key": stored.key, "stored_at": stored.stored_at, "node": stored.node}
        noted["carried"] = stored.by == post.door.lives

        def telling(result: Mapping[str, Any]) -> Mapping[str, Any]:
            found = any(r["node_id"] == stored.node for r in result["results"])
            return {"found": found, "stale": bool(result.get("stale"))}

        if not post.by_http:
            post.ask("find", "recall", arguments, noted, telling)
        elif post.rng.random() < 0.3:
            post.ask("find", "recall", arguments, {**noted, "carried": False}, telling)
        else:
            wrote = ",".join(s.node for s in self._last)
            peer = post.rng.choice(post.peers)
            post.ask_at(
                *(peer, "find", arguments, noted, telling),
                lambda agent: agent.by_wire("recall", arguments, wrote=wrote),
            )

    def recall(self) -> None:
        """Search for whatever there is."""
        query = " ".join(self.post.rng.sample(WORDS, 2))
        self.post.ask("recall", "recall", {"query": query, "k": 20, "include_content": True}, {})

    def pry(self) -> None:
        """Reach for what it must not see."""
        post, node = self.post, self.shelf.hidden_from(self.post)
        if node is None:
            return
        if post.by_http and post.rng.random() < 0.5:
            post.ask("pry", "get_node", {"node_id": node}, {"node": node})
        else:
            post.ask("pry", "recall", {"query": node, "include_content": True}, {"node": node})

    def hurry(self) -> None:
        """Send a store whose time is over, or nearly."""
        self._number += 1
        post, left_s = self.post, self.post.rng.choice(LEFT_S)
        key = f"hurried-{post.profile.name}-{self._number}"
        arguments = {"content": f"[{key}] too late", "cell_type": "Fact", "project": LATE}

        def body() -> bytes:
            deadline_ms = time.time_ns() // 1_000_000 + round(1000 * left_s)
            return encode_request(Request("store", {**arguments, "idempotency_key": key}, deadline_ms, None))

        noted = {"key": key, "left_s": left_s}
        peer = post.rng.choice([p for p in post.peers if p] or [post.peer])
        if post.by_http:
            post.ask_at(peer, "hurried", {}, noted, lambda _r: {}, lambda agent: agent.post_wire(body()))

    def send(self, key: str) -> bool:
        """Send what is open; return whether it was acknowledged."""
        arguments = self._open[key]
        peer = self.post.peer
        stored = self._ask(key, arguments)
        if stored is None:
            self._give_up(key, peer)
            return False
        del self._open[key]
        if stored.node not in self.all:
            self.shelf.put(self.post, stored.node, arguments["project"])
        self.all[stored.node] = stored
        self._last.append(stored)
        return True

    def _give_up(self, key: str, peer: str) -> None:
        """Replace nothing that went with a disk: every peer said that it is not there."""
        if "supersedes" not in self._open[key] or self.post.door.code != "not_found":
            return
        refused = self._refused_at.setdefault(key, set())
        refused.add(peer)
        if refused.issuperset(self.post.peers):
            del self._open[key]

    def _ask(self, key: str, arguments: Mapping[str, Any]) -> Stored | None:
        noted = {n: arguments[n] for n in ("project", "supersedes") if n in arguments}
        at = self.post.peer
        result = self.post.ask("store", "store", arguments, {"key": key, **noted}, _told_of_store)
        if result is None:
            return None
        word = str(arguments["content"]).split()[1]
        return Stored(result["node_id"], key, word, at, arguments, self.post.door.lives)

    def _composed(self, key: str) -> dict[str, Any]:
        rng, words = self.post.rng, self.post.profile.words
        project = rng.choice((*PROJECTS, TOGGLED, PRIVATE))
        canary = words["owner"] if project == PRIVATE else words["tenant"]
        word = "".join(rng.choices(string.ascii_lowercase, k=12))
        text = f"[{key}] {word} {' '.join(rng.sample(WORDS, 3))}; {canary}-{self._number}"
        arguments: dict[str, Any] = {
            "content": text,
            "cell_type": "Fact",
            "project": project,
            "idempotency_key": key,
        }
        if rng.random() < 0.3:
            arguments["tags"] = [rng.choice(WORDS)]
        mine = [
            n for n, s in self.all.items() if s.arguments["project"] == project and n not in self._replaced
        ]
        if mine and rng.random() < 0.15:
            arguments["supersedes"] = rng.choice(mine[-20:])
            self._replaced.add(arguments["supersedes"])
        return arguments


def _told_of_store(result: Mapping[str, Any]) -> Mapping[str, Any]:
    short = {n: result[n] for n in ("durable_on", "wanted") if n in result}
    return {"node": result["node_id"], **short, **({"noted": bool(result.get("note"))} if short else {})}
