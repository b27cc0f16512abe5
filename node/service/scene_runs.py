"""Which consolidations are under way: one at a time for the scenes of a scope, joined by whoever asks.

Knows tasks, the thread that compares, and who was told what; what a consolidation does is `consolidation`.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar

import structlog

from mcp_gateway.calling import defect
from node.principals import Principal
from node.scene_summary import Summariser
from node.scenes_projection import Scope
from node.service.consolidation import Consolidation, Run
from node.service.context import PeerContext
from proto.errors import HyphaeError, Overloaded, Unavailable

_log = structlog.get_logger(__name__)
T = TypeVar("T")
_Key = tuple[Scope, bytes | None]

RUNS_AT_ONCE: Final = 256  # one compares, the others wait for it
RUNS_OF_A_TENANT: Final = 4  # so that nobody makes all the others wait
UNSEEN_S: Final = 60.0  # in which whoever was told "running" may ask what has become of it


class Consolidations:
    """All runs of a peer.

    Args:
        summariser: says what a scene says.
    """

    def __init__(self, context: PeerContext, summariser: Summariser) -> None:
        self._context, self._summariser = context, summariser
        self._running: dict[_Key, tuple[Run, asyncio.Task[None]]] = {}
        self._ended_unseen: dict[_Key, tuple[Run, float]] = {}
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="scenes")
        self._stopping = threading.Event()

    def start(
        self, scope: Scope, session: bytes | None, principal: Principal
    ) -> tuple[Run, asyncio.Task[None]]:
        """Return the run of a scope that is under way, or begin one.

        Raises:
            Overloaded: too many are under way; nothing was begun.
        """
        key = (scope, session)
        if key not in self._running:
            own = sum(other[0] == scope[0] for other, _ in self._running)
            if own >= RUNS_OF_A_TENANT or len(self._running) >= RUNS_AT_ONCE or self._stopping.is_set():
                raise Overloaded(
                    f"{own} consolidations of this tenant are under way, limit {RUNS_OF_A_TENANT}. Nothing was begun."
                    " Try again in 5 s.",
                    retry_after_ms=5_000,
                )
            run = Run(before=self._unseen(key, principal.agent_id))
            before = [task for (other, _), (_, task) in self._running.items() if other == scope]
            task = asyncio.create_task(self._after(before, run, scope, session, principal))
            self._running[key] = run, task
            task.add_done_callback(lambda ended: self._ended(key, ended))
        return self._running[key]

    async def close(self) -> None:
        """End every run at its next step; scenes are as they were."""
        self._stopping.set()
        for _, task in self._running.values():
            task.cancel()
        await asyncio.gather(*(task for _, task in self._running.values()), return_exceptions=True)
        await asyncio.to_thread(self._thread.shutdown)

    def _unseen(self, key: _Key, agent: bytes) -> tuple[int, int]:
        """Return what a run that has just ended came to, for an agent that was told that it is running."""
        now = time.monotonic()
        self._ended_unseen = {k: v for k, v in self._ended_unseen.items() if now - v[1] < UNSEEN_S}
        found = self._ended_unseen.get(key)
        if found is None or agent not in found[0].waiting:
            return 0, 0
        found[0].waiting.discard(agent)
        return found[0].counts["created"], found[0].counts["changed"]

    def _ended(self, key: _Key, task: asyncio.Task[None]) -> None:
        run, _ = self._running.pop(key)
        if run.waiting:
            self._ended_unseen[key] = run, time.monotonic()
        error = None if task.cancelled() else task.exception()
        if isinstance(error, HyphaeError):
            _log.warning("consolidation_refused", code=error.code, reason=error.message)
        elif error is not None:
            _log.error("consolidation_failed", **defect(error))

    async def _after(
        self,
        before: Sequence[asyncio.Task[None]],
        run: Run,
        scope: Scope,
        session: bytes | None,
        principal: Principal,
    ) -> None:
        if before:
            await asyncio.wait(before)
        await Consolidation(self._context, self._summariser, self._compute, run, scope, principal).go(session)

    async def _compute(self, work: Callable[[Callable[[], None]], T]) -> T:
        """Return what pure work comes to on the thread; it gets a check to call between its steps."""

        def checked() -> None:
            if self._stopping.is_set():
                raise Unavailable(
                    "the peer is stopping. The scenes are as they were. Try again when it is up."
                )

        return await asyncio.get_running_loop().run_in_executor(self._thread, work, checked)


def state_of(run: Run, project: str, *, done: bool) -> Mapping[str, Any]:
    """Return a run as its callers see it."""
    return {
        "project": project,
        "state": "done" if done else "running",
        "progress": run.progress(),
        **run.counts,
    }
