"""One real peer for the whole suite, in this process: its service, its HTTP surface, and keys for agents.

The service can be held or made to fail by method, so that "while a call runs" and "a defect" are states of
the real thing, over every transport.  The embedder is the deterministic one without a model.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Coroutine, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from mesh.ports import Requester
from node.surfaces import Surfaces
from proto.messages import Reply, Request
from tests.support.open_service import OpenPeer, open_peer
from tests.support.places import short_directory

START_S = 60.0
ALLOWED_HOST, ALLOWED_ORIGIN = "mesh.example", "https://app.example"

_T = TypeVar("_T")


class WatchedService:
    """The service of a peer, with a record of what it was asked and a hand on the brake.

    Args:
        service: the real one.
    """

    def __init__(self, service: Requester) -> None:
        self.real = service
        self._held: dict[str, asyncio.Event] = {}
        self._instead: dict[str, Exception | Reply] = {}
        self.asked: list[Request] = []
        self.waiting: list[str] = []
        self.cancelled: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)

    async def request(self, request: Request) -> Reply:
        """Answer as the real one, once nothing holds the method."""
        self.asked.append(request)
        instead = self._instead.get(request.method)
        if isinstance(instead, Exception):
            raise instead
        if instead is not None:
            return instead
        gate = self._held.get(request.method)
        if gate is not None:
            self.waiting.append(request.method)
            try:
                await gate.wait()
            except asyncio.CancelledError:
                self.cancelled.append(request.method)
                raise
        return await self.real.request(request)

    async def hold(self, method: str) -> None:
        """Let calls of a method wait, and forget what waited before."""
        self.waiting.clear()
        self.cancelled.clear()
        self._held[method] = asyncio.Event()

    async def release(self, method: str) -> None:
        self._held.pop(method).set()

    def replace(self, method: str, outcome: Exception | Reply | None) -> None:
        """Let every call of a method end so; None ends that."""
        if outcome is None:
            del self._instead[method]
        else:
            self._instead[method] = outcome


@dataclass(frozen=True, slots=True)
class SharedPeer:
    """The running peer.

    Args:
        loop: on which it runs.
        opened: its parts.
        service: what all surfaces ask.
        url: of its HTTP surface.
        root: a directory of this run.
    """

    loop: asyncio.AbstractEventLoop
    opened: OpenPeer
    service: WatchedService
    url: str
    root: Path

    def run(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Run on the loop of the peer and wait for the result."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(START_S)

    def key(self, agent: str, **rights: Any) -> str:
        """Return a new key of an agent."""
        return self.run(self.opened.key(agent, **rights))

    def ask(self, method: str, key: str, **args: Any) -> Mapping[str, Any]:
        """Call the service past every surface."""
        return self.run(self.opened.call(method, args, key))

    @contextlib.contextmanager
    def holding(self, method: str) -> Iterator[None]:
        """Hold every call of a method until the block ends."""
        self.run(self.service.hold(method))
        try:
            yield
        finally:
            self.run(self.service.release(method))

    @contextlib.contextmanager
    def failing(self, method: str, outcome: Exception | Reply) -> Iterator[None]:
        """Let every call of a method end in a defect, or in this reply, while the block runs."""
        self.service.replace(method, outcome)
        try:
            yield
        finally:
            self.service.replace(method, None)

    @contextlib.contextmanager
    def asked(self) -> Iterator[list[tuple[str, Mapping[str, Any]]]]:
        """Yield a list that holds, after the block, what the service was asked in it: method and arguments."""
        seen: list[tuple[str, Mapping[str, Any]]] = []
        begin = len(self.service.asked)
        yield seen
        seen.extend((request.method, request.args) for request in self.service.asked[begin:])


@contextlib.contextmanager
def shared_peer() -> Iterator[SharedPeer]:
    """Run the peer on a thread of its own for the block."""
    ready: Future[SharedPeer] = Future()
    stop = asyncio.Event()

    async def serve(root: Path) -> None:
        async with open_peer(root / "peer") as opened:
            watched = WatchedService(opened.core.service)
            opened.core.service = watched  # type: ignore[assignment]
            config = replace(
                opened.core.config, allowed_hosts=(ALLOWED_HOST,), allowed_origins=(ALLOWED_ORIGIN,)
            )
            surfaces = Surfaces(opened.core, opened.core.directory, config, None)
            async with surfaces.serving():
                loop = asyncio.get_running_loop()
                ready.set_result(SharedPeer(loop, opened, watched, surfaces.http_url, root))
                await stop.wait()

    def life(root: Path) -> None:
        try:
            asyncio.run(serve(root))
        except BaseException as error:
            if ready.done():
                raise
            ready.set_exception(error)

    with short_directory() as root:
        thread = threading.Thread(target=life, args=(root,), name="shared peer", daemon=True)
        thread.start()
        peer = ready.result(START_S)
        try:
            yield peer
        finally:
            peer.loop.call_soon_threadsafe(stop.set)
            thread.join(START_S)
