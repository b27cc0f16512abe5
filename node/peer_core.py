"""The parts of a peer behind its surfaces, opened in order and closed in reverse."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import apsw
import structlog

from mesh import wall_clock
from mesh.digests import Vitals
from mesh.ports import Segment
from node import ballast, database
from node.bootstrap_keys import found_mesh
from node.cell_columns import CellColumns
from node.cluster import MeshCluster
from node.commit_signal import CommitSignal
from node.data_directory import PeerDirectory
from node.derived import DerivedState
from node.embedders import choose_embedder
from node.faiss_index import FaissIndexes
from node.heads_file import HeadsFile
from node.health import Health
from node.identity import Identity
from node.log_file import LogFile
from node.loop_watch import LoopWatch
from node.observability import Metrics
from node.peer_config import PeerConfig
from node.principals import KeyRing
from node.reading import ReadPool
from node.remembered_members import RememberedMembers
from node.replica import Changes, Replica
from node.retrieval import Retrieval
from node.service.context import PeerContext
from node.service.core import MemoryService
from node.sqlite_log import Logged
from node.version import version
from node.writer import LogReader, Writer
from proto.errors import HyphaeError, Unavailable
from proto.events import NO_HASH
from proto.ids import PeerId, format_base32
from proto.streams import StreamId

_log = structlog.get_logger(__name__)

SNAPSHOT_AFTER_CELLS = 1_000
FIRST_KEYS_S = (
    10.0  # a newcomer has them within a digest's second; without its inviter it starts all the same
)


class PeerCore:
    """Made by `open`; ended by `close`."""

    def __init__(self, config: PeerConfig, directory: PeerDirectory, identity: Identity) -> None:
        assert identity.mesh is not None
        self.config, self.directory, self.identity = config, directory, identity
        self._mesh = identity.mesh
        self._cluster: MeshCluster | None = None
        self._members: frozenset[PeerId] = frozenset()
        self._retired: frozenset[PeerId] = frozenset()
        self._forks: set[asyncio.Task[None]] = set()
        self._last_hash = NO_HASH
        self._unsaved_cells = 0
        self._model_problem: str | None = None
        self.watch = LoopWatch()
        self.health = Health(str(directory.path), self._of_model, self._of_log_file, self.watch.problem)
        self._loading: asyncio.Task[None]
        self._watching: asyncio.Task[None]
        self._loop = asyncio.get_running_loop()

    @classmethod
    async def open(
        cls, config: PeerConfig, directory: PeerDirectory, identity: Identity, stop: Callable[[], None]
    ) -> PeerCore:
        """Open everything that needs no network.

        Raises:
            HyphaeError: the database, the heads file or the keys cannot be opened; all is closed again.
        """
        core = cls(config, directory, identity)
        await asyncio.to_thread(core._open_log)
        core._assemble(stop)
        core._loading = asyncio.create_task(core._load_model())
        core._watching = asyncio.create_task(core.watch.watch())
        return core

    async def _load_model(self) -> None:
        """Have the model ready before the first call needs it."""
        load = getattr(self.embedder, "load", None)
        if load is None or self.config.embedder == "none":
            return
        try:
            await load()
        except HyphaeError as error:
            self._model_problem = error.message
            _log.error("model_unavailable", reason=error.message)

    # -- opening

    def _open_log(self) -> None:
        self.embedder = choose_embedder(self.config)
        self._model_problem = getattr(self.embedder, "problem", None)
        db = database.open_writer(self.directory.log)
        try:
            self.replica = Replica(
                db, self.identity.peer, self._mesh, self.embedder.space, secrets.token_bytes, version()
            )
            self._heads = HeadsFile(self.directory.heads)
            ballast.lay(self.directory.ballast)
            self.health.compare(self._heads.recorded, self.replica.log)
            self.health.check_newest(db, self.replica.log)
            self._remembered = RememberedMembers(self.directory.members, self.identity.peer)
            if not self._remembered.others:
                found_mesh(self.replica, self.identity, self._secrets_dir(), wall_clock.now_us())
            current = self.replica.log.current
            self._last_hash = NO_HASH if current is None else self.replica.log.heads()[current].hash
            self.columns, self.indexes = CellColumns(), FaissIndexes()
            self.derived = DerivedState(self.indexes, self.columns, self.embedder.space)
            if self.config.embedder != "none":
                self.derived.load(db, self._snapshot, self.embedder.dimensions)
                self._unsaved_cells = self.derived.rebuilt  # or the next start would read them again
        except (apsw.CorruptError, apsw.NotADBError) as error:
            db.close()
            raise database.damaged(self.directory.log, error) from error
        except (apsw.FullError, apsw.IOError, apsw.ReadOnlyError) as error:
            db.close()
            raise Unavailable(f"{self.directory.log} cannot be written: {error}. Free some space.") from error
        except BaseException:
            db.close()
            raise

    def _secrets_dir(self) -> Path:
        return self.config.secrets_dir or self.directory.secrets

    @property
    def _snapshot(self) -> Path:
        return self.directory.index / "vectors.snapshot"

    def _assemble(self, stop: Callable[[], None]) -> None:
        self.keys = KeyRing(self._mesh, wall_clock.now_ms)
        self.keys.load(self.replica.db)
        self._members = self._read_members()
        self.signal = CommitSignal(self._loop)
        self._log_file = LogFile(self.directory.log)
        self.writer = Writer(self.replica, self._heads, self._on_commit, trouble=self._of_log_file)
        self.pool = ReadPool(self.directory.log)
        retrieval = Retrieval(self.indexes, self.columns, self.replica.lexical, self.embedder, self.pool)
        self.context = PeerContext(
            peer=self.identity.peer,
            mesh=self._mesh,
            name=self.identity.name,
            version=version(),
            data_dir=str(self.directory.path),
            seed=self.identity.seed,
            writer=self.writer,
            pool=self.pool,
            embedder=self.embedder,
            retrieval=retrieval,
            keys=self.keys,
            now_us=wall_clock.now_us,
            random_bytes=secrets.token_bytes,
            problems=self.problems,
            note_damage=self.health.note_damage,
            stop=stop,
            started_s=time.monotonic(),
            signal=self.signal,
            bounds=self.config.bounds,
            write_concern=self.config.write_concern,
            member_count=lambda: len(self._members),
            count_wait=lambda seconds, short: self.metrics_of_calls.count_wait(seconds, short=short),
            watch=self.watch,
        )
        self.metrics_of_calls = Metrics(self._gauges)
        self.service = MemoryService(self.context, self.metrics_of_calls.count)
        self.writer.start()

    async def close(self) -> None:
        """Write what is waiting, save the snapshot, release every file."""
        self._loading.cancel()
        self._watching.cancel()
        await self.service.close()
        self.embedder.close()
        await self._in_peace(self._save_snapshot)
        await asyncio.to_thread(self.pool.close)
        await asyncio.to_thread(self.writer.stop)

    # -- the mesh

    @asynccontextmanager
    async def in_mesh(self, urls: Sequence[str]) -> AsyncIterator[None]:
        """Take part in the mesh for as long as the block runs, if there is an address of NATS."""
        if self.identity.nats_url is None or not self.config.use_nats:
            yield
            return
        log = LogReader(str(self.directory.log), self.writer)
        cluster = MeshCluster(
            self.identity.peer,
            self._mesh,
            self._nats_urls,
            log,
            self.service.serve,
            self._vitals,
            lambda: len(self._members),
            self._on_fork,
        )
        self.context.nats_url = self.identity.nats_url
        self.context.cluster = self._cluster = cluster
        cluster.replicator.set_members(self._known_members(), self._retired)
        cluster.replicator.set_quarantined(self.writer.quarantined())
        await cluster.start(urls)
        cluster.replicator.set_quarantined(self.writer.quarantined())
        cluster.replicator.set_members(self._known_members(), self._retired)
        try:
            yield
        finally:
            await cluster.stop()
            await asyncio.to_thread(log.close)
            self.context.cluster = self._cluster = None

    def _on_fork(self, stream: StreamId, sequence: int, other: bytes) -> None:
        self._forks = {task for task in self._forks if not task.done()}
        self._forks.add(asyncio.create_task(self._set_apart(stream, sequence, other)))

    async def _set_apart(self, stream: StreamId, sequence: int, other: bytes) -> None:
        """Have a fork remembered for all lives to come; in this one the engine knows it already."""
        try:
            await self.writer.quarantine(stream, sequence, other)
        except (HyphaeError, apsw.Error) as error:
            _log.error("quarantine_not_remembered", error=type(error).__name__, reason=str(error))
        if self._cluster is not None:
            self._cluster.replicator.set_quarantined(self.writer.quarantined())

    async def until_known(self, stop: asyncio.Event) -> None:
        """Wait, after a first join, until the keys of the mesh are here: before that nobody can be served."""
        until_s = time.monotonic() + FIRST_KEYS_S
        while self.keys.is_empty() and self._cluster is not None and time.monotonic() < until_s:
            if stop.is_set():
                return
            await asyncio.sleep(0.02)

    def _known_members(self) -> frozenset[PeerId]:
        """Return the members in the log, those remembered from a lost one, and the inviter of a newcomer."""
        inviter = self.identity.inviter
        known = self._members | self._remembered.others | ({inviter} if inviter is not None else set())
        return known - self._retired

    def _read_members(self) -> frozenset[PeerId]:
        found = database.rows(self.replica.db, "SELECT peer FROM members WHERE retired_ms IS NULL")
        gone = database.rows(self.replica.db, "SELECT peer FROM retirements")
        members = frozenset(PeerId(row[0]) for row in found)
        self._retired = frozenset(PeerId(row[0]) for row in gone)
        self._remembered.update(members, self._retired)
        return members

    def _nats_urls(self) -> Sequence[str]:
        """Return where NATS is now: the file that names it, if there is one, may have changed."""
        file = self.config.nats_url_file
        if file is not None:
            with contextlib.suppress(OSError):
                return [file.read_text(encoding="utf-8").strip()]
        return [self.identity.nats_url or ""]

    def _vitals(self) -> Vitals:
        return Vitals(
            wall_ms=wall_clock.now_ms(),
            space=self.embedder.space,
            version=version(),
            lag_ms=self.watch.lag_ms,
            in_service=self.identity.peer not in self._retired and not self.watch.is_out,
        )

    # -- after each commit, on the writer's thread

    def _on_commit(self, changes: Changes, own: list[Logged]) -> None:
        if changes.refolded:
            self.derived.load_again(self.replica.db)
        else:
            self.derived.take(changes)
        self._unsaved_cells += len(changes.cells)
        if changes.keys:
            self.keys.load(self.replica.db)
        if changes.members:
            self._members = self._read_members()
            self._loop.call_soon_threadsafe(self._tell_members)
        if own:
            segment = self._segment(own)
            if self._cluster is not None:
                self._cluster.publish([segment])
        if changes.events:
            self.signal.commit(changes.events[-1].local)

    def _tell_members(self) -> None:
        if self._cluster is not None:
            self._cluster.replicator.set_members(self._known_members(), self._retired)

    def _segment(self, own: list[Logged]) -> Segment:
        """Return own events of one commit, which follow one another in the stream of this process life."""
        first = own[0].event.header
        previous = NO_HASH if first.sequence == 1 else self._last_hash
        self._last_hash = own[-1].event.hash
        events = tuple((e.event.header_bytes, e.event.salt, e.event.payload) for e in own)
        return Segment(first.stream, first.sequence, previous, events)

    # -- looking after itself

    @property
    def last_request(self) -> float:
        """Monotonic seconds of the last call."""
        return self.service.last_request

    async def housekeeping(self) -> None:
        """Save the snapshot when much has changed, close sessions that are idle, try a log that failed again."""
        if self._unsaved_cells >= SNAPSHOT_AFTER_CELLS:
            await self._in_peace(self._save_snapshot)
        await self._in_peace(self.service.close_idle_sessions)
        await self._in_peace(self.writer.probe)

    async def _save_snapshot(self) -> None:
        unsaved = self._unsaved_cells
        if unsaved:
            await self.writer.ask(lambda replica: self.derived.save(replica.db, self._snapshot))
            self._unsaved_cells -= unsaved

    async def _in_peace(self, step: Callable[[], Awaitable[None]]) -> None:
        """Do what can wait: where a full disk refuses it, the peer goes on, and it is done another time."""
        try:
            await step()
        except Exception as error:  # noqa: BLE001
            _log.warning(
                "housekeeping_failed", step=step.__name__, error=type(error).__name__, reason=str(error)
            )

    def problems(self) -> list[str]:
        """Return what is wrong with this peer, in words."""
        return self.health.problems(self.writer, None if self._cluster is None else self._cluster.status())

    def readiness(self) -> Mapping[str, Any]:
        """Return what `/readyz` shows."""
        problems = self.problems()
        return {
            "ready": self.writer.problem is None and self._of_log_file() is None and not self.watch.is_out,
            "state": "degraded" if problems else "ok",
            "peer_id": format_base32(self.identity.peer),
            "problems": problems,
        }

    def _of_model(self) -> str | None:
        trouble = self._model_problem
        return None if trouble is None else f"the embedding model is unavailable: {trouble}"

    def _of_log_file(self) -> str | None:
        return self._log_file.trouble()

    def metrics(self) -> bytes:
        return self.metrics_of_calls.render()

    def _gauges(self) -> Mapping[str, float]:
        status = {"connected": False, "peers_up": 1} if self._cluster is None else self._cluster.status()
        gauges = {} if self._cluster is None else self._cluster.gauges()
        return {
            **{f"mesh_{name}": float(value) for name, value in gauges.items()},
            "nats_connected": float(status["connected"]),
            "peers_up": float(status["peers_up"]),
            "loop_lag_ms": float(self.watch.lag_ms),
            "waiting_writes": float(self.writer.waiting()),
            "calls_under_way": float(self.service.calls_under_way),
            "cells": float(self.columns.total()),
            "vectors": float(self.indexes.total()),
            "degraded": float(bool(self.problems())),
        }
