"""One consolidation, step by step, off the event loop and the writer.

Reads in batches on the reader threads, compares on a thread of its own, embeds behind everything else, and
appends: first the new summaries, in batches, then in one transaction what the scenes are now.  Only the last
makes scenes, so a run that dies before it leaves the old ones; its summaries are found again by the next run,
because their ids follow from what they say.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from node import scenes_query
from node.principals import Principal
from node.replica import Draft
from node.scene_planning import Cells, Planned, as_cell, as_events, comparable, is_new, plan, summary_id
from node.scene_summary import Member, Summariser, Summary
from node.scenes_projection import Scope
from node.scenes_query import HeldScene, Place
from node.service.context import PeerContext
from proto import limits
from proto.errors import HyphaeError
from proto.payloads import CellStored, Payload, Scene, SceneConsolidated, Vector
from proto.scoring import quantise

READ_BATCH: Final = 256  # cells in one read: some 20 ms
SUMMARY_BATCH: Final = 16  # scenes summarised and embedded together
APPEND_BATCH: Final = 64  # summaries in one transaction


@dataclass(slots=True)
class Run:
    """A consolidation under way, as those see it who wait for it.

    Args:
        waiting: agents that were told that it is running, and not yet that it is done.
        before: created and changed by a run that ended while the agent that began this one was not looking.
    """

    done: int = 0
    total: int = 0
    waiting: set[bytes] = field(default_factory=set)
    before: tuple[int, int] = (0, 0)
    counts: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys(("cells", "scenes", "created", "changed", "unchanged"), 0)
    )

    def progress(self) -> dict[str, int]:
        return {"done": self.done, "total": self.total}


@dataclass(slots=True)
class Consolidation:
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
        vectors = await self._vectors(places)
        cells = await self.compute(lambda _check: comparable(places, vectors, self._dimensions))
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

    @property
    def _dimensions(self) -> int:
        return self.context.embedder.dimensions

    async def _vectors(self, places: Sequence[Place]) -> list[Vector | None]:
        space = f"{self.context.embedder.space}/{self._dimensions}"
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
        scenes: list[Scene] = await self.compute(
            lambda _check: [
                p.named(p.held.title, p.held.summary) for p in planned if p.held and not p.needs_summary
            ]
        )
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
        run = self.context.random_bytes(16)
        events: list[SceneConsolidated] = await self.compute(
            lambda _check: as_events(self.scope, run, scenes, retired)
        )
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
        created, changed = self.run.before
        created += sum(p.held is None for p in planned)
        changed += sum(p.held is not None and p.changed for p in planned)
        counts["created"] = min(created, len(planned))
        counts["changed"] = min(changed, len(planned) - counts["created"])
        counts["unchanged"] = len(planned) - counts["created"] - counts["changed"]
        ended = len(held) - sum(p.held is not None for p in planned)
        if ended:
            counts["ended"] = ended
