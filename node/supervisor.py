"""`hyphae up`: an embedded nats-server and N peers, each its own process, kept running until told to stop.

It starts them in order (NATS, peer-1, the others with an invitation of peer-1), has what dies started again
on its port, and leaves nothing behind.  It holds no memory and serves nothing; printing is the caller's.
"""

from __future__ import annotations

import asyncio
import functools
import os
import signal
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from node.background import start_turn, stop_background_peer
from node.child_process import PeerProcess
from node.data_directory import MeshDirectory, RunFile
from node.directory_checks import check_usable
from node.directory_lock import DirectoryLock, boot_id, in_use, now_text
from node.private_files import remove, write_private, write_record
from node.process_keeper import Kept, ProcessKeeper
from node.up import UpConfig, UpSummary, bootstrap_key, choose_ports
from proto.errors import Conflict, Unavailable

READY_DEADLINE_S = 90.0  # a first start loads the model from a cold disk
STOP_DEADLINE_S = 7.0  # peers have this long before SIGKILL, so that everything is gone within 10 s
TAKE_OVER_DEADLINE_S = 60.0
TICK_S = 0.05

Invite = Callable[[RunFile], Awaitable[str]]
"""Takes a running peer, returns an invitation of it."""


class NatsServer(Protocol):
    """What the supervisor needs of `mesh.nats_server.EmbeddedNats`."""

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    def poll(self) -> int | None: ...

    def peer_url(self) -> str: ...

    def gateway_url(self) -> str: ...


class Stopped(Exception):
    """A signal came while everything was still being started."""


