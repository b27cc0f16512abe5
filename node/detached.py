"""`hyphae up --detach`: the supervisor as a process of its own, reported on until it is ready."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import time
from pathlib import Path

from node.child_process import hyphae_command
from node.data_directory import MeshDirectory, running_peers
from node.directory_checks import check_usable
from node.directory_lock import in_use
from node.private_files import make_directory, read_secret
from node.up import UpConfig, UpSummary, bootstrap_key
from proto.errors import Conflict, HyphaeError, Unavailable, rebuild

READY_DEADLINE_S = 180.0
LAST_WORDS_BYTES = 4096


def start_detached(config: UpConfig) -> UpSummary:
    """Start `hyphae up` in the background and return when it is ready; if it runs already, say where.

    Raises:
        HyphaeError: it did not start; nothing is left running.
    """
    mesh = MeshDirectory(config.directory)
    check_usable(mesh.path)
    holder = mesh.holder()
    if holder is None:
        make_directory(mesh.path)
        make_directory(mesh.logs)
        _start(config, mesh.logs / "up.log")
    elif holder.role != "hyphae up":
        raise Conflict(in_use(mesh.path, holder))
    elif not mesh.up_file.exists():
        raise Unavailable(f"{mesh.path} is being started or stopped by another process; try again.")
    return UpSummary(
        mesh.path,
        running_peers(mesh.path),
        read_secret(mesh.nats_gateway_url),
        bootstrap_key(mesh.operator_key),
        bootstrap_key(mesh.agent_key),
    )


def _start(config: UpConfig, log: Path) -> None:
    count = () if config.peers is None else ("--peers", str(config.peers))
    arguments = (
        *("up", "--json", "--data-dir", str(config.directory), *count),
        *("--http-host", config.http_host, "--http-port", str(config.http_port)),
    )
    with log.open("wb") as stderr:
        process = subprocess.Popen(
            hyphae_command(*arguments),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
            start_new_session=True,
        )
    try:
        line = _line(process)
    except BaseException:
        process.terminate()
        process.wait()
        raise
    if not line:
        process.wait()
        raise _failure(log)
    json.loads(line)


def _line(process: subprocess.Popen[bytes]) -> bytes:
    """Return the one line that it prints when ready; empty when it ended without."""
    assert process.stdout is not None
    until = time.monotonic() + READY_DEADLINE_S
    received = b""
    with selectors.DefaultSelector() as selector, process.stdout as pipe:
        selector.register(pipe, selectors.EVENT_READ)
        while not received.endswith(b"\n"):
            if not selector.select(max(0.0, until - time.monotonic())):
                raise Unavailable(f"`hyphae up` was not ready within {READY_DEADLINE_S:.0f} s.")
            data = os.read(pipe.fileno(), 65536)
            if not data:
                return b""
            received += data
    return received


def _failure(log: Path) -> HyphaeError:
    lines = log.read_bytes()[-LAST_WORDS_BYTES:].decode("utf-8", "replace").strip().splitlines()
    last = lines[-1] if lines else "it said nothing"
    if last.startswith("error: ") and last.count(": ") >= 2:
        _, code, message = last.split(": ", 2)
        return rebuild(code, message, True, None)
    return Unavailable(f"`hyphae up` ended before it was ready: {last}")
