"""`hyphae node`: one peer as a process, and the repair of what is derived from its log."""

from __future__ import annotations

import asyncio
import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from node.child_process import end_with_parent, tell_parent
from node.cli import output
from node.cli.options import data_dir_option, json_option, place
from node.data_directory import PeerDirectory, peers_of
from node.locations import absolute
from node.logging_setup import log_everything
from node.server_tls import files_of
from node.service.bounds import Bounds
from node.settings import Settings, current_settings
from proto.errors import HyphaeError, Invalid, Unavailable

if TYPE_CHECKING:
    from node.peer import PeerConfig

SECRET_BYTES = 64 * 1024


@click.group(invoke_without_command=True)
@click.option("--nats-url", metavar="URL", help="NATS server of its mesh, with credentials; @FILE reads it.")
@click.option("--join", "join_token", metavar="TOKEN", help="Invitation by a member; @FILE reads it.")
@click.option("--no-nats", is_flag=True, help="Stand alone, even if an address is remembered.")
@click.option("--http-host", help="Address to listen on. Default 127.0.0.1.")
@click.option("--http-port", type=click.IntRange(0, 65535), help="Port to listen on. Default: a free one.")
@click.option("--name", help="Name of the peer, for people. Default: that of its directory.")
@click.option("--secrets-dir", type=click.Path(path_type=Path), metavar="DIR", help="For the bootstrap keys.")
@click.option("--log-file", type=click.Path(path_type=Path), help="Log here, 10 MB x 5, instead of stderr.")
@click.option("--background", is_flag=True, hidden=True, help="As started by an editor: end when idle.")
@click.option("--ready-fd", type=int, hidden=True, help="Write the run file, or the error, to this pipe.")
@click.option("--parent-fd", type=int, hidden=True, help="End when this pipe closes.")
@data_dir_option
@json_option
@click.pass_context
def node(
    ctx: click.Context, /, as_json: bool, ready_fd: int | None, parent_fd: int | None, **options: Any
) -> int | None:
    """Run one peer in the foreground.

    The first peer of a mesh makes the mesh. Another one joins with --join, once; after that it remembers.
    @FILE keeps a secret out of the process list.

    \b
    Examples:
      hyphae node --data-dir ./second --join "$(hyphae peer invite)"
      hyphae node --data-dir ./second
      hyphae node --data-dir ./alone --no-nats --http-port 5000
      hyphae node rebuild --data-dir ./second
    """
    if ctx.invoked_subcommand is not None:
        return None
    if parent_fd is not None:
        end_with_parent(parent_fd)
    try:
        config, settings = _config(options)
        log_everything(settings.log_level, options["log_file"])
        return asyncio.run(_run(config, as_json, ready_fd))
    except Exception as e:
        code, message = (e.code, e.message) if isinstance(e, HyphaeError) else ("internal", repr(e))
        tell_parent(ready_fd, {"error": {"code": code, "message": message}})
        raise


@node.command("rebuild")
@data_dir_option
@json_option
@click.pass_context
def rebuild(ctx: click.Context, data_dir: Path | None, as_json: bool) -> None:
    """Fold the log anew: projections and indexes are made again from the events.

    The peer must not run. In the directory of `hyphae up` every peer is rebuilt, one after the other.

    \b
    Examples:
      hyphae node rebuild --data-dir ./team
      hyphae node rebuild --data-dir ./team/peer-2 --json
    """
    given = data_dir or (ctx.parent.params.get("data_dir") if ctx.parent is not None else None)
    where = place(given)
    peers = peers_of(where.data)
    if not peers:
        raise Unavailable(
            f"{where.data} holds no peer. Nothing was changed. Name its directory with --data-dir."
        )
    from node.peer import rebuild as rebuild_peer

    results = []
    for peer in peers:
        with output.progress_of(f"rebuilding {peer.path.name}") as progress:
            results.append(
                {"name": peer.path.name, "path": str(peer.path), **rebuild_peer(peer.path, progress)}
            )
    if as_json:
        output.print_json({"peers": results})
        return
    for result in results:
        facts = ", ".join(
            f"{n.replace('_', ' ')} {v}" for n, v in result.items() if n not in {"name", "path"}
        )
        output.print_text(f"{result['name']}: rebuilt; {facts}")


async def _run(config: PeerConfig, as_json: bool, ready_fd: int | None) -> int:
    from node.peer import run_peer

    def ready(run: Mapping[str, Any]) -> None:
        tell_parent(ready_fd, run)
        if as_json:
            output.print_json({"ready": True, **run})
        elif ready_fd is None:
            output.print_text(f"{run['name']} is ready: {run['http_url']} (MCP at {run['http_url']}/mcp)")

    return await run_peer(config, ready)


def _config(options: Mapping[str, Any]) -> tuple[PeerConfig, Settings]:
    """Return what the peer is to be: options first, then settings.

    Raises:
        Invalid: options contradict each other, or the directory is that of `hyphae up`.
    """
    where = place(options["data_dir"])
    settings = current_settings(where.config)
    if options["join_token"] and options["no_nats"]:
        raise Invalid("--join and --no-nats exclude each other. Nothing was started.")
    if not PeerDirectory(where.data).is_peer() and peers_of(where.data):
        raise Invalid(
            f"{where.data} is the directory of `hyphae up`, not of one peer. Nothing was started. "
            f"Run it with `hyphae up --data-dir {where.data}`, or name one peer's directory."
        )
    return _peer_config(options, settings, where.data), settings


def _peer_config(options: Mapping[str, Any], settings: Settings, data: Path) -> PeerConfig:
    from node.peer import PeerConfig

    port = options["http_port"]
    if port is None:
        port = settings.http_port if "http_port" in settings.model_fields_set else 0
    secrets_dir = options["secrets_dir"]
    return PeerConfig(
        data_dir=data,
        name=options["name"] or settings.name or data.name,
        nats_url=None if options["no_nats"] else _secret(options["nats_url"]) or settings.nats_url,
        nats_url_file=_file_of(options["nats_url"]),
        join_token=_secret(options["join_token"]),
        use_nats=not options["no_nats"],
        http_host=options["http_host"] or settings.http_host,
        http_port=port,
        secrets_dir=absolute(secrets_dir) if secrets_dir else PeerDirectory(data).secrets,
        model_dir=settings.model_dir,
        embed_threads=settings.embed_threads,
        embed_spinning=settings.embed_spinning,
        http_name=settings.http_name,
        http_connections=settings.http_connections,
        tls=files_of(settings.tls_cert, settings.tls_key),
        allow_plain_http=settings.allow_plain_http,
        bounds=Bounds(**{f.name: getattr(settings, f.name) for f in dataclasses.fields(Bounds)}),
        write_concern=settings.write_concern,
        allowed_hosts=settings.allowed_hosts,
        allowed_origins=settings.allowed_origins,
        idle_exit_s=settings.idle_exit_minutes * 60.0 if options["background"] else None,
    )


def _file_of(value: str | None) -> Path | None:
    """Return the file that an option names with @, if it does."""
    return absolute(Path(value[1:])) if value is not None and value.startswith("@") else None


def _secret(value: str | None) -> str | None:
    """Return an option's value, read from the file that it names with @."""
    if value is None or not value.startswith("@"):
        return value
    path = Path(value[1:])
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as e:
        raise Invalid(
            f"{path} cannot be read: {os.strerror(e.errno) if isinstance(e, OSError) and e.errno else e}."
        ) from e
    return text.strip()
