"""An agent's post: its profile, its door, and the peer that it keeps to until a call fails."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tests.chaos.caller import Caller, Calling, Telling, Way
from tests.chaos.history import History
from tests.chaos.profiles import HTTP, Profile

REPEAT_S: Final = 0.2
PATIENCE_S: Final = 90.0  # for what has to succeed once nothing is broken any more


@dataclass(slots=True)
class Post:
    """Where one agent works.

    Args:
        door: how it calls; `http` itself, or a gateway.
        http: its calls over HTTP, with the same key: for what is no tool, and for looking.
        peers: their names, the one that it keeps to first; one empty name where its gateway chooses.
    """

    profile: Profile
    door: Calling
    http: Caller
    peers: list[str]
    rng: random.Random
    history: History
    _at: int = 0

    @property
    def peer(self) -> str:
        return self.peers[self._at % len(self.peers)]

    @property
    def by_http(self) -> bool:
        return self.profile.door == HTTP

    def ask(
        self,
        what: str,
        method: str,
        arguments: Mapping[str, Any],
        noted: Mapping[str, Any],
        telling: Telling = lambda _r: {},
    ) -> dict[str, Any] | None:
        """Make a call at its peer, and go to the next one if there is no result."""
        result = self.door.call(self.peer, what, method, arguments, noted, telling)
        if result is None:
            self.move()
        return result

    def move(self) -> None:
        """Go to the next peer."""
        self._at += 1

    def ask_at(
        self,
        peer: str,
        what: str,
        arguments: Mapping[str, Any],
        noted: Mapping[str, Any],
        telling: Telling,
        way: Way,
    ) -> dict[str, Any] | None:
        """Make a call over HTTP at some peer in a way of its own."""
        return self.http.call(peer, what, "", arguments, noted, telling, way)

    def until(self, step: Callable[[], object]) -> None:
        """Repeat what must succeed, at one peer after the other."""
        patience = threading.Event()
        for _ in range(int(PATIENCE_S / REPEAT_S)):
            if step():
                return
            patience.wait(REPEAT_S)
        raise AssertionError(f"{self.profile.name}: within {PATIENCE_S} s no peer did what it was asked")
