"""The NATS server that `hyphae up` brings along: its files, its process, its addresses.

It listens on 127.0.0.1 only, on a random port that is kept across restarts, lets nobody in without a
password, and keeps no state.  Restarting it after a crash, with back-off, is the supervisor's: `poll` and
`wait` say when.  One process owns the directory; that lock is not taken here.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import secrets
import signal
import socket
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import structlog

from mesh.nats_address import format_nats_url
from mesh.nats_binary import check_version, command, find_nats_server
from mesh.nats_config import GATEWAY_USER, HOST, PEER_USER, ServerState, render_config
from proto.errors import Conflict, Invalid, Unavailable

_log = structlog.get_logger(__name__)
START_TIMEOUT_S: Final = 10.0
STOP_TIMEOUT_S: Final = 5.0
_POLL_S: Final = 0.02
_INFO_TIMEOUT_S: Final = 1.0
_USER: Final = re.compile(r"[A-Za-z0-9-]{1,40}")
_START_ATTEMPTS: Final = 5


class EmbeddedNats:
    """One nats-server child process.

    Args:
        directory: for `nats.json` (port and passwords), `nats.conf`, `nats.pid`, `nats.log`; created 0700.
        port: 0 for a random free one, chosen anew if it is taken; else exactly this one.
        gateways: further gateway users, each with a password and a reply prefix of its own, besides the
            one called "gateway".  Letters, digits and "-".
        binary: the program, instead of searching for it.
    """

    def __init__(
        self, directory: Path, *, port: int = 0, gateways: tuple[str, ...] = (), binary: Path | None = None
    ) -> None:
        self._directory = directory
        self._fixed_port = port
        self._users = (PEER_USER, GATEWAY_USER, *gateways)
        for user in gateways:
            if not _USER.fullmatch(user) or self._users.count(user) > 1:
                raise Invalid(f'"{user[:40]}" is no name for a further gateway user: letters, digits, "-".')
        self._binary = binary
        self._state: ServerState | None = None
        self._process: asyncio.subprocess.Process | None = None
        self.version = ""

    @property
    def port(self) -> int:
        """The port of the last start.

        Raises:
            Unavailable: never started.
        """
        return self._started_state().port

    @property
    def pid(self) -> int | None:
        """The server's process id, None when it does not run."""
        return self._process.pid if self._process is not None and self.poll() is None else None

    def peer_url(self) -> str:
        """Return the address with the credentials of peers.  Secret."""
        return self._url(PEER_USER)

    def gateway_url(self, user: str = GATEWAY_USER) -> str:
        """Return the address with the credentials of a gateway user, fit for `HYPHAE_NATS_URL`.  Secret."""
        return self._url(user)

    async def start(self, timeout_s: float = START_TIMEOUT_S) -> None:
        """Start the server and return when it takes connections.  Harmless while it runs.

        Call it on the main thread: on Linux the kernel ends the server with the thread that started it.

        Raises:
            Unavailable: no program, or it ended, or it was not ready in time.  Nothing runs then.
            Conflict: the port that was asked for is taken.
        """
        if threading.current_thread() is not threading.main_thread():
            raise RuntimeError("EmbeddedNats.start must run on the main thread")
        if self.pid is not None:
            return
        binary = self._binary or find_nats_server()
        self.version = await asyncio.to_thread(check_version, binary)
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        state = self._load_state()
        await self._remove_orphan(state)
        for _ in range(_START_ATTEMPTS):
            if await _read_info(state.port) is not None:
                if self._fixed_port:
                    raise Conflict(f"Port {state.port} is taken by another program; NATS was not started.")
            elif await self._launch(binary, state, timeout_s):
                _log.info("NATS server started", port=state.port, version=self.version)
                return
            if not self._fixed_port:  # a port can also be taken without anything listening there
                state = self._state = replace(state, port=_free_port())
        raise Unavailable(
            f"nats-server ended {_START_ATTEMPTS} times at its start (exit code {self.poll()}); "
            f"see {self._log_file}."
        )

    def poll(self) -> int | None:
        """Return the exit code of the server, None while it runs or if it was never started."""
        return None if self._process is None else self._process.returncode

    async def wait(self) -> int:
        """Wait until the server ends; return its exit code (negative: the signal).

        Raises:
            Unavailable: never started.
        """
        if self._process is None:
            raise Unavailable("The NATS server was not started.")
        return await self._process.wait()

    async def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """End the server: asked first, killed after `timeout_s` seconds.  Harmless when none runs."""
        process = self._process
        if process is None or process.returncode is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        try:
            async with asyncio.timeout(timeout_s):
                await process.wait()
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    # -- files ------------------------------------------------------------------------------------------

    @property
    def _log_file(self) -> Path:
        return self._directory / "nats.log"

    @property
    def _pid_file(self) -> Path:
        return self._directory / "nats.pid"

    @property
    def _state_file(self) -> Path:
        return self._directory / "nats.json"

    def _load_state(self) -> ServerState:
        """Return the kept state, completed where users or the port are new; an unreadable file is renewed."""
        kept: dict[str, Any] = {}
        with contextlib.suppress(OSError, ValueError):
            loaded = json.loads(self._state_file.read_text())
            kept = loaded if isinstance(loaded, dict) else {}
        known = kept.get("passwords")
        known = known if isinstance(known, dict) else {}
        port = kept.get("port")
        self._state = ServerState(
            name=str(kept.get("name") or f"hyphae-{secrets.token_hex(8)}"),
            port=self._fixed_port or (port if isinstance(port, int) and 0 < port < 65_536 else _free_port()),
            passwords={user: str(known.get(user) or secrets.token_urlsafe(24)) for user in self._users},
        )
        return self._state

    def _write_files(self, state: ServerState) -> Path:
        kept = {"name": state.name, "port": state.port, "passwords": dict(state.passwords)}
        _write_secret(self._state_file, json.dumps(kept) + "\n")
        config = self._directory / "nats.conf"
        _write_secret(config, render_config(state, self._pid_file, self._log_file))
        return config

    def _started_state(self) -> ServerState:
        if self._state is None:
            raise Unavailable("The NATS server was not started.")
        return self._state

    def _url(self, user: str) -> str:
        state = self._started_state()
        return format_nats_url(HOST, state.port, user, state.passwords[user])

    # -- process ----------------------------------------------------------------------------------------

    async def _launch(self, binary: Path, state: ServerState, timeout_s: float) -> bool:
        """Start the process and wait until it answers; False if it ended, as it does on a taken port."""
        config = self._write_files(state)
        with open(self._log_file, "ab", opener=_open_secret) as complaints:  # noqa: ASYNC230 - a local file
            self._process = await asyncio.create_subprocess_exec(
                *command(binary, config),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=complaints,
                stderr=complaints,
                start_new_session=True,  # Ctrl-C in a terminal reaches `hyphae up` alone: it ends us in order
                umask=0o077,
            )
        try:
            async with asyncio.timeout(timeout_s):
                while self._process.returncode is None:
                    if await _read_info(state.port) == state.name:
                        return True
                    await asyncio.sleep(_POLL_S)
        except TimeoutError:
            await self.stop()
            raise Unavailable(
                f"nats-server was not ready within {timeout_s:.0f} s; see {self._log_file}."
            ) from None
        except BaseException:
            await self.stop()
            raise
        return False

    async def _remove_orphan(self, state: ServerState) -> None:
        """End a server of this directory that a killed parent has left (where the kernel did not)."""
        if await _read_info(state.port) != state.name:
            return
        try:
            pid = int(self._pid_file.read_text())
        except (OSError, ValueError) as error:
            raise Unavailable(
                f"Another NATS server of {self._directory} runs on port {state.port}."
            ) from error
        _log.warning("ending a NATS server that was left behind", pid=pid)
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        try:
            async with asyncio.timeout(STOP_TIMEOUT_S):
                await self._until_silent(state.port)
        except TimeoutError:
            raise Unavailable(
                f"The NATS server with pid {pid} was left behind and cannot be ended."
            ) from None

    @staticmethod
    async def _until_silent(port: int) -> None:
        while await _read_info(port) is not None:  # noqa: ASYNC110 - a foreign process has no event
            await asyncio.sleep(_POLL_S)


async def _read_info(port: int) -> str | None:
    """Return the name of the NATS server on a port, "" for another program, None if nothing listens."""
    try:
        async with asyncio.timeout(_INFO_TIMEOUT_S):
            reader, writer = await asyncio.open_connection(HOST, port)
    except (OSError, TimeoutError):
        return None
    try:
        async with asyncio.timeout(_INFO_TIMEOUT_S):
            verb, _, info = (await reader.readline()).partition(b" ")
            return str(json.loads(info)["server_name"]) if verb == b"INFO" else ""
    except (OSError, TimeoutError, ValueError, KeyError):
        return ""
    finally:
        writer.transport.abort()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def _open_secret(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _write_secret(path: Path, text: str) -> None:
    """Replace a file in one step, readable by its owner only from the first moment."""
    beside = path.with_name(f"{path.name}.{secrets.token_hex(4)}.new")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
