"""A real nats-server for tests that restart, kill and replace it; rougher than the embedded one."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import socket
from pathlib import Path

from mesh.nats_binary import find_nats_server


def free_port() -> int:
    """Return a port of 127.0.0.1 that nobody uses at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class NatsProcess:
    """One server on a fixed port, with one user without limits, or nobody asked for a password.

    Args:
        directory: for its configuration.
        password: of the user "test"; None lets everybody in.
        port: a free one by default.
    """

    def __init__(self, directory: Path, *, password: str | None = None, port: int = 0) -> None:
        self.port = port or free_port()
        self.password = password
        self._directory = directory
        self._process: asyncio.subprocess.Process | None = None

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    async def start(self) -> None:
        settings: dict[str, object] = {"listen": f"127.0.0.1:{self.port}"}
        if self.password is not None:
            settings["authorization"] = {"user": "test", "password": self.password}
        config = self._directory / f"nats-{self.port}.conf"
        config.write_text(json.dumps(settings))
        self._process = await asyncio.create_subprocess_exec(
            str(find_nats_server()),
            "-c",
            str(config),
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        async with asyncio.timeout(10):
            while not await self._answers():
                await asyncio.sleep(0.01)

    async def kill(self, how: signal.Signals = signal.SIGKILL) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(how)
            await self._process.wait()

    async def _answers(self) -> bool:
        with contextlib.suppress(OSError):
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
            line = await reader.readline()
            writer.transport.abort()
            return line.startswith(b"INFO")
        return False
