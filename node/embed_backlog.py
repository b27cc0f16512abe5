"""What the embedding thread does next: pure bookkeeping, no threads, no model, no clock.

Queries go before single stores, and these before bulk; but whoever was passed over twice has the next turn, so
that a storm of queries delays stores and never starves them.  Work is handed out in small steps (a slice of texts
to tokenise, or one padded model call), so that whatever arrives waits for one step at most.  Texts of similar
length share a call, for padding costs as much as text.  The caller serialises access.
"""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from node.embedding import Embedding
from proto.errors import Overloaded

CALL_TOKENS: Final = 512  # of a model call, padded: bulk at the pace of the best batch, a query waits 90 ms
SLICE_TEXTS: Final = 16  # tokenised in one step: about 1 ms
PADDING_MAX: Final = 1.25  # padded tokens of a call over its real ones
PASSED_OVER_MAX: Final = 2  # model calls of others, more urgent, before the next turn is one's own
WAITING_CHARS: Final = 16 * 1024 * 1024  # of all texts that wait


class Urgency(IntEnum):
    """Lower goes first."""

    QUERY = 0
    STORE = 1
    BULK = 2


WAITING_TEXTS: Final = {Urgency.QUERY: 256, Urgency.STORE: 512, Urgency.BULK: 4_096}


@dataclass(slots=True, eq=False)
class Job:
    """The texts of one caller; its future gets one embedding a text, in order."""

    texts: list[str]
    urgency: Urgency
    future: Future[list[Embedding]] = field(default_factory=Future)
    items: list[Item] = field(default_factory=list)
    embeddings: dict[int, Embedding] = field(default_factory=dict)
    chars: int = 0


@dataclass(slots=True, eq=False)
class Item:
    """One tokenised text of a job."""

    job: Job
    place: int
    ids: tuple[int, ...]
    chars: int
    cut: bool


@dataclass(frozen=True, slots=True)
class Slice:
    """Texts to tokenise: `job.texts[start:stop]`.  The outcome goes to `Backlog.tokenised`."""

    job: Job
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class ModelCall:
    """Items to embed in one call, at least one."""

    items: list[Item]


class Backlog:
    """Jobs that wait.  A job whose future is done (cancelled, failed) is passed over.

    Args:
        call_tokens: bound of a padded call; one longer text still makes a call of its own.
    """

    def __init__(self, call_tokens: int = CALL_TOKENS) -> None:
        self._call_tokens = call_tokens
        self._raw: dict[Urgency, deque[Job]] = {u: deque() for u in Urgency}
        self._ready: dict[Urgency, deque[Item]] = {u: deque() for u in Urgency}
        self._texts = dict.fromkeys(Urgency, 0)
        self._passed_over = dict.fromkeys(Urgency, 0)  # since it last had a turn
        self._sliced = dict.fromkeys(Urgency, 0)  # texts, in the turn that it has
        self._chars = 0

    def waiting(self, urgency: Urgency) -> int:
        """Return how many texts wait that go before, or with, this urgency."""
        return sum(self._texts[u] for u in Urgency if u <= urgency)

    def add(self, job: Job) -> None:
        """Take a job in.  The caller must call `release` once when its future is done.

        Raises:
            Overloaded: too many texts, or too much text, wait already; the job is not taken.
        """
        job.chars = sum(map(len, job.texts))
        texts, limit = self._texts[job.urgency] + len(job.texts), WAITING_TEXTS[job.urgency]
        if texts > limit:
            raise Overloaded(f"{texts} texts would wait to be embedded, limit {limit}. Nothing was embedded.")
        if self._chars + job.chars > WAITING_CHARS:
            raise Overloaded(
                f"{self._chars + job.chars} characters would wait to be embedded, limit {WAITING_CHARS}. "
                "Nothing was embedded."
            )
        self._texts[job.urgency] = texts
        self._chars += job.chars
        self._raw[job.urgency].append(job)

    def release(self, job: Job) -> None:
        """Give back the room of a job whose future is done."""
        self._texts[job.urgency] -= len(job.texts)
        self._chars -= job.chars

    def next(self) -> Slice | ModelCall | None:
        """Return the next step and take it as being done; None when nothing waits."""
        waiting = [urgency for urgency in Urgency if self._waits(urgency)]
        if not waiting:
            return None
        overdue = (u for u in waiting if self._passed_over[u] >= PASSED_OVER_MAX)
        urgency = next(overdue, waiting[0])
        raw = self._raw[urgency]
        if raw:
            start = len(raw[0].items)
            stop = min(start + SLICE_TEXTS, len(raw[0].texts))
            self._sliced[urgency] += stop - start
            if self._sliced[urgency] >= SLICE_TEXTS:
                self._end_turn(urgency)
            return Slice(raw[0], start, stop)
        self._end_turn(urgency)
        for passed in waiting:
            self._passed_over[passed] += passed > urgency
        return self._call(self._ready[urgency])

    def _waits(self, urgency: Urgency) -> bool:
        """Tell whether something waits, forgetting what nobody waits for any more."""
        raw, ready = self._raw[urgency], self._ready[urgency]
        while raw and raw[0].future.done():
            raw.popleft()
        while ready and ready[0].job.future.done():
            ready.popleft()
        return bool(raw or ready)

    def _end_turn(self, urgency: Urgency) -> None:
        self._passed_over[urgency] = self._sliced[urgency] = 0

    def tokenised(self, job: Job, items: list[Item]) -> None:
        """Take the outcome of the job's slice; when it was the last, its texts are ready for calls."""
        job.items += items
        if len(job.items) == len(job.texts):
            raw = self._raw[job.urgency]
            if raw and raw[0] is job:
                raw.popleft()
            self._ready[job.urgency].extend(sorted(job.items, key=lambda item: len(item.ids)))

    def drain(self) -> list[Job]:
        """Remove and return every job that is not done."""
        jobs = {id(job): job for raw in self._raw.values() for job in raw}
        jobs |= {id(item.job): item.job for ready in self._ready.values() for item in ready}
        for urgency in Urgency:
            self._raw[urgency].clear()
            self._ready[urgency].clear()
        return [job for job in jobs.values() if not job.future.done()]

    def _call(self, ready: deque[Item]) -> ModelCall:
        items = [ready.popleft()]
        longest = real = len(items[0].ids)
        while ready:
            item = ready[0]
            if item.job.future.done():
                ready.popleft()
                continue
            longest, real = max(longest, len(item.ids)), real + len(item.ids)
            padded = longest * (len(items) + 1)
            if padded > self._call_tokens or padded > PADDING_MAX * real:
                break
            items.append(ready.popleft())
        return ModelCall(items)
