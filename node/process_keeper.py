"""Keeps named processes running: notices a death, starts it again with back-off, gives up in the end.

It knows nothing of what the processes are: how to start one and how to see whether it ended are given.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from node.restart_policy import DEATHS_MAX, WINDOW_S, RestartPolicy
from proto.errors import HyphaeError, Unavailable


@dataclass(slots=True)
class Kept:
    """One process that is to stay up.

    Args:
        name: for messages, such as "peer-1".
        start: starts it; an error counts as a death.
        poll: its exit code once it ended, None while it runs.
        last_words: what it said last, for the message when it is given up.
    """

    name: str
    start: Callable[[], Awaitable[None]]
    poll: Callable[[], int | None]
    last_words: Callable[[], str]
    policy: RestartPolicy = field(default_factory=RestartPolicy)
    due_s: float | None = None


class ProcessKeeper:
    """The processes that are kept up.

    Args:
        note: told in one line what happened.
        clock: seconds that do not go back.
    """

    def __init__(self, note: Callable[[str], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._note = note
        self._clock = clock
        self._kept: list[Kept] = []

    def add(self, kept: Kept) -> None:
        """Keep a process that runs already."""
        self._kept.append(kept)

    async def tick(self) -> None:
        """Look at every process once; call it often.

        Raises:
            Unavailable: one died `DEATHS_MAX` times in `WINDOW_S`; it is not started again.
        """
        for kept in self._kept:
            if kept.due_s is None:
                code = kept.poll()
                if code is not None:
                    self._died(kept, f"ended with exit code {code}")
            elif self._clock() >= kept.due_s:
                await self._start(kept)

    async def _start(self, kept: Kept) -> None:
        kept.due_s = None
        try:
            await kept.start()
        except HyphaeError as e:
            self._died(kept, f"could not be started ({e.message})")

    def _died(self, kept: Kept, how: str) -> None:
        delay_s = kept.policy.died(self._clock())
        if delay_s is None:
            raise Unavailable(
                f"{kept.name} died {DEATHS_MAX} times within {WINDOW_S:.0f} s, so everything was stopped. "
                f"Its last words: {kept.last_words() or 'none'}"
            )
        kept.due_s = self._clock() + delay_s
        self._note(f"{kept.name} {how}; starting it again in {delay_s:.1f} s")
