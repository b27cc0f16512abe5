"""A nats-server of its own port for tests that take it away, bring it back and put another in its place."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
from pathlib import Path

from mesh.nats_binary import find_nats_server
from tests.support.hyphae_command import eventually
from tests.support.nats_process import free_port


class NatsServer:
    """One port; each `start` is another server on it, which knows nothing of the one before.

    Args:
        directory: for its configuration.
    """

    def __init__(self, directory: Path) -> None:
        self.port = free_port()
        self._config = directory / "nats.conf"
        self._process: subprocess.Popen[bytes] | None = None
        self._lives = 0

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    def start(self) -> None:
        self._lives += 1
        settings = {"listen": f"127.0.0.1:{self.port}", "server_name": f"server-{self._lives}"}
        self._config.write_text(json.dumps(settings))
        self._process = subprocess.Popen(
            [str(find_nats_server()), "-c", str(self._config)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        eventually(self._answers, "the server answers", 10)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(10)
            self._process = None

    def _answers(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1) as probe:
            return probe.recv(4) == b"INFO"
        return False
