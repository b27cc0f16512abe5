"""NATS servers as `deploy.prepare` configures them, on free ports of this machine."""

from __future__ import annotations

import contextlib
import signal
import socket
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from deploy.mesh_files import Server
from deploy.prepare import Plan, prepare
from mesh.nats_binary import find_nats_server
from tests.support.hyphae_command import eventually
from tests.support.nats_process import free_port

LOOPBACK = "127.0.0.1"
FAR_MS = 4_000_000_000_000


def loopback_plan(
    root: Path, peers: int = 3, servers: int = 3, gateways: Sequence[str] = ("gateway",)
) -> Plan:
    """Return a plan whose servers listen on free ports of 127.0.0.1."""
    places = [
        Server(f"nats-{n}", LOOPBACK, LOOPBACK, free_port(), free_port(), free_port())
        for n in range(1, servers + 1)
    ]
    return Plan(root, peers, places, gateways=gateways)


class PreparedServer:
    """Server `number` of a plan that was prepared."""

    def __init__(self, plan: Plan, number: int) -> None:
        self.plan, self.number = plan, number
        self.process: subprocess.Popen[bytes] | None = None
        self.log_path = plan.root / f"nats-{number}.log"

    def start(self) -> None:
        command = [str(find_nats_server()), "-c", str(self.plan.config(self.number))]
        with self.log_path.open("ab") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        eventually(self.answers, f"nats-{self.number} answers")

    def answers(self) -> bool:
        port = self.plan.servers[self.number - 1].client_port
        with contextlib.suppress(OSError), socket.create_connection((LOOPBACK, port), 1) as probe:
            return probe.recv(4) == b"INFO"
        return False

    def send_signal(self, number: int) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def kill(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait(10)


@contextlib.contextmanager
def prepared_servers(plan: Plan) -> Iterator[list[PreparedServer]]:
    """Prepare everything and run the servers for the block."""
    prepare(plan, FAR_MS)
    servers = [PreparedServer(plan, n + 1) for n in range(len(plan.servers))]
    try:
        for server in servers:
            server.start()
        yield servers
    finally:
        for server in servers:
            server.kill()
