"""Ctrl-C, SIGTERM and SIGHUP: the story ends wherever it is, but never between starting and knowing a child.

All three raise `KeyboardInterrupt` on the main thread.  Inside `held()` they wait until its end.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupts:
    """The interrupts of this process.  Made once, on the main thread.

    One interrupt is raised at most: whoever presses Ctrl-C twice does not stop the cleaning up.
    """

    def __init__(self) -> None:
        self._held = 0
        self._pending = False
        self._ended = False

    def listen(self) -> None:
        """Take over the signals; one that is ignored already (`nohup`) stays ignored."""
        for number in SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._arrived)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Let what is inside finish; an interrupt meanwhile takes effect at the end.

        Raises:
            KeyboardInterrupt: one came meanwhile.
        """
        self._held += 1
        try:
            yield
        finally:
            self._held -= 1
        self._take_effect()

    def end(self) -> None:
        """Raise no more: from here on everything ends by itself."""
        self._ended = True

    def _arrived(self, _number: int, _frame: FrameType | None) -> None:
        self._pending = True
        self._take_effect()

    def _take_effect(self) -> None:
        if self._pending and not self._held and not self._ended:
            self._ended = True
            raise KeyboardInterrupt
