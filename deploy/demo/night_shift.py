"""Writers that store memories while a peer dies: each memory again and again until it is acknowledged.

Each has an idempotency key of its own, so that repeating what was in doubt never makes a second memory.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from deploy.demo.checking import StoryFailed
from deploy.demo.corpus import Memory
from deploy.demo.http_wire import Refused, Rest, Unreachable

PAUSE_S = 0.05
REPEATABLE = frozenset({"unavailable", "overloaded", "uncertain"})


@dataclass(slots=True)
class Progress:
    """What the writers have done so far.

    Args:
        acknowledged: node id by number of the memory.
        in_flight: numbers of memories whose request is under way.
        failures: attempts without an acknowledgement.
        problem: why a writer gave up.
    """

    acknowledged: dict[int, str] = field(default_factory=dict)
    in_flight: set[int] = field(default_factory=set)
    failures: int = 0
    problem: str = ""


class NightShift:
    """Several writers on one peer.

    Args:
        url: of the peer.
        keys: key by agent.
        memories: what to store, in this order.
        deadline_s: how long one memory may take.
    """

    def __init__(
        self, url: str, keys: Mapping[str, str], memories: Sequence[Memory], deadline_s: float
    ) -> None:
        self._url = url
        self._keys = keys
        self._memories = memories
        self._deadline_s = deadline_s
        self._changed = threading.Condition()
        self._progress = Progress()
        self._next = 0
        self._stopping = False
        self._threads: list[threading.Thread] = []

    def begin(self, writers: int) -> None:
        """Start the writers."""
        self._threads = [threading.Thread(target=self._write, daemon=True) for _ in range(writers)]
        for thread in self._threads:
            thread.start()

    def wait_for(self, count: int, deadline_s: float) -> Progress:
        """Wait until so many memories are acknowledged; return a copy of the progress at that moment.

        Raises:
            StoryFailed: a writer gave up, or the deadline passed.
        """
        with self._changed:
            self._changed.wait_for(
                lambda: len(self._progress.acknowledged) >= count or self._progress.problem, deadline_s
            )
            now = self.progress()
        if now.problem:
            raise StoryFailed(now.problem)
        if len(now.acknowledged) < count:
            raise StoryFailed(
                f"{len(now.acknowledged)} memories of {count} were acknowledged within {deadline_s:g} s."
            )
        return now

    def progress(self) -> Progress:
        """Return a copy of what the writers have done so far."""
        with self._changed:
            p = self._progress
            return Progress(dict(p.acknowledged), set(p.in_flight), p.failures, p.problem)

    def stop(self) -> None:
        """Let the writers end after the request that they are at; wait for them."""
        self._stopping = True
        for thread in self._threads:
            thread.join()

    @staticmethod
    def idempotency_key(number: int) -> str:
        """Return the key of memory `number`."""
        return f"night-{number:03}"

    def _write(self) -> None:
        peers = {agent: Rest(self._url, key) for agent, key in self._keys.items()}
        while (number := self._take()) is not None:
            self._store(number, peers[self._memories[number].agent])
        for peer in peers.values():
            peer.close()

    def _take(self) -> int | None:
        with self._changed:
            if self._stopping or self._progress.problem or self._next == len(self._memories):
                return None
            self._next += 1
            return self._next - 1

    def _store(self, number: int, peer: Rest) -> None:
        arguments = {**self._memories[number].arguments(), "idempotency_key": self.idempotency_key(number)}
        end = time.monotonic() + self._deadline_s
        while not self._stopping:
            with self._changed:
                self._progress.in_flight.add(number)
            node_id, why, again = _attempt(peer, arguments)
            again = again and time.monotonic() < end
            with self._changed:
                p = self._progress
                p.in_flight.discard(number)
                if node_id is not None:
                    p.acknowledged[number] = node_id
                else:
                    p.failures += 1
                if node_id is None and not again:
                    p.problem = f"memory {number} of the night could not be stored: {why}"
                self._changed.notify_all()
            if not again:
                return
            time.sleep(PAUSE_S)


def _attempt(peer: Rest, arguments: Mapping[str, Any]) -> tuple[str | None, str, bool]:
    """Store once; return the node id or None, why not, and whether to do it again."""
    try:
        return str(peer.post("/v1/nodes", arguments)["node_id"]), "", False
    except Unreachable as error:
        return None, str(error), True
    except Refused as error:
        return None, str(error), error.code in REPEATABLE
