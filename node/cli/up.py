"""`hyphae up` and `hyphae down`: a whole mesh on this machine, and its end."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from node.background import stop_holder
from node.cli import output
from node.cli.calls import Caller
from node.cli.options import data_dir_option, json_option, place
from node.client_config import CLIENTS
from node.client_setup import server_environment
from node.data_directory import MeshDirectory, PeerDirectory, RunFile, peers_of
from node.detached import start_detached
from node.directory_lock import holder_of
from node.logging_setup import log_to_stderr
from node.server_tls import ServerTls, check_exposure, files_of
from node.settings import current_settings, unknown_variables
from node.supervisor import Supervisor
from node.up import UpConfig, UpSummary, count_note, summary_text
from proto.errors import Conflict

INVITATION_S = 600


@click.command()
@click.option(
    "--peers", type=click.IntRange(1, 32), help="How many. Default: as many as the directory holds, or 1."
)
@click.option("--http-host", help="Address to listen on. Default 127.0.0.1.")
@click.option(
    "--http-port",
    type=click.IntRange(0, 65535),
    help="Port of the first peer; the others count up. Default 4974.",
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
) -> None:
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
    files = files_of(settings.tls_cert, settings.tls_key)
    check_exposure(config.http_host, tls=files is not None, allow_plain_http=settings.allow_plain_http)
    if files is not None:
        ServerTls(files)  # what is wrong with them is better said here than by a child
    for sentence in unknown_variables(os.environ):
        output.note(f"warning: {sentence}")
    log_to_stderr("warning")
    if detach:
        _announce(start_detached(config), where.config, as_json, config.peers, detached=True)
        return
    with output.working("starting NATS and the peers") as done:

        def ready(summary: UpSummary) -> None:
            done()
            _announce(summary, where.config, as_json, config.peers)

        _run(config, settings.nats_server, ready)
    if not as_json:
        output.note("stopped")


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
    mesh, above = MeshDirectory(where.data), MeshDirectory(where.data.parent)
    keeper = above.holder()
    if keeper is not None and PeerDirectory(where.data) in above.peers():
        raise Conflict(
            f"{where.data} is kept running by process {keeper.pid} ({keeper.role}). Nothing was stopped. "
            f"Stop all of it with `hyphae down --data-dir {above.path}`."
        )
    locks = [mesh.lock, *(peer.lock for peer in peers_of(where.data))]
    for lock in dict.fromkeys(locks):
        holder = holder_of(lock)
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


def _run(config: UpConfig, nats_binary: Path | None, ready: Callable[[UpSummary], None]) -> None:
    from mesh.nats_server import EmbeddedNats

    async def run() -> None:
        nats = EmbeddedNats(MeshDirectory(config.directory).nats, binary=nats_binary)
        await Supervisor(config, nats, _invitation, output.note).run(ready)

    asyncio.run(run())


async def _invitation(run: RunFile) -> str:
    from mesh.requester_http import HttpRequester

    requester = HttpRequester(run.socket)
    try:
        result = await Caller(requester, None, None).call("invite_peer", {"ttl_seconds": INVITATION_S})
    finally:
        await requester.close()
    return str(result["token"])


def _announce(
    summary: UpSummary, config: Path, as_json: bool, asked: int | None, *, detached: bool = False
) -> None:
    note = count_note(asked, len(summary.peers), MeshDirectory(summary.directory).last_number())
    if note is not None:
        output.note(f"warning: {note}")
    if as_json:
        output.print_json(summary.record())
        return
    key_file = MeshDirectory(summary.directory).agent_key
    env = server_environment({"data": str(summary.directory), "url": None}, key_file, config)
    output.print_text(summary_text(summary, CLIENTS["claude-code"], env, detached=detached))
