"""The writer thread: group commit between the event loop and the replica.

Everything that arrives while one commit is being flushed goes into the next one.  Nothing is acknowledged or
handed on before the commit returned from fsync and the heads file holds the new head.  A failure of the disk
fails the waiting calls and leaves the peer reading; a damaged database ends the process.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import apsw
import structlog

from mcp_gateway.calling import defect
from mesh import wall_clock
from mesh.ports import Applied, Head, Segment
from node import database
from node.heads_file import HeadsFile, RecordedHead
from node.reading import ReadPool
from node.replica import Changes, Draft, Replica, Written
from node.sqlite_log import Logged, read_segment
from proto.errors import Corrupted, HyphaeError, Internal, Overloaded, Unavailable, Uncertain
from proto.streams import StreamId

_log = structlog.get_logger(__name__)
T = TypeVar("T")

QUEUE_CALLS = 4_096
BATCH_CALLS = 256
RETRY_MS = 60_000  # of a disk that refuses: it needs somebody to make room, so no call waits for it
BATCH_SEGMENT_BYTES = 2 * 1024 * 1024


@dataclass(slots=True)
class _Call:
    drafts: Sequence[Draft]
    segments: Sequence[Segment]
    done: asyncio.Future[tuple[list[Logged | HyphaeError], list[tuple[StreamId, int]]]]
    loop: asyncio.AbstractEventLoop


@dataclass(slots=True)
class _Ask:
    question: Callable[[Replica], Any]
    done: asyncio.Future[Any]
    loop: asyncio.AbstractEventLoop

    def answer(self, replica: Replica) -> None:
        try:
            self.loop.call_soon_threadsafe(_resolve, self.done, self.question(replica))
        except Exception as error:  # noqa: BLE001  delivered to whoever asked
            self.loop.call_soon_threadsafe(_reject, self.done, error)


class Writer:
    """Owns the replica, the writer connection and the heads file from one thread.

    Args:
        replica: not used by anybody else once `start` was called.
        heads: records the own head after each commit; None in tests without a file.
        on_commit: called on the writer's thread after each commit, with own durable events first; must not
            raise and must be quick.
        wall_us: clock, microseconds since 1970.
        trouble: asked before each commit why nothing may be written; None to go on.
    """

    def __init__(
        self,
        replica: Replica,
        heads: HeadsFile | None,
        on_commit: Callable[[Changes, list[Logged]], None],
        wall_us: Callable[[], int] = wall_clock.now_us,
        trouble: Callable[[], str | None] = lambda: None,
    ) -> None:
        self.replica = replica
        self._heads_file = heads
        self._on_commit = on_commit
        self._wall_us = wall_us
        self._trouble = trouble
        self._queue: queue.Queue[_Call | _Ask | None] = queue.Queue(QUEUE_CALLS)
        self._thread = threading.Thread(target=self._run, name="log-writer", daemon=True)
        self._heads: dict[StreamId, Head] = replica.log.heads()
        self.problem: str | None = None  # of the last transaction
        self.behind: str | None = None  # of what is derived from the log, until the next start

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Write what is waiting, then end the thread and close the connection."""
        if self._thread.is_alive():
            self._queue.put(None)
            self._thread.join()
        self.replica.db.close()
        if self._heads_file is not None:
            self._heads_file.close()

    def heads(self) -> dict[StreamId, Head]:
        """Return durable heads; the mapping is replaced, never changed."""
        return self._heads

    def quarantined(self) -> dict[StreamId, Head]:
        """Return the streams in quarantine with the last place that is agreed; replaced, never changed."""
        return self.replica.log.quarantined

    async def quarantine(self, stream: StreamId, sequence: int, other: bytes) -> None:
        """Remember that a stream has two histories, before returning; see `SqliteLog.quarantine`."""
        await self.ask(lambda replica: replica.quarantine(stream, sequence, other, self._wall_us()))

    def waiting(self) -> int:
        return self._queue.qsize()

    async def append(self, drafts: Sequence[Draft]) -> list[Logged | HyphaeError]:
        """Append own events durably, together.

        Returns:
            Per draft its event, or the error that kept it out.

        Raises:
            Overloaded: the queue is full; nothing was stored.
            Unavailable: the disk refused; nothing was stored.
        """
        own, _ = await self._submit(drafts, ())
        return own

    async def apply(self, segments: Sequence[Segment]) -> Applied:
        """Keep what extends contiguous prefixes of other streams, durably.  See `mesh.ports.EventLog`."""
        _, forks = await self._submit((), segments)
        heads = self._heads
        concerned = {s.stream for s in segments}
        return Applied({s: heads[s] for s in concerned if s in heads}, tuple(forks))

    async def ask(self, question: Callable[[Replica], T]) -> T:
        """Return what a quick function reads from the replica, run on the writer's thread between commits."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()
        self._put(_Ask(question, done, loop))
        return await done

    async def probe(self) -> None:
        """After a failure, see whether the log can be written again, so that the peer is not ill for ever."""
        if self.problem is not None:
            await self.ask(self._try_to_write)

    def _try_to_write(self, replica: Replica) -> None:
        try:
            with replica.db:
                replica.db.execute("INSERT OR REPLACE INTO meta VALUES('probe', ?)", (self._wall_us(),))
        except apsw.Error as error:
            _log.warning("log_still_not_writable", reason=str(error))
            return
        self.problem = self._record_head()

    def _put(self, item: _Call | _Ask) -> None:
        try:
            self._queue.put_nowait(item)
        except queue.Full:
            raise Overloaded(
                f"{QUEUE_CALLS} calls wait for the log. Nothing was stored; try again in 1 s.",
                retry_after_ms=1_000,
            ) from None

    async def _submit(
        self, drafts: Sequence[Draft], segments: Sequence[Segment]
    ) -> tuple[list[Logged | HyphaeError], list[tuple[StreamId, int]]]:
        loop = asyncio.get_running_loop()
        call = _Call(drafts, segments, loop.create_future(), loop)
        self._put(call)
        return await call.done

    # -- the thread

    def _run(self) -> None:
        while True:
            first = self._queue.get()
            if first is None:
                return
            if isinstance(first, _Ask):
                first.answer(self.replica)
                continue
            batch, ended = self._gather(first)
            self._commit(batch)
            if ended:
                return

    def _gather(self, first: _Call) -> tuple[list[_Call], bool]:
        batch, size = [first], _segment_bytes(first)
        while len(batch) < BATCH_CALLS and size < BATCH_SEGMENT_BYTES:
            try:
                call = self._queue.get_nowait()
            except queue.Empty:
                break
            if call is None:
                return batch, True
            if isinstance(call, _Ask):
                call.answer(self.replica)
                continue
            batch.append(call)
            size += _segment_bytes(call)
        return batch, False

    def _commit(self, batch: list[_Call]) -> None:
        trouble = self._trouble()
        if trouble is not None:
            _log.error("log_not_written", reason=trouble, calls=len(batch))
            self._fail(batch, Unavailable(f"{trouble}. Nothing was stored."))
            return
        drafts = [d for call in batch for d in call.drafts]
        segments = [s for call in batch for s in call.segments]
        try:
            written = self.replica.write(drafts, segments, self._wall_us())
        except (apsw.FullError, apsw.ReadOnlyError, apsw.IOError) as error:
            self.problem = f"the log cannot be written: {type(error).__name__}: {error}"
            _log.error("log_write_failed", error=type(error).__name__, reason=str(error), calls=len(batch))
            self._fail(batch, _refusal(error))
            return
        except (apsw.CorruptError, apsw.NotADBError) as error:
            self.problem = f"the log is damaged: {error}"
            _log.error("log_damaged", reason=str(error), calls=len(batch))
            self._fail(batch, Corrupted(f"the log is damaged ({error}). Nothing was stored."))
            return
        except Exception as error:  # noqa: BLE001  the thread must outlive a defect in one batch
            _log.error("log_write_defect", calls=len(batch), **defect(error))
            text = f"the log refused a batch: {type(error).__name__}. Nothing was stored."
            self._fail(batch, Internal(text, definite=True))
            return
        self.problem = self._record_head()
        self._heads = self.replica.log.heads()
        own = written.opened + [e for e in written.own if isinstance(e, Logged)]
        try:
            self._on_commit(written.changes, own)
        except Exception as error:  # noqa: BLE001  what is durable is acknowledged, and the thread lives on
            self.behind = f"not all that is stored can be searched ({type(error).__name__}): restart the peer"
            _log.error("after_commit_defect", **defect(error))
        self._answer(batch, written)

    def _record_head(self) -> str | None:
        """Note the own head outside the database; what the commit holds is durable whether or not this works."""
        current = self.replica.log.current
        if self._heads_file is None or current is None:
            return None
        head = self.replica.log.heads()[current]
        recorded = self._heads_file.recorded
        if recorded is not None and (recorded.stream, recorded.sequence) == (current, head.sequence):
            return None
        try:
            self._heads_file.record(RecordedHead(current, head.sequence, head.hash))
        except OSError as error:
            _log.error("heads_file_failed", reason=str(error))
            return f"the heads file cannot be written: {error}"
        return None

    def _answer(self, batch: list[_Call], written: Written) -> None:
        own = iter(written.own)
        for call in batch:
            mine = [next(own) for _ in call.drafts]
            concerned = {s.stream for s in call.segments}
            forks = [f for f in written.forks if f[0] in concerned]
            call.loop.call_soon_threadsafe(_resolve, call.done, (mine, forks))

    def _fail(self, batch: list[_Call], error: HyphaeError) -> None:
        for call in batch:
            call.loop.call_soon_threadsafe(_reject, call.done, error)


class LogReader:
    """The log as the mesh sees it (`mesh.ports.EventLog`): reads on connections of its own, writes by `Writer`."""

    def __init__(self, path: str, writer: Writer) -> None:
        self._writer = writer
        self._pool = ReadPool(path, 2)

    def heads(self) -> dict[StreamId, Head]:
        return self._writer.heads()

    async def apply(self, segments: Sequence[Segment]) -> Applied:
        return await self._writer.apply(segments)

    async def read(self, stream: StreamId, first: int, max_bytes: int) -> Segment | None:
        return await self._pool.read(lambda db: _read(db, stream, first, max_bytes))

    def close(self) -> None:
        """Close the connections; blocks while a read runs."""
        self._pool.close()


def _read(db: apsw.Connection, stream: StreamId, first: int, max_bytes: int) -> Segment | None:
    number = database.value(
        db,
        "SELECT stream_no FROM streams WHERE peer=? AND partition=? AND ordinal=? AND random=?",
        *stream,
    )
    return None if number is None else read_segment(db, number, stream, first, max_bytes)


def _refusal(error: apsw.Error) -> HyphaeError:
    """Return what a failed transaction means for its calls: an I/O error may have struck after the commit."""
    if isinstance(error, apsw.IOError):
        return Uncertain(f"the log cannot be written ({error}). It may have been stored; reading goes on.")
    return Unavailable(
        f"the log cannot be written ({error}). Nothing was stored; reading goes on. Free disk space, then retry.",
        retry_after_ms=RETRY_MS,
    )


def _segment_bytes(call: _Call) -> int:
    return sum(len(payload or b"") for s in call.segments for _, _, payload in s.events)


def _resolve(future: asyncio.Future[Any], result: Any) -> None:
    if not future.done():
        future.set_result(result)


def _reject(future: asyncio.Future[Any], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