class Supervisor:
    """One run of `hyphae up`.

    Args:
        config: what was asked for.
        nats: the embedded server, not started.
        invite: gets an invitation from a running peer.
        note: told in one line each what happened to a process.
    """

    def __init__(
        self, config: UpConfig, nats: NatsServer, invite: Invite, note: Callable[[str], None]
    ) -> None:
        self._config = config
        self._mesh = MeshDirectory(config.directory)
        self._nats = nats
        self._invite = invite
        self._note = note
        self._keeper = ProcessKeeper(note)
        self._peers: list[PeerProcess] = []
        self._ports: list[int] = []
        self._first = 1
        self._signals = 0
        self._stop = asyncio.Event()

    async def run(self, on_ready: Callable[[UpSummary], None]) -> None:
        """Start everything, call `on_ready`, and return when stopped by SIGTERM, SIGINT or SIGHUP.

        Raises:
            HyphaeError: something could not be started, or one process kept dying.  Everything that was
                started has ended then; data of peers stays.
        """
        check_usable(self._mesh.path)
        holder = self._mesh.holder()
        if holder is not None:
            raise Conflict(in_use(self._mesh.path, holder))
        ports = choose_ports(self._config)
        self._mesh.prepare()
        with DirectoryLock.acquire(self._mesh.lock, "hyphae up"):
            parent_fd, held = (
                os.pipe()
            )  # nobody else has the writing end: it closes however this process ends
            self._watch_signals()
            try:
                await self._start(ports, parent_fd, on_ready)
                await self._keep_running()
            except Stopped:
                pass
            finally:
                await self._end()
                os.close(held)
                os.close(parent_fd)

    def _watch_signals(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(number, self._signalled)

    def _signalled(self) -> None:
        self._signals += 1
        self._stop.set()

    # -- start ------------------------------------------------------------------------------------------

    async def _start(self, ports: list[int], parent_fd: int, on_ready: Callable[[UpSummary], None]) -> None:
        await self._start_nats()
        self._ports = ports
        self._peers = [
            PeerProcess(
                f"peer-{k}", (), self._mesh.logs / f"peer-{k}.stderr", parent_fd, alone=len(ports) == 1
            )
            for k in range(1, len(ports) + 1)
        ]
        numbers = range(1, len(ports) + 1)
        self._first = next((k for k in numbers if self._mesh.peer(k).mesh_id() is not None), 1)
        first = await self._start_first()
        others = [k for k in numbers if k != self._first]
        if any(self._mesh.peer(k).mesh_id() is None for k in others):
            write_private(self._mesh.invitation, await self._invite(first) + "\n")
        for k in others:
            self._launch(k)
        runs = await self._until_ready(numbers)
        remove(self._mesh.invitation)
        self._keep_up()
        summary = UpSummary(
            self._mesh.path,
            tuple(runs),
            self._nats.gateway_url(),
            bootstrap_key(self._mesh.operator_key),
            bootstrap_key(self._mesh.agent_key),
        )
        self._write_up_file(summary)
        on_ready(summary)

    async def _start_first(self) -> RunFile:
        """Start the peer that the others follow, in the place of the background peer if there is one.

        It is peer-1, or where that was lost the next that belongs to the mesh: it invites a new peer-1.
        """
        with start_turn(self._mesh.path, TAKE_OVER_DEADLINE_S):
            if stop_background_peer(self._mesh.path):
                self._note("stopped the peer that an editor had started in the background; taking its place")
            self._launch(self._first)
            (run,) = await self._until_ready([self._first])
            return run

    def _launch(self, number: int) -> None:
        """Start a peer.  How it finds its mesh depends on whether it has joined already."""
        new = number != self._first and self._mesh.peer(number).mesh_id() is None
        option, file = ("--join", self._mesh.invitation) if new else ("--nats-url", self._mesh.nats_peer_url)
        process = self._peers[number - 1]
        process.arguments = (
            *("node", "--data-dir", str(self._mesh.peer(number).path), "--name", process.name),
            *("--secrets-dir", str(self._mesh.secrets), option, f"@{file}"),
            *("--http-host", self._config.http_host, "--http-port", str(self._ports[number - 1])),
            *("--log-file", str(self._mesh.logs / f"{process.name}.log")),
        )
        process.start()

    async def _until_ready(self, numbers: Sequence[int]) -> list[RunFile]:
        """Return the run files of peers that have just been launched, once all are ready."""
        until = time.monotonic() + READY_DEADLINE_S
        while True:
            runs = [self._mesh.peer(k).running() for k in numbers]
            ready = [run for run in runs if run is not None]
            if len(ready) == len(numbers):
                return ready
            for process in (self._peers[k - 1] for k in numbers):
                if process.poll() is not None:
                    raise process.failure()
            if self._stop.is_set():
                raise Stopped
            if time.monotonic() > until:
                late = ", ".join(f"peer-{k}" for k, run in zip(numbers, runs, strict=True) if run is None)
                raise Unavailable(
                    f"{late} not ready within {READY_DEADLINE_S:.0f} s; see the logs in {self._mesh.logs}."
                )
            await self._pause()

    async def _start_nats(self) -> None:
        """Start the server, and say where it is: after a crash its port may be another."""
        await self._nats.start()
        write_private(self._mesh.nats_peer_url, self._nats.peer_url() + "\n")

    def _keep_up(self) -> None:
        """From now on, start again whatever dies."""
        self._keeper.add(Kept("nats-server", self._start_nats, self._nats.poll, lambda: ""))
        for number, process in enumerate(self._peers, start=1):
            start = functools.partial(self._start_again, number)
            self._keeper.add(Kept(process.name, start, process.poll, process.last_words))

    async def _start_again(self, number: int) -> None:
        self._launch(number)

    # -- run and stop -----------------------------------------------------------------------------------

    async def _keep_running(self) -> None:
        while not self._stop.is_set():
            await self._keeper.tick()
            await self._pause()

    async def _pause(self) -> None:
        try:
            await asyncio.wait_for(self._stop.wait(), TICK_S)
        except TimeoutError:
            return

    async def _end(self) -> None:
        """Stop peers and NATS: asked first, killed after `STOP_DEADLINE_S` or at a second signal."""
        for process in self._peers:
            process.terminate()
        until = time.monotonic() + STOP_DEADLINE_S
        asked = self._signals
        while any(p.pid and p.poll() is None for p in self._peers):
            if time.monotonic() > until or self._signals > max(1, asked):
                break
            await asyncio.sleep(TICK_S)
        for process in self._peers:
            process.kill()
            process.close()
        await self._nats.stop()
        for peer in self._mesh.peers():
            if peer.holder() is None:  # one that was killed could not remove it itself
                peer.remove_run_file()
        for path in (self._mesh.up_file, self._mesh.invitation):
            remove(path)

    def _write_up_file(self, summary: UpSummary) -> None:
        write_record(
            self._mesh.up_file,
            {
                "pid": os.getpid(),
                "boot_id": boot_id(),
                "started_at": now_text(),
                "http_port": self._config.http_port,
                "peers": summary.peer_records(),
                "nats": {"url": _without_credentials(summary.nats_url)},
            },
        )
        write_private(self._mesh.nats_gateway_url, summary.nats_url + "\n")


def _without_credentials(url: str) -> str:
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{rest.rpartition('@')[2]}"
