"""When this process speaks of itself: a digest now and then, soon after it has connected or met somebody new.

Jittered, so that peers that started together do not stay in step.  Pure; `now` is milliseconds of the engine's
clock.
"""

from __future__ import annotations

import random

from mesh.engine_config import EngineConfig


class Heartbeat:
    """Silent while not connected.

    Args:
        rng: source of all jitter.
    """

    def __init__(self, config: EngineConfig, rng: random.Random) -> None:
        self._config = config
        self._rng = rng
        self._number = 0
        self.due: int | None = None  # None while not connected

    @property
    def is_connected(self) -> bool:
        return self.due is not None

    def connect(self, now: int) -> None:
        """Speak soon."""
        self.due = now + self._jitter(self._config.reconnect_jitter_ms)

    def disconnect(self) -> None:
        """Be silent."""
        self.due = None

    def greet(self, now: int) -> None:
        """Do not let a newcomer wait for a whole interval."""
        if self.due is not None:
            self.due = min(self.due, now + self._jitter(self._config.greet_jitter_ms))

    def beat(self, now: int) -> int | None:
        """Return the number of the digest that is due, from 1; None if none is."""
        if self.due is None or now < self.due:
            return None
        spread = self._config.digest_interval_ms * self._config.digest_jitter
        self.due = now + int(self._config.digest_interval_ms + self._rng.uniform(-spread, spread))
        self._number += 1
        return self._number

    def _jitter(self, most_ms: int) -> int:
        return int(self._rng.uniform(0, most_ms))
