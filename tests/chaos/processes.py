"""A `Cluster` of processes on loopback: `hyphae node` and nats-server, with a TCP proxy before each peer's NATS.

Peer K speaks to server K only, through a proxy that can go silent: that is its partition.  Servers reach one another
through proxies too.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil

from deploy.prepare import prepare
from mesh.nats_address import format_nats_url, parse_nats_url
from tests.chaos.aimed import CONTROL_VARIABLE, Control
from tests.chaos.cluster import PEERS, SERVERS
from tests.chaos.hash_peer import MODEL_VARIABLE
from tests.chaos.looking import FILES
from tests.chaos.newcomers import Newcomers
from tests.chaos.plants import PLANT_VARIABLE
from tests.chaos.route_proxies import RouteProxies
from tests.chaos.serving import for_each, serves
from tests.support.hyphae_command import eventually
from tests.support.nats_process import free_port
from tests.support.prepared_mesh import FAR_MS, LOOPBACK, PreparedServer, loopback_plan
from tests.support.running_mesh import RunningPeer
from tests.support.small_disk import mounted, unmounted
from tests.support.tcp_proxy import TcpProxy

ROOT = Path(__file__).resolve().parents[2]
START_S = 60.0
DISK_MB = 256  # of a peer that has a file system of its own
CHUNK_BYTES = 1024 * 1024
ROOM = {"to the last byte": 0, "to the watermark": 32 * 1024 * 1024}
NEWCOMERS = 12  # how many peers may come and go in one run


class HashPeer(RunningPeer):
    """A peer that embeds by hashing words, unless told otherwise, and can be aimed at."""

    module = "tests.chaos.hash_peer"


class ProcessCluster:
    """See `tests.chaos.cluster.Cluster`.

    Args:
        root: a short path; everything is below.
        model: embed with the real model.
        small_disks: give each peer a file system of its own, if one can be mounted here.
        plant: name of a fault of the product to be planted, see `plants`.
    """

    def __init__(
        self, root: Path, *, model: bool = False, small_disks: bool = False, plant: str = ""
    ) -> None:
        self._root, self._model, self._small_disks, self._plant = root, model, small_disks, plant
        self._mounts: list[Path] = []
        self._copies: dict[str, RunningPeer] = {}
        self._operator = ""
        self._plan = loopback_plan(root, peers=len(PEERS) + NEWCOMERS)
        self._servers = {name: PreparedServer(self._plan, n) for n, name in enumerate(SERVERS, 1)}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        names = [f"peer-{n}" for n in range(1, self._plan.peers + 1)]
        self._proxies = {
            name: TcpProxy(server.client_port)
            for name, server in zip(names, itertools.cycle(self._plan.servers), strict=False)
        }
        self._routes = RouteProxies(self._plan.servers)
        self._newcomers = Newcomers(names[len(PEERS) :], self._peer, root)
        self._peers: dict[str, RunningPeer] = {}
        self._paused: set[str] = set()

    @property
    def description(self) -> str:
        disks = ", disks of their own" if self._mounts else ""
        return f"processes, {'the real model' if self._model else 'hashed words'}{disks}"

    # -- life

    def start(self) -> None:
        for peer in PEERS if self._small_disks else ():
            path = self.directory(peer)
            path.mkdir(mode=0o700)
            if not mounted(path, DISK_MB):
                break  # without the privilege every write is made to fail instead
            self._mounts.append(path)
        prepare(self._plan, FAR_MS)
        self._thread.start()
        for proxy in (*self._proxies.values(), *self._routes):
            self._run(proxy.start())
        for number in range(1, len(SERVERS) + 1):
            self._routes.keep_to(number, self._plan.config(number))
        for_each(PreparedServer.start, self._servers.values())
        for number, name in enumerate(PEERS, 1):
            self._peers[name] = self._peer(name, self._plan.peer(number).secrets / "invitation")
        for_each(RunningPeer.start, self._peers.values())
        for_each(self._until_it_serves, PEERS)

    def stop(self) -> None:
        for_each(RunningPeer.stop, self._peers.values())
        for server in self._servers.values():
            server.kill()

    def close(self) -> None:
        self.resume([*PEERS, *SERVERS])
        for peer in (*self._peers.values(), *self._copies.values()):
            peer.kill()
        self._newcomers.close()
        for server in self._servers.values():
            server.kill()
        if self._thread.is_alive():
            for proxy in (*self._proxies.values(), *self._routes):
                self._run(proxy.close())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(10)
        for path in self._mounts:
            unmounted(path)

    def _peer(self, name: str, invitation: Path) -> RunningPeer:
        """Return a peer that reaches NATS through its proxy."""
        secrets = self._plan.root / name / "secrets"
        login = parse_nats_url((secrets / "nats-url").read_text().strip())
        file = self._root / f"{name}.url"
        proxy = self._proxies[name].port
        file.write_text(format_nats_url(LOOPBACK, proxy, login.user or "", login.password or "") + "\n")
        environment = {
            "PYTHONPATH": str(ROOT),
            CONTROL_VARIABLE: str(self._control_of(name)),
            PLANT_VARIABLE: self._plant,
        }
        if self._model:
            environment[MODEL_VARIABLE] = "1"
        options = ("--nats-url", f"@{file}", "--join", f"@{invitation}", "--http-port", str(free_port()))
        return HashPeer(self._root, *options, environment=environment, name=name)

    def _control_of(self, peer: str) -> Path:
        return self._root / f"{peer}.control"

    # -- what it is

    def offers(self, fault: str) -> bool:
        return True

    def url(self, peer: str) -> str:
        options = (self._peers | self._newcomers.members)[peer].options
        return f"http://{LOOPBACK}:{options[options.index('--http-port') + 1]}"

    def operator_key(self) -> str:
        self._operator = self._operator or self._peers["peer-1"].secret("operator")  # its disk may be lost
        return self._operator

    def copy_log(self, peer: str, into: Path) -> None:
        for name in FILES:
            if (file := self._peers[peer].directory / name).exists():
                shutil.copy(file, into)

    def said(self, peer: str) -> str:
        return self._peers[peer].log()

    def nats_url(self) -> str | None:
        (user,) = self._plan.gateways
        return (self._plan.peer(1).secrets / f"nats-{user}.url").read_text().strip()

    def inspect(self, peer: str) -> Mapping[str, Any]:
        directory = str(self.directory(peer))
        log = self._command("log", "verify", "--json", "--data-dir", directory)["peers"][0]
        try:
            fold = self._command("node", "rebuild", "--json", "--data-dir", directory)["peers"][0]
        except AssertionError as error:
            fold = {"state_hash": f"{peer} cannot be folded: {str(error)[-200:]}"}
        return {"ok": log["ok"], "streams": log["streams"], "state_hash": fold["state_hash"]}

    def _command(self, *arguments: str) -> Any:
        done = self._ended(*arguments)
        assert done.stdout, done.stderr.decode()[-2000:]
        return json.loads(done.stdout)

    @staticmethod
    def _ended(*arguments: str) -> subprocess.CompletedProcess[bytes]:
        command = [sys.executable, "-m", "tests.chaos.hash_peer", *arguments]
        return subprocess.run(command, capture_output=True, check=False, timeout=900, cwd=ROOT)

    # -- harm

    def kill(self, members: Sequence[str]) -> None:
        for_each(self._kill, members)

    def revive(self, members: Sequence[str]) -> None:
        self.resume(members)
        for_each(self._start, [name for name in members if not self.runs(name)])

    def end(self, member: str) -> None:
        found = self._member(member)
        found.stop() if isinstance(found, RunningPeer) else found.kill()

    def pause(self, members: Sequence[str]) -> None:
        for name in members:
            if self.runs(name):
                self._member(name).send_signal(signal.SIGSTOP)
                self._paused.add(name)

    def resume(self, members: Sequence[str]) -> None:
        for name in set(members) & self._paused:
            if self.runs(name):
                self._member(name).send_signal(signal.SIGCONT)
            self._paused.discard(name)

    def disconnect(self, peers: Sequence[str]) -> None:
        for name in peers:
            self._loop.call_soon_threadsafe(self._proxies[name].stall)

    def connect(self, peers: Sequence[str]) -> None:
        for name in peers:
            self._loop.call_soon_threadsafe(self._proxies[name].cut)
            self._loop.call_soon_threadsafe(self._proxies[name].resume)

    # -- disks and data directories

    def directory(self, peer: str) -> Path:
        return self._plan.peer(PEERS.index(peer) + 1).path

    def starts(self, peer: str) -> str:
        try:
            self._start(peer)
        except AssertionError as error:
            return str(error)
        return ""

    def fill(self, peer: str, how: str) -> None:
        path = self.directory(peer)
        if path not in self._mounts or how not in ROOM:
            self._limit(peer, 0)
            return
        with (path / "filler").open("wb", buffering=0) as file, contextlib.suppress(OSError):
            while (room := _free_bytes(path) - ROOM[how]) > 0:
                file.write(bytes(min(room, CHUNK_BYTES)))

    def free(self, peer: str) -> None:
        (self.directory(peer) / "filler").unlink(missing_ok=True)
        self._limit(peer, resource.RLIM_INFINITY)

    def _limit(self, peer: str, size: int) -> None:
        if self.runs(peer):
            pid = self._peers[peer].pid
            psutil.Process(pid).rlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

    def run_copy(self, peer: str, copy: Path) -> str:
        original = self._peers[peer]
        options = list(original.options)
        options[options.index("--http-port") + 1] = str(free_port())
        twin = type(original)(copy.parent, *options, environment=original.environment, name=copy.name)
        self._copies[peer] = twin
        return twin.start().url

    def end_copy(self, peer: str) -> None:
        if peer in self._copies:
            self._copies.pop(peer).kill()

    def join_anew(self, peer: str) -> None:
        prepare(self._plan, FAR_MS)
        for number, server in enumerate(SERVERS, 1):
            self._routes.keep_to(number, self._plan.config(number))
            if self.runs(server):
                self._member(server).send_signal(signal.SIGHUP)
        self._start(peer)
        self._until_it_serves(peer)

    # -- finer harm

    def arm(self, peer: str, instant: str) -> None:
        Control(self._control_of(peer)).arm(instant)

    def disarm(self, peer: str) -> str:
        return Control(self._control_of(peer)).disarm()

    def set_clock(self, peer: str, off_ms: int) -> None:
        Control(self._control_of(peer)).set_clock(off_ms)

    def stall(self, peers: Sequence[str], direction: str) -> None:
        for name in peers:
            self._loop.call_soon_threadsafe(self._proxies[name].stall, direction)

    def slow(self, peers: Sequence[str], bytes_per_s: int) -> None:
        for name in peers:
            self._loop.call_soon_threadsafe(self._proxies[name].slow, bytes_per_s)

    def reset(self, peers: Sequence[str], *, refuse: bool) -> None:
        for name in peers:
            proxy = self._proxies[name]
            self._loop.call_soon_threadsafe(proxy.refuse if refuse else proxy.cut)

    def cut_route(self, one: str, other: str) -> None:
        self._loop.call_soon_threadsafe(self._routes.between(one, other).stall)

    def join_route(self, one: str, other: str) -> None:
        route = self._routes.between(one, other)
        self._loop.call_soon_threadsafe(route.cut)
        self._loop.call_soon_threadsafe(route.resume)

    def admit(self) -> str:
        return self._newcomers.admit([self.url(p) for p in PEERS if self.runs(p)], self.operator_key())

    def retire(self, peer: str) -> None:
        for by in filter(self.runs, PEERS):
            command = ("peer", "retire", peer, "--why", "it leaves", "--json")
            done = self._ended(*command, "--data-dir", str(self._peers[by].directory))
            if done.returncode == 0:
                return
        raise AssertionError(f"nobody retired {peer}")

    def dismiss(self, peer: str) -> None:
        self._newcomers.dismiss(peer)

    def _member(self, name: str) -> RunningPeer | PreparedServer:
        return self._peers[name] if name in self._peers else self._servers[name]

    def _kill(self, name: str) -> None:
        self._member(name).kill()

    def _start(self, name: str) -> None:
        self._member(name).start()

    def _until_it_serves(self, name: str) -> None:
        eventually(lambda: serves(self.url(name)), f"{name} serves", START_S)

    def runs(self, name: str) -> bool:
        process = self._member(name).process
        return process is not None and process.poll() is None

    def _run(self, step: Any) -> None:
        asyncio.run_coroutine_threadsafe(step, self._loop).result(10)


def _free_bytes(path: Path) -> int:
    found = os.statvfs(path)
    return found.f_bavail * found.f_frsize
