"""Running consolidations: one at a time for the scenes of one scope, off the event loop and the writer.

Reads in batches on the reader threads, compares on a thread of its own, embeds behind everything else, and
appends: first the new summaries, in batches, then in one transaction what the scenes are now.  Only the last
makes scenes, so a run that dies before it leaves the old ones; its summaries are found again by the next run,
because their ids follow from what they say.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import structlog

from mcp_gateway.calling import defect
from node import scenes_query
from node.principals import Principal
from node.replica import Draft
from node.scene_planning import Cells, Planned, as_events, comparable, is_new, plan
from node.scene_summary import Member, Summariser, Summary
from node.scenes_projection import Scope
from node.scenes_query import SCENE_AGENT, HeldScene, Place
from node.service.context import PeerContext
from node.service.views import DEFAULT_SALIENCE
from proto import limits
from proto.errors import HyphaeError, Overloaded, Unavailable
from proto.ids import derive
from proto.payloads import CellStored, Payload, Scene, Vector
from proto.scoring import quantise

_log = structlog.get_logger(__name__)
T = TypeVar("T")

RUNS_AT_ONCE: Final = 16  # one compares, the others wait for it
READ_BATCH: Final = 256  # cells in one read: some 20 ms
SUMMARY_BATCH: Final = 16  # scenes summarised and embedded together
APPEND_BATCH: Final = 64  # summaries in one transaction


@dataclass(slots=True)
class Run:
    """A consolidation under way, as those see it who wait for it."""

    done: int = 0
    total: int = 0
    counts: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys(("cells", "scenes", "created", "changed", "unchanged"), 0)
    )

    def progress(self) -> dict[str, int]:
        return {"done": self.done, "total": self.total}


class Consolidations:
    """All runs of a peer.

    Args:
        summariser: says what a scene says.
    """

    def __init__(self, context: PeerContext, summariser: Summariser) -> None:
        self._context, self._summariser = context, summariser
        self._running: dict[tuple[Scope, bytes | None], tuple[Run, asyncio.Task[None]]] = {}
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
            if len(self._running) >= RUNS_AT_ONCE or self._stopping.is_set():
                raise Overloaded(
                    f"{len(self._running)} consolidations are under way, limit {RUNS_AT_ONCE}. Nothing was begun."
                    " Try again in 5 s.",
                    retry_after_ms=5_000,
                )
            run = Run()
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

    def _ended(self, key: tuple[Scope, bytes | None], task: asyncio.Task[None]) -> None:
        del self._running[key]
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
        await _Consolidation(self._context, self._summariser, self._compute, run, scope, principal).go(
            session
        )

    async def _compute(self, work: Callable[[Callable[[], None]], T]) -> T:
        """Return what pure work comes to on the thread; it gets a check to call between its steps."""

        def checked() -> None:
            if self._stopping.is_set():
                raise Unavailable(
                    "the peer is stopping. The scenes are as they were. Try again when it is up."
                )

        return await asyncio.get_running_loop().run_in_executor(self._thread, work, checked)


@dataclass(slots=True)
class _Consolidation:
    """One run, step by step."""

    context: PeerContext
    summariser: Summariser
    compute: Callable[[Callable[[Callable[[], None]], Any]], Any]
    run: Run
    scope: Scope
    principal: Principal

    async def go(self, session: bytes | None) -> None:
        read = self.context.pool.read
        places = await read(lambda db: scenes_query.live_cells(db, self.scope, session))
        held = await read(lambda db: scenes_query.held_scenes(db, self.scope))
        self.run.total = 2 * len(places)
        cells = comparable(places, await self._vectors(places), self.context.embedder.dimensions)
        self.run.counts["cells"] = len(cells.places)
        if cells.others:
            self.run.counts["left_out"] = len(cells.others)
        planned = await self._plan(cells, held)
        stale = [p for p in planned if p.needs_summary]
        self.run.done, self.run.total = 2 * len(places), 2 * len(places) + len(stale)
        scenes, summaries = await self._summarised(planned)
        named = {s.summary for s in scenes} | {c.supersedes for c in summaries if c.supersedes}
        live = await read(lambda db: scenes_query.live_summaries(db, self.scope))
        retired = [cell for cell in live if cell not in named]
        if is_new(planned, held, retired):
            await self._append(scenes, summaries, retired)
        self._count(planned, held)

    async def _vectors(self, places: Sequence[Place]) -> list[Vector | None]:
        space = f"{self.context.embedder.space}/{self.context.embedder.dimensions}"
        out: list[Vector | None] = []
        for start in range(0, len(places), READ_BATCH):
            batch = places[start : start + READ_BATCH]
            out += await self.context.pool.read(
                lambda db, batch=batch: scenes_query.comparable_vectors(db, batch, space)  # type: ignore[misc]
            )
            self.run.done += len(batch)
        return out

    async def _plan(self, cells: Cells, held: Sequence[HeldScene]) -> list[Planned]:
        read = self.run.done

        def work(check: Callable[[], None]) -> list[Planned]:
            def progress(compared: int, _total: int) -> None:
                check()
                self.run.done = max(self.run.done, read + compared)

            return plan(self.scope, cells, held, progress=progress)

        found: list[Planned] = await self.compute(work)
        return found

    async def _summarised(self, planned: Sequence[Planned]) -> tuple[list[Scene], list[CellStored]]:
        """Return the scenes as events say them, and the summaries that are new."""
        scenes = [p.named(p.held.title, p.held.summary) for p in planned if p.held and not p.needs_summary]
        stale = [p for p in planned if p.needs_summary]
        summaries: list[CellStored] = []
        for start in range(0, len(stale), SUMMARY_BATCH):
            batch = stale[start : start + SUMMARY_BATCH]
            found = await self._summaries(batch)
            cells = await self._as_cells(batch, found)
            summaries += cells
            scenes += [
                p.named(s.title[: limits.TITLE_CHARS], c.cell)
                for p, s, c in zip(batch, found, cells, strict=True)
            ]
            self.run.done += len(batch)
        return sorted(scenes, key=lambda s: s.scene), summaries

    async def _summaries(self, batch: Sequence[Planned]) -> list[Summary]:
        wanted = [cell for p in batch for cell, _ in p.central]
        texts = await self.context.pool.read(lambda db: scenes_query.contents(db, wanted))

        def work(check: Callable[[], None]) -> list[Summary]:
            out = []
            for p in batch:
                check()
                members = [Member(cell, texts[cell], fit) for cell, fit in p.central if cell in texts]
                out.append(self.summariser.summarise(members or [Member(p.medoid, "...", 10_000)]))
            return out

        found: list[Summary] = await self.compute(work)
        return found

    async def _as_cells(self, batch: Sequence[Planned], summaries: Sequence[Summary]) -> list[CellStored]:
        embeddings = await self.context.embedder.bulk([s.text for s in summaries])
        ids = await self.context.pool.read(
            lambda db: [
                summary_id(p.scene, s.text, lambda cell: scenes_query.is_replaced(db, cell))
                for p, s in zip(batch, summaries, strict=True)
            ]
        )
        out = []
        for p, summary, cell, embedding in zip(batch, summaries, ids, embeddings, strict=True):
            quantised = quantise(embedding.vector)
            vector = Vector(space=self.context.embedder.space, values=quantised.q, norm=quantised.n)
            chars = min(embedding.chars, len(summary.text))
            out.append(as_cell(self.scope, p, summary, cell, vector, chars))
        return out

    async def _append(
        self, scenes: Sequence[Scene], summaries: Sequence[CellStored], retired: Sequence[bytes]
    ) -> None:
        events = as_events(self.scope, self.context.random_bytes(16), scenes, retired)
        for start in range(0, len(summaries), APPEND_BATCH):
            await self._durably(summaries[start : start + APPEND_BATCH])
        await self._durably(events)

    async def _durably(self, payloads: Sequence[Payload]) -> None:
        """Append events in one transaction, but for cells that are here already.

        Raises:
            HyphaeError: one was kept out.
        """
        known = await self.context.pool.read(
            lambda db: [isinstance(p, CellStored) and scenes_query.is_stored(db, p.cell) for p in payloads]
        )
        p = self.principal
        drafts = [
            Draft.of(p.tenant, p.agent_id, payload)
            for payload, is_known in zip(payloads, known, strict=True)
            if not is_known
        ]
        for outcome in await self.context.writer.append(drafts) if drafts else []:
            if isinstance(outcome, HyphaeError):
                raise outcome

    def _count(self, planned: Sequence[Planned], held: Sequence[HeldScene]) -> None:
        counts = self.run.counts
        counts["scenes"] = len(planned)
        counts["created"] = sum(p.held is None for p in planned)
        counts["changed"] = sum(p.held is not None and p.changed for p in planned)
        counts["unchanged"] = len(planned) - counts["created"] - counts["changed"]
        ended = len(held) - sum(p.held is not None for p in planned)
        if ended:
            counts["ended"] = ended


def summary_id(scene: bytes, text: str, is_replaced: Callable[[bytes], bool]) -> bytes:
    """Return the id of a summary: it follows from what it says, and differs from those that were replaced."""
    number = 0
    while True:
        cell = derive("summary", scene, text.encode(), number.to_bytes(4, "big"))
        if not is_replaced(cell):
            return cell
        number += 1


def as_cell(
    scope: Scope, planned: Planned, summary: Summary, cell: bytes, vector: Vector | None, embedded_chars: int
) -> CellStored:
    """Return a summary as a memory on layer 1; it replaces the summary that the scene had."""
    _, project, owner = scope
    held = planned.held
    former = held.summary if held is not None and held.summary_lives and held.summary != cell else None
    return CellStored(
        cell=cell,
        content=summary.text,
        cell_type="Context",
        salience=DEFAULT_SALIENCE,
        project=project,
        owner=owner or SCENE_AGENT,
        agent=SCENE_AGENT,
        layer=1,
        supersedes=former,
        derived_from=summary.quoted[: limits.DERIVED_FROM],
        vector=vector,
        embedded_chars=embedded_chars,
    )


def state_of(run: Run, project: str, *, done: bool) -> Mapping[str, Any]:
    """Return a run as its callers see it."""
    return {
        "project": project,
        "state": "done" if done else "running",
        "progress": run.progress(),
        **run.counts,
    }
