"""A `Cluster` of processes on loopback: `hyphae node` and nats-server, with a TCP proxy before each peer's NATS.

Peer K speaks to server K only, through a proxy that can go silent: that is its partition.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from deploy.prepare import prepare
from mesh.nats_address import format_nats_url, parse_nats_url
from tests.chaos.cluster import PEERS, SERVERS
from tests.chaos.looking import FILES
from tests.chaos.plants import PLANT_VARIABLE
from tests.chaos.serving import for_each, serves
from tests.support.hyphae_command import eventually
from tests.support.nats_process import free_port
from tests.support.prepared_mesh import FAR_MS, LOOPBACK, PreparedServer, loopback_plan
from tests.support.running_mesh import RunningPeer
from tests.support.tcp_proxy import TcpProxy

ROOT = Path(__file__).resolve().parents[2]
START_S = 60.0


class HashPeer(RunningPeer):
    """A peer that embeds by hashing words."""

    module = "tests.chaos.hash_peer"


class ProcessCluster:
    """See `tests.chaos.cluster.Cluster`.

    Args:
        root: a short path; everything is below.
        model: embed with the real model.
        plant: name of a fault of the product to be planted, see `plants`.
    """

    def __init__(self, root: Path, *, model: bool = False, plant: str = "") -> None:
        self._root, self._model, self._plant = root, model, plant
        self._plan = loopback_plan(root)
        self._servers = {name: PreparedServer(self._plan, n) for n, name in enumerate(SERVERS, 1)}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._proxies = {
            name: TcpProxy(server.client_port) for name, server in zip(PEERS, self._plan.servers, strict=True)
        }
        self._peers: dict[str, RunningPeer] = {}
        self._paused: set[str] = set()

    @property
    def description(self) -> str:
        return f"processes, {'the real model' if self._model else 'hashed words'}"

    # -- life

    def start(self) -> None:
        prepare(self._plan, FAR_MS)
        for number in range(1, len(SERVERS) + 1):
            self._keep_to_proxies(self._plan.config(number))
        for_each(PreparedServer.start, self._servers.values())
        self._thread.start()
        for number, name in enumerate(PEERS, 1):
            self._run(self._proxies[name].start())
            self._peers[name] = self._peer(name, number)
        for_each(RunningPeer.start, self._peers.values())
        for_each(self._until_it_serves, PEERS)

    def stop(self) -> None:
        for_each(RunningPeer.stop, self._peers.values())
        for server in self._servers.values():
            server.kill()

    def close(self) -> None:
        self.resume([*PEERS, *SERVERS])
        for peer in self._peers.values():
            peer.kill()
        for server in self._servers.values():
            server.kill()
        if self._thread.is_alive():
            for proxy in self._proxies.values():
                self._run(proxy.close())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(10)

    def _peer(self, name: str, number: int) -> RunningPeer:
        """Return a peer that reaches NATS through its proxy."""
        secrets = self._plan.peer(number).secrets
        login = parse_nats_url((secrets / "nats-url").read_text().strip())
        file = self._root / f"{name}.url"
        proxy = self._proxies[name].port
        file.write_text(format_nats_url(LOOPBACK, proxy, login.user or "", login.password or "") + "\n")
        join = () if number == 1 else ("--join", f"@{secrets / 'invitation'}")
        kind = RunningPeer if self._model else HashPeer
        options = ("--nats-url", f"@{file}", *join, "--http-port", str(free_port()))
        environment = {"PYTHONPATH": str(ROOT), PLANT_VARIABLE: self._plant}
        return kind(self._root, *options, environment=environment, name=name)

    @staticmethod
    def _keep_to_proxies(config: Path) -> None:
        """Have a server tell nobody of the others, or peers would go around their proxies."""
        settings = json.loads(config.read_text())
        settings["cluster"]["no_advertise"] = True
        config.write_text(json.dumps(settings))

    # -- what it is

    def url(self, peer: str) -> str:
        options = self._peers[peer].options
        return f"http://{LOOPBACK}:{options[options.index('--http-port') + 1]}"

    def operator_key(self) -> str:
        return self._peers["peer-1"].secret("operator")

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
        directory = str(self._plan.peer(PEERS.index(peer) + 1).path)
        log = self._command("log", "verify", "--json", "--data-dir", directory)["peers"][0]
        try:
            fold = self._command("node", "rebuild", "--json", "--data-dir", directory)["peers"][0][
                "state_hash"
            ]
        except AssertionError as error:
            fold = f"{peer} cannot be folded: {str(error)[-200:]}"
        return {"ok": log["ok"], "streams": log["streams"], "state_hash": fold}

    def _command(self, *arguments: str) -> Any:
        done = subprocess.run(
            [sys.executable, "-m", "tests.chaos.hash_peer", *arguments],
            capture_output=True,
            check=False,
            timeout=300,
            cwd=ROOT,
        )
        assert done.stdout, done.stderr.decode()[-2000:]
        return json.loads(done.stdout)

    # -- harm

    def kill(self, members: Sequence[str]) -> None:
        for_each(self._kill, members)

    def revive(self, members: Sequence[str]) -> None:
        self.resume(members)
        for_each(self._start, [name for name in members if not self._runs(name)])

    def end(self, member: str) -> None:
        found = self._member(member)
        found.stop() if isinstance(found, RunningPeer) else found.kill()

    def pause(self, members: Sequence[str]) -> None:
        for name in members:
            if self._runs(name):
                self._member(name).send_signal(signal.SIGSTOP)
                self._paused.add(name)

    def resume(self, members: Sequence[str]) -> None:
        for name in set(members) & self._paused:
            if self._runs(name):
                self._member(name).send_signal(signal.SIGCONT)
            self._paused.discard(name)

    def disconnect(self, peers: Sequence[str]) -> None:
        for name in peers:
            self._loop.call_soon_threadsafe(self._proxies[name].stall)

    def connect(self, peers: Sequence[str]) -> None:
        for name in peers:
            self._loop.call_soon_threadsafe(self._proxies[name].cut)
            self._loop.call_soon_threadsafe(self._proxies[name].resume)

    def _member(self, name: str) -> RunningPeer | PreparedServer:
        return self._peers[name] if name in self._peers else self._servers[name]

    def _kill(self, name: str) -> None:
        self._member(name).kill()

    def _start(self, name: str) -> None:
        self._member(name).start()

    def _until_it_serves(self, name: str) -> None:
        eventually(lambda: serves(self.url(name)), f"{name} serves", START_S)

    def _runs(self, name: str) -> bool:
        process = self._member(name).process
        return process is not None and process.poll() is None

    def _run(self, step: Any) -> None:
        asyncio.run_coroutine_threadsafe(step, self._loop).result(10)
