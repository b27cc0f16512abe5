"""A `Requester` that finds the local peer, starts it when none runs, and finds it again when it was replaced.

A background peer ends after idle minutes while editors stay open, and `hyphae up` may take its place: the
next call starts or finds a peer and goes on.  It repeats only calls that certainly were not executed.
Light to import: the stdio gateway uses it.
"""

from __future__ import annotations

import asyncio
import dataclasses
import threading
from collections.abc import Callable
from pathlib import Path

from mesh import wall_clock
from mesh.ports import Requester
from node.background import ensure_local_peer, find_local_peer, first_agent_key
from node.data_directory import RunFile
from node.private_files import read_secret
from proto.errors import HyphaeError, Unavailable
from proto.messages import KeyCredential, Reply, Request

FIRST_AGENT = KeyCredential("the first agent of the local peer")
"""Stands for a key that the peer itself makes at its first start, so it cannot be read before that."""


class LocalPeerRequester:
    """Requests to the peer of one data directory.

    Args:
        path: the data directory, of `up` or of one peer.
        connect: makes a requester for a Unix socket path.
        ensure: blocks until the peer runs and returns its run file; runs in a thread of its own.
    """

    def __init__(
        self,
        path: Path,
        connect: Callable[[str], Requester],
        ensure: Callable[[Path], RunFile] = ensure_local_peer,
    ) -> None:
        self._path = path
        self._connect = connect
        self._ensure = ensure
        self._run: RunFile | None = None
        self._inner: Requester | None = None
        self._starting: asyncio.Future[RunFile] | None = None

    def prepare(self) -> None:
        """Begin to find or start the peer, without waiting.  Must be called inside the event loop."""
        if self._inner is None and self._starting is None:
            self._starting = _in_thread(lambda: self._ensure(self._path))

    async def request(self, request: Request) -> Reply:
        """Return the peer's reply; a call that certainly did not reach a peer is repeated once."""
        try:
            inner = await self._connected(request.deadline_ms)
            reply = await inner.request(self._signed(request))
            if isinstance(reply.error, Unavailable) and reply.error.definite and self._was_replaced():
                await self._forget(inner)
                inner = await self._connected(request.deadline_ms)
                reply = await inner.request(self._signed(request))
        except HyphaeError as e:
            return Reply(error=e)
        return reply

    def written(self, page: str) -> None:
        """Pass on that the reply which carried this page has been written out."""
        if self._inner is not None:
            self._inner.written(page)

    async def close(self) -> None:
        """Release the connection; the peer lives on.  A later request connects again."""
        if self._inner is not None:
            await self._forget(self._inner)

    async def _forget(self, inner: Requester) -> None:
        """Close a connection; one that somebody else replaced meanwhile stays."""
        if self._inner is inner:
            self._inner, self._run = None, None
        await inner.close()

    def _signed(self, request: Request) -> Request:
        if request.credential != FIRST_AGENT:
            return request
        key = read_secret(first_agent_key(self._path))
        return dataclasses.replace(request, credential=KeyCredential(key))

    async def _connected(self, deadline_ms: int) -> Requester:
        if self._inner is not None:
            return self._inner
        self.prepare()
        starting = self._starting
        assert starting is not None
        try:
            left_s = max(0.0, (deadline_ms - wall_clock.now_ms()) / 1000)
            run = await asyncio.wait_for(asyncio.shield(starting), left_s)
        except TimeoutError:
            raise Unavailable(
                "the local peer is still starting. Nothing was stored. Try again in a few seconds.",
                retry_after_ms=3000,
            ) from None
        finally:
            if starting.done() and self._starting is starting:
                self._starting = None
        if self._inner is None:
            self._run, self._inner = run, self._connect(run.socket)
        return self._inner

    def _was_replaced(self) -> bool:
        now = find_local_peer(self._path)
        return now is None or self._run is None or now.pid != self._run.pid


def _in_thread(work: Callable[[], RunFile]) -> asyncio.Future[RunFile]:
    """Run blocking work in a daemon thread, so that a gateway whose client is gone need not wait for it."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[RunFile] = loop.create_future()
    future.add_done_callback(lambda f: f.cancelled() or f.exception())  # a failure nobody awaits is no noise

    def settle(result: RunFile | None, error: Exception | None) -> None:
        if future.done():
            return
        if error is not None:
            future.set_exception(error)
        elif result is not None:
            future.set_result(result)

    def run() -> None:
        result: RunFile | None = None
        error: Exception | None = None
        try:
            result = work()
        except Exception as e:  # noqa: BLE001 - handed to whoever waits
            error = e
        try:
            loop.call_soon_threadsafe(settle, result, error)
        except RuntimeError:
            return  # the loop is closed: nobody waits any more

    threading.Thread(target=run, name="local-peer-start", daemon=True).start()
    return future
