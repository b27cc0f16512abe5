"""`hyphae node` whose event loop can be made to hang: `python -m tests.support.hanging_peer node ...`, then SIGUSR2."""

from __future__ import annotations

import signal
import sys
import time
from types import FrameType

from node.cli.root import run

HANGS_S = 10.0


def _hang(_number: int, _frame: FrameType | None) -> None:
    """Block the thread of the loop, as a call that never gives it back would."""
    time.sleep(HANGS_S)


if __name__ == "__main__":
    signal.signal(signal.SIGUSR2, _hang)
    sys.exit(run(sys.argv[1:]))
