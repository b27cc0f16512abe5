"""The composition root of a peer process: every adapter is chosen and every part is joined here.

Order of a start: lock, identity (joining the mesh if needed), database, heads, memory, surfaces, mesh.  Order
of a stop: surfaces, mesh, writer, snapshot, lock.  A failed start leaves nothing running.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import structlog

from mesh.ports import Requester
from node.data_directory import PeerDirectory, RunFile
from node.directory_lock import DirectoryLock, boot_id, now_text
from node.identity import Identity, load_identity
from node.joining import create_or_join
from node.maintenance import rebuild, verify
from node.peer_config import PeerConfig
from node.peer_core import PeerCore
from node.server_tls import ServerTls, check_exposure
from node.surfaces import Surfaces
from proto.errors import Unavailable
from proto.ids import format_base32

_log = structlog.get_logger(__name__)

HOUSEKEEPING_S = 30.0


async def run_peer(config: PeerConfig, on_ready: Callable[[Mapping[str, Any]], None]) -> int:
    """Run a peer until SIGTERM, SIGINT, `shutdown` or idleness; return the exit code.

    Raises:
        HyphaeError: it cannot start; nothing is left running.
    """
    check_exposure(config.http_host, tls=config.tls is not None, allow_plain_http=config.allow_plain_http)
    tls = None if config.tls is None else ServerTls(config.tls)
    directory = PeerDirectory(config.data_dir)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with AsyncExitStack() as stack:
        stack.enter_context(_naming(directory.path))
        core = await stack.enter_async_context(_opened(config, directory, stop.set))
        surfaces = Surfaces(core, directory, config, tls)
        await stack.enter_async_context(surfaces.serving())
        await stack.enter_async_context(core.in_mesh([surfaces.http_url]))
        await core.until_known(stop)
        run = _run_file(core.identity, directory, surfaces.http_url)
        directory.write_run_file(run)
        stack.callback(directory.remove_run_file)
        _log.info("peer_ready", peer=run.peer_id, http_url=run.http_url)
        on_ready(run.record())
        await _until(stop, core, tls, config.idle_exit_s)
    return 0


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Turn a failure of the file system into an error that says where."""
    try:
        yield
    except OSError as error:
        where = error.filename or path
        raise Unavailable(
            f"{where} cannot be used: {error.strerror or error}. Nothing that was stored is lost."
            " Free disk space or mend its permissions, then start again."
        ) from error


@asynccontextmanager
async def _opened(
    config: PeerConfig, directory: PeerDirectory, stop: Callable[[], None]
) -> AsyncIterator[PeerCore]:
    os.umask(0o077)
    directory.prepare()
    lock = await asyncio.to_thread(DirectoryLock.acquire, directory.lock, "peer")
    try:
        identity = await create_or_join(config, directory, load_identity(directory, config.name))
        core = await PeerCore.open(config, directory, identity, stop)
        try:
            yield core
        finally:
            await core.close()
    finally:
        lock.release()


async def _until(
    stop: asyncio.Event, core: PeerCore, tls: ServerTls | None, idle_exit_s: float | None
) -> None:
    """Wait for the end, doing the housekeeping now and then."""
    while not stop.is_set():
        wait_s = HOUSEKEEPING_S if idle_exit_s is None else min(HOUSEKEEPING_S, max(0.2, idle_exit_s / 4))
        try:
            await asyncio.wait_for(stop.wait(), wait_s)
        except TimeoutError:
            if tls is not None:
                tls.renew()
            await core.housekeeping()
            if idle_exit_s is not None and time.monotonic() - core.last_request > idle_exit_s:
                _log.info("peer_idle", seconds=idle_exit_s)
                return


def _run_file(identity: Identity, directory: PeerDirectory, http_url: str) -> RunFile:
    assert identity.mesh is not None
    return RunFile(
        os.getpid(),
        boot_id(),
        format_base32(identity.peer),
        identity.name,
        format_base32(identity.mesh),
        str(directory.socket()),
        http_url,
        now_text(),
    )


@asynccontextmanager
async def open_offline(data_dir: Path) -> AsyncIterator[Requester]:
    """Open the log of a peer that is not running, without network or model, for keys and inspection.

    Raises:
        Conflict: a process holds the directory; HyphaeError: it cannot be opened.
    """
    config = PeerConfig(data_dir, use_nats=False, embedder="none")
    async with _opened(config, PeerDirectory(data_dir), lambda: None) as core:
        yield core.service


__all__ = ["PeerConfig", "open_offline", "rebuild", "run_peer", "verify"]
