"""`hyphae up` and `hyphae down`: a whole mesh on this machine, and its end."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from node.background import stop_holder
from node.child_process import hyphae_command
from node.cli import output
from node.cli.options import data_dir_option, json_option, place
from node.client_config import CLIENTS, ENTRY, GROUP, stdio_entry
from node.client_setup import hyphae_executable, server_environment
from node.data_directory import MeshDirectory, RunFile, peers_of, running_peers
from node.locations import config_dir
from node.logging_setup import log_everything
from node.private_files import make_directory, read_record, read_secret
from node.settings import current_settings, unknown_variables
from node.up import UpConfig, UpSummary
from node.version import version
from proto.errors import HyphaeError, Unavailable, rebuild

INVITATION_S = 600
DETACHED_READY_S = 180.0


@click.command()
@click.option("--peers", type=click.IntRange(1, 32), help="How many. Default: as many as the directory holds, or 1.")
@click.option("--http-host", help="Address to listen on. Default 127.0.0.1.")
@click.option(
    "--http-port", type=click.IntRange(0, 65535), help="Port of the first peer; the others count up. Default 4974."
)
@click.option("--detach", is_flag=True, help="Run in the background; `hyphae down` stops it.")
@data_dir_option
@json_option
def up(
    peers: int | None,
    http_host: str | None,
    http_port: int | None,
    detach: bool,
    data_dir: Path | None,
    as_json: bool,
) -> int | None:
    """Run a mesh on this machine, in the foreground: a NATS server and one or more peers.

    When everything is ready it prints the addresses, the keys and an entry for a client; with --json one
    line. Ctrl-C or SIGTERM stops all of it. Started again it has the same memories and the same keys.

    \b
    Examples:
      hyphae up
      hyphae up --peers 3 --data-dir ./team
      hyphae up --http-port 0 --json
    """
    where = place(data_dir)
    settings = current_settings(where.config)
    config = UpConfig(
        where.data,
        peers or settings.peers,
        http_host or settings.http_host,
        settings.http_port if http_port is None else http_port,
    )
    for sentence in unknown_variables(os.environ):
        output.note(f"warning: {sentence}")
    announce = _announcer(as_json)
    if detach:
        return _detached(config, announce)
    log_everything(settings.log_level, None if not MeshDirectory(where.data).logs.is_dir() else _log(where.data))
    _run(config, settings.nats_server, announce)
    if not as_json:
        output.note("stopped")
    return None


@click.command()
@data_dir_option
@json_option
def down(data_dir: Path | None, as_json: bool) -> None:
    """Stop what runs in a data directory: `hyphae up`, a peer, or the background peer of editors.

    It waits until everything has ended. Nothing running is no error.

    \b
    Examples:
      hyphae down
      hyphae down --data-dir ./team
    """
    where = place(data_dir)
    stopped: list[dict[str, Any]] = []
    mesh = MeshDirectory(where.data)
    locks = [mesh.lock, *(peer.lock for peer in peers_of(where.data))]
    for lock in dict.fromkeys(locks):
        holder = _known_holder(lock)
        if holder is not None:
            stop_holder(lock, holder)
            stopped.append({"pid": holder.pid, "role": holder.role, "directory": str(lock.parent)})
    if as_json:
        output.print_json({"stopped": stopped})
        return
    for one in stopped:
        output.print_text(f"stopped {one['role']} (process {one['pid']}) in {one['directory']}")
    if not stopped:
        output.print_text(f"Nothing runs in {where.data}.")
