"""The product's embedder: one thread owns the model, callers of any event loop wait for futures.

One thread, because calls side by side would share the same processors and each take twice as long, and a
query could then not overtake.  What is done next is decided by `embed_backlog`; the model is `onnx_model`.
The constructor does nothing; the thread starts, and loads the model, at `load` or at the first call.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future, InvalidStateError
from pathlib import Path
from typing import Final

import structlog

from node.cpus import available_cpus
from node.embed_backlog import CALL_TOKENS, Backlog, Item, Job, ModelCall, Slice, Urgency
from node.embedding import Embedding
from node.onnx_model import DIMENSIONS, MODEL_SHA256, TOKENIZER_SHA256, OnnxModel, find_files, space_name
from proto.errors import HyphaeError, Internal, Overloaded, Unavailable

LOAD_DEADLINE_S: Final = 10.0
THREADS: Final = 2  # more gain little at the few tokens of a question
WAITING_MS: Final = (
    3_000.0  # of work before a single text: shared with queries it is still done in its deadline
)
RETRY_MS_MAX: Final = 2_000
_TEXT_MS: Final = 7.0  # first guess of the time of one text, until texts were measured

log = structlog.get_logger(__name__)


class OnnxEmbedder:
    """See `node.embedding.Embedder`.  Safe to call from several threads and event loops.

    Args:
        model_dir: directory with `model.onnx` and `tokenizer.json`, or None for the default model.  Of a
            model of one's own, `space` and `dimensions` are known once it is loaded.
        threads: of one model call; None for two, or one where only one processor may be used.
        spinning: see `OnnxModel`; off where several peers share a machine.
        load_deadline_s: how long a call waits for a model that is still loading.
        call_tokens: padded tokens of one model call, and so what a query may have to wait for.
    """

    def __init__(
        self,
        model_dir: Path | None = None,
        *,
        threads: int | None = None,
        spinning: bool = True,
        load_deadline_s: float = LOAD_DEADLINE_S,
        call_tokens: int = CALL_TOKENS,
    ) -> None:
        self._files = find_files(model_dir)
        self._threads = threads or min(THREADS, available_cpus())
        self._spinning, self._load_deadline_s = spinning, load_deadline_s
        self._backlog = Backlog(call_tokens)
        self._wake = threading.Condition()
        self._thread: threading.Thread | None = None
        self._loading: Future[OnnxModel] = Future()
        self._closing = False
        self._text_ms = _TEXT_MS
        self._busy_since = time.monotonic()
        self._known = (
            None if model_dir else (space_name(MODEL_SHA256, TOKENIZER_SHA256, DIMENSIONS), DIMENSIONS)
        )

    @property
    def space(self) -> str:
        return self._identity()[0]

    @property
    def dimensions(self) -> int:
        return self._identity()[1]

    async def load(self) -> None:
        """Load the model, and return when it answers; a load that failed before is tried again.

        Raises:
            Unavailable: there is no such model; the message names the file and the hash expected.
        """
        with self._wake:
            if self._loading.done() and self._loading.exception() is not None:
                self._loading, self._thread = Future(), None
        await asyncio.shield(asyncio.wrap_future(self._start()))

    async def query(self, text: str) -> Embedding:
        return (await self._submit([text], Urgency.QUERY))[0]

    async def store(self, text: str) -> Embedding:
        return (await self._submit([text], Urgency.STORE))[0]

    async def bulk(self, texts: Sequence[str]) -> list[Embedding]:
        return await self._submit(list(texts), Urgency.BULK) if texts else []

    def close(self) -> None:
        """Stop the thread; blocks for one model call at most."""
        with self._wake:
            self._closing = True
            self._wake.notify_all()
            thread = self._thread
        if thread is not None:
            thread.join()

    # -- the caller's side

    def _identity(self) -> tuple[str, int]:
        if self._known is None:
            raise Unavailable(
                "the space of a model of your own is known once it is loaded; call load() first"
            )
        return self._known

    def _start(self) -> Future[OnnxModel]:
        with self._wake:
            if self._thread is None and not self._closing:
                self._thread = threading.Thread(
                    target=self._serve, args=(self._loading,), name="embedder", daemon=True
                )
                self._thread.start()
            return self._loading

    async def _submit(self, texts: list[str], urgency: Urgency) -> list[Embedding]:
        await self._loaded()
        job = Job(texts, urgency)
        with self._wake:
            if self._closing:
                raise _closed()
            waiting_ms = self._backlog.waiting(urgency) * self._text_ms
            try:
                if urgency is not Urgency.BULK and waiting_ms > WAITING_MS:
                    raise Overloaded(
                        f"texts that take {waiting_ms / 1000:.0f} s to embed wait already, limit "
                        f"{WAITING_MS / 1000:.0f} s. Nothing was embedded."
                    )
                self._backlog.add(job)
            except Overloaded as error:
                error.retry_after_ms = max(50, min(RETRY_MS_MAX, round(waiting_ms / 2)))
                raise
            self._wake.notify()
        job.future.add_done_callback(lambda _future: self._release(job))
        return await asyncio.wrap_future(job.future)

    async def _loaded(self) -> None:
        loading = self._start()
        if loading.done():
            failure = loading.exception()
            if failure is not None:
                raise _again(failure)
            return
        try:
            waiting = asyncio.shield(asyncio.wrap_future(loading))
            await asyncio.wait_for(waiting, self._load_deadline_s)
        except TimeoutError:
            raise Unavailable(
                f"the embedding model is still loading after {self._load_deadline_s:g} s. "
                "Nothing was embedded. Try again.",
                retry_after_ms=1_000,
            ) from None

    def _release(self, job: Job) -> None:
        with self._wake:
            self._backlog.release(job)

    # -- the embedding thread

    def _serve(self, loading: Future[OnnxModel]) -> None:
        began = time.monotonic()
        try:
            model = OnnxModel(self._files, self._threads, self._spinning)
        except HyphaeError as error:
            loading.set_exception(error)
            return
        self._known = model.space, model.dimensions
        log.info(
            "embedding model loaded", space=model.space, took_ms=round((time.monotonic() - began) * 1000)
        )
        loading.set_result(model)
        while (step := self._next()) is not None:
            try:
                self._tokenise(model, step) if isinstance(step, Slice) else self._embed(model, step)
            except Exception as error:  # noqa: BLE001  the thread must outlive whatever one caller sent
                jobs = [step.job] if isinstance(step, Slice) else [item.job for item in step.items]
                failure = error if isinstance(error, HyphaeError) else Internal(f"embedding failed: {error}")
                _fail(jobs, failure)
        with self._wake:
            left = self._backlog.drain()
        _fail(left, _closed())

    def _next(self) -> Slice | ModelCall | None:
        """Wait for the next step; None when closing."""
        with self._wake:
            while not self._closing:
                step = self._backlog.next()
                if step is not None:
                    return step
                self._wake.wait()
                self._busy_since = time.monotonic()
        return None

    def _tokenise(self, model: OnnxModel, step: Slice) -> None:
        items = []
        for place in range(step.start, step.stop):
            tokens = model.tokenise(step.job.texts[place])
            items.append(Item(step.job, place, tokens.ids, tokens.chars, tokens.cut))
        with self._wake:
            self._backlog.tokenised(step.job, items)

    def _embed(self, model: OnnxModel, call: ModelCall) -> None:
        vectors = model.run([item.ids for item in call.items])
        # From call to call, not the model alone: on a busy machine this thread waits for the interpreter, too.
        now = time.monotonic()
        spent_ms, self._busy_since = (now - self._busy_since) * 1000 / len(call.items), now
        self._text_ms += 0.1 * (spent_ms - self._text_ms)
        for item, vector in zip(call.items, vectors, strict=True):
            job = item.job
            job.embeddings[item.place] = Embedding(vector, item.chars, item.cut)
            if len(job.embeddings) == len(job.texts):
                _deliver(job, [job.embeddings[place] for place in range(len(job.texts))])


def _deliver(job: Job, embeddings: list[Embedding]) -> None:
    with contextlib.suppress(InvalidStateError):  # cancelled meanwhile
        job.future.set_result(embeddings)


def _fail(jobs: list[Job], error: Exception) -> None:
    for job in jobs:
        with contextlib.suppress(InvalidStateError):  # cancelled meanwhile, or twice in one call
            job.future.set_exception(error)


def _again(error: BaseException) -> Unavailable:
    """Return a failed load's error anew: an exception raised over and over would gather its tracebacks."""
    return Unavailable(str(error))


def _closed() -> Unavailable:
    return Unavailable("the embedder is closed. Nothing was embedded.")
