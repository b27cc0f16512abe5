"""A `Cluster` of containers, made of deploy/compose.yaml: what operators run is what is hurt here.

testcontainers starts what the file says, command by command and limit by limit.  Two things differ: each peer is in a
second network with a published port, so that agents reach it while it is cut off from the mesh, and nothing is
restarted by the engine, since bringing back is the injector's.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import resource
import subprocess
import tarfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import docker  # type: ignore[import-untyped]
import psutil
import yaml  # type: ignore[import-untyped]
from docker.errors import APIError, NotFound  # type: ignore[import-untyped]
from testcontainers.core.config import testcontainers_config
from testcontainers.core.container import DockerContainer
from testcontainers.core.network import Network

from tests.chaos.cluster import PEERS, SERVERS
from tests.chaos.damage import copy_to
from tests.chaos.looking import FILES
from tests.chaos.serving import for_each, serves
from tests.chaos.time_faults import NEED_PROCESSES
from tests.support.hyphae_command import eventually
from tests.support.nats_process import free_port

COMPOSE = Path(__file__).resolve().parents[2] / "deploy" / "compose.yaml"
IMAGE_VARIABLE = "HYPHAE_IMAGE"
LOOPBACK = "127.0.0.1"
START_S = 90.0
STOP_S = 20
LOCKED_DOWN = ("read_only", "cap_drop", "security_opt", "mem_limit", "pids_limit", "entrypoint")


class ContainerCluster:
    """See `tests.chaos.cluster.Cluster`.  Needs a Docker engine and the image of `make image`."""

    def __init__(self) -> None:
        testcontainers_config.ryuk_disabled = True  # it would have to be pulled; `close` cleans up
        self._name = f"hyphae-chaos-{uuid4().hex[:8]}"
        self._services: dict[str, Any] = yaml.safe_load(COMPOSE.read_text(encoding="utf-8"))["services"]
        self._image = os.environ.get(IMAGE_VARIABLE) or _default(self._services["peer-1"]["image"])
        self._engine = docker.from_env()
        self._mesh, self._door = Network(docker_network_kw={"internal": True}), Network()
        self._containers: dict[str, Any] = {}
        self._operator = ""
        self._ports = {peer: free_port() for peer in PEERS}

    @property
    def description(self) -> str:
        return "containers, the real model"

    # -- life

    def start(self) -> None:
        self._mesh.create()
        self._door.create()
        for name in (*PEERS, *SERVERS):
            self._engine.volumes.create(self._volume(name))
        self._prepare()
        for_each(self._start_server, SERVERS)
        for_each(self._start_peer, PEERS)
        for_each(self._until_it_serves, PEERS)

    def stop(self) -> None:
        for_each(self.end, PEERS)
        for_each(self.end, SERVERS)

    def close(self) -> None:
        for container in self._containers.values():
            with contextlib.suppress(APIError):
                container.remove(force=True)
        for network in (self._mesh, self._door):
            with contextlib.suppress(APIError, AssertionError):
                network.remove()
        for name in (*PEERS, *SERVERS):
            with contextlib.suppress(APIError):
                self._engine.volumes.get(self._volume(name)).remove(force=True)
        self._engine.close()

    def _prepare(self) -> None:
        service = self._services["prepare"]
        volumes = dict(mount.split(":") for mount in service["volumes"])
        self._engine.containers.run(
            self._image,
            network_mode="none",
            remove=True,
            volumes={self._volume(n): {"bind": where, "mode": "rw"} for n, where in volumes.items()},
            **_limits(service),
        )

    def _start_server(self, name: str) -> None:
        container = self._described(name).with_network(self._mesh).with_network_aliases(name, "nats")
        self._containers[name] = container.start().get_wrapped_container()

    def _start_peer(self, name: str) -> None:
        container = self._described(name).with_network(self._door)
        container.ports["4974/tcp"] = (LOOPBACK, self._ports[name])  # type: ignore[assignment]
        self._containers[name] = container.start().get_wrapped_container()
        self._mesh.connect(self._containers[name].id, [name])

    def _described(self, name: str) -> DockerContainer:
        """Return a container as the file describes its service."""
        service = self._services[name]
        container = DockerContainer(self._image).with_name(f"{self._name}-{name}")
        container.with_command(service["command"]).with_kwargs(**_limits(service))
        container.with_envs(**{k: str(v) for k, v in service.get("environment", {}).items()})
        for mount in service.get("tmpfs", ()):
            where, _, options = mount.partition(":")
            container.with_tmpfs_mount(where, options)
        mode = "ro" if service["volumes"][0].endswith(":ro") else "rw"
        return container.with_volume_mapping(self._volume(name), "/data", mode)

    def _volume(self, name: str) -> str:
        return f"{self._name}-{name}"

    # -- what it is

    def offers(self, fault: str) -> bool:
        return fault not in NEED_PROCESSES

    def url(self, peer: str) -> str:
        return f"http://{LOOPBACK}:{self._ports[peer]}"

    def operator_key(self) -> str:
        if not self._operator:  # asked once: its disk may be lost
            _, text = self._containers["peer-1"].exec_run(["cat", "/data/secrets/operator.key"])
            self._operator = str(text.decode().strip())
        return self._operator

    def copy_log(self, peer: str, into: Path) -> None:
        for name in FILES:
            with contextlib.suppress(NotFound):
                packed, _ = self._containers[peer].get_archive(f"/data/{name}")
                with tarfile.open(fileobj=io.BytesIO(b"".join(packed))) as archive:
                    archive.extractall(into, filter="data")

    def said(self, peer: str) -> str:
        return str(self._containers[peer].logs().decode(errors="replace"))

    def nats_url(self) -> str | None:
        return None  # their network is closed

    def inspect(self, peer: str) -> Mapping[str, Any]:
        log = self._command(peer, "log", "verify", "--json")
        fold = self._command(peer, "node", "rebuild", "--json")
        return {"ok": log["ok"], "streams": log["streams"], "state_hash": fold["state_hash"]}

    def _command(self, peer: str, *arguments: str) -> Any:
        said = self._engine.containers.run(
            self._image,
            list(arguments),
            network_mode="none",
            remove=True,
            stderr=False,
            volumes={self._volume(peer): {"bind": "/data", "mode": "rw"}},
        )
        return json.loads(said)["peers"][0]

    # -- harm

    def kill(self, members: Sequence[str]) -> None:
        for_each(partial(self._if_it_runs, "kill"), members)

    def revive(self, members: Sequence[str]) -> None:
        self.resume(members)
        for_each(self._start_again, members)
        for_each(self._until_it_serves, [name for name in members if name in PEERS])

    def end(self, member: str) -> None:
        self._containers[member].stop(timeout=STOP_S)

    def pause(self, members: Sequence[str]) -> None:
        for_each(partial(self._if_it_runs, "pause"), members)

    def resume(self, members: Sequence[str]) -> None:
        for_each(partial(self._if_it_runs, "unpause"), members)

    def disconnect(self, peers: Sequence[str]) -> None:
        for name in peers:
            with contextlib.suppress(APIError):
                self._network().disconnect(self._containers[name])

    def connect(self, peers: Sequence[str]) -> None:
        for name in peers:
            container = self._containers[name]
            container.reload()
            if self._mesh.name not in container.attrs["NetworkSettings"]["Networks"]:
                self._network().connect(container, aliases=[name])

    # -- disks and data directories: those of the engine, which has to run on this machine

    def directory(self, peer: str) -> Path:
        return Path(self._engine.volumes.get(self._volume(peer)).attrs["Mountpoint"])

    def starts(self, peer: str) -> str:
        container = self._containers[peer]
        container.start()

        def settled() -> bool:
            container.reload()
            return serves(self.url(peer)) or container.status == "exited"

        eventually(settled, f"{peer} serves or ends", START_S)
        return "" if container.status == "running" else str(container.logs(tail=20).decode())

    def fill(self, peer: str, how: str) -> None:
        del how  # the file system is that of this machine
        self._limit(peer, 0)

    def free(self, peer: str) -> None:
        self._limit(peer, resource.RLIM_INFINITY)

    def _limit(self, peer: str, size: int) -> None:
        container = self._containers[peer]
        container.reload()
        if container.status == "running":
            first = psutil.Process(container.attrs["State"]["Pid"])
            for process in (first, *first.children(recursive=True)):
                _limit_files(process, size)

    def run_copy(self, peer: str, copy: Path) -> str:
        port = free_port()
        volume = self._engine.volumes.create(f"{self._volume(peer)}-twin")
        place = Path(self._engine.volumes.get(volume.name).attrs["Mountpoint"])
        copy_to(copy, place)
        os.chown(place, copy.stat().st_uid, copy.stat().st_gid)
        container = self._described(peer).with_name(f"{self._name}-{peer}-twin").with_network(self._door)
        container.volumes = {volume.name: {"bind": "/data", "mode": "rw"}}
        container.ports["4974/tcp"] = (LOOPBACK, port)  # type: ignore[assignment]
        self._containers[f"{peer}-twin"] = twin = container.start().get_wrapped_container()
        self._mesh.connect(twin.id, [f"{peer}-twin"])
        url = f"http://{LOOPBACK}:{port}"
        eventually(lambda: serves(url), f"the twin of {peer} serves", START_S)
        return url

    def end_copy(self, peer: str) -> None:
        twin = self._containers.pop(f"{peer}-twin", None)
        if twin is not None:
            twin.remove(force=True)
            self._engine.volumes.get(f"{self._volume(peer)}-twin").remove(force=True)

    def join_anew(self, peer: str) -> None:
        self._prepare()
        for server in SERVERS:
            self._containers[server].kill("HUP")
        self._start_again(peer)
        self._until_it_serves(peer)

    def _network(self) -> Any:
        return self._engine.networks.get(self._mesh.id)

    def _start_again(self, name: str) -> None:
        self._containers[name].start()

    def _until_it_serves(self, name: str) -> None:
        eventually(lambda: serves(self.url(name)), f"{name} serves", START_S)

    def _if_it_runs(self, what: str, name: str) -> None:
        with contextlib.suppress(APIError, NotFound):  # not running, paused already, not paused
            getattr(self._containers[name], what)()


def _limits(service: Mapping[str, Any]) -> dict[str, Any]:
    return {name: service[name] for name in LOCKED_DOWN if name in service}


def _limit_files(process: psutil.Process, size: int) -> None:
    """Bound how long the files of a process may grow, as its own user: who runs the tests may lack that right."""
    bound = "unlimited" if size == resource.RLIM_INFINITY else str(size)
    subprocess.run(
        ["prlimit", "--pid", str(process.pid), f"--fsize={bound}:unlimited"],
        user=process.uids().real,
        group=process.gids().real,
        extra_groups=[],
        check=True,
    )


def _default(text: str) -> str:
    """Return the default in a variable of the compose file: `b` of `${A:-b}`."""
    return re.sub(r"^\$\{\w+:-(.*)\}$", r"\1", text)
