"""`hyphae init`, `hyphae mcp print-config` and the full form of `hyphae mcp serve`."""

from __future__ import annotations

import getpass
import json
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from node.background import ensure_local_peer, first_agent_key
from node.cli import mcp_serve, output
from node.cli.calls import Caller, talk
from node.cli.options import Place, ProjectName, data_dir_option, json_option, place
from node.client_config import (
    CLIENTS,
    ENTRY,
    GROUP,
    KEY_HEADER,
    Client,
    agent_name,
    http_entry,
    stdio_entry,
)
from node.client_setup import (
    Target,
    hyphae_executable,
    look_at,
    mcp_url,
    server_environment,
    write_with_backup,
)
from node.data_directory import peers_of
from node.locations import absolute, web_url
from node.private_files import make_directory, read_secret, write_private
from node.settings import current_settings
from proto.errors import Invalid, Unauthenticated

client_option = click.option(
    "--client", "client_name", type=click.Choice(list(CLIENTS)), required=True, help="Which client."
)
http_option = click.option(
    "--http", is_flag=True, help="An entry that calls a peer over HTTP instead of starting a process."
)
directory_option = click.option(
    "--directory",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    default=".",
    metavar="DIR",
    help="Project folder of Claude Code or Cursor. Default: where you are.",
)
project_option = click.option(
    "--project", type=ProjectName(), help="Project of the client's calls that name none."
)


@dataclass(frozen=True, slots=True)
class _Key:
    """The client's key: whose it is, and whether it has just been made."""

    agent: str
    id: str
    issued: bool


@click.command()
@client_option
@http_option
@directory_option
@project_option
@click.option(
    "--file", type=click.Path(path_type=Path), help="The client's file, if it is not the usual one."
)
@click.option("--force", is_flag=True, help=f'Replace a server "{ENTRY}" that hyphae did not write.')
@data_dir_option
@json_option
def init(
    client_name: str,
    http: bool,
    directory: Path,
    project: str | None,
    file: Path | None,
    force: bool,
    data_dir: Path | None,
    as_json: bool,
) -> None:
    """Connect a client: issue it a key of its own and put the entry `memory` into its file.

    Everything else in the file stays as it is, and a copy is kept beside it. The key goes into a file of
    its own in the configuration directory, never into the client's file. Run again, it keeps the key.

    \b
    Examples:
      hyphae init --client claude-code
      hyphae init --client cursor --directory ~/src/shop --project shop
      hyphae init --client cline --http
    """
    where, client = place(data_dir), CLIENTS[client_name]
    target = look_at(client, absolute(directory), None if file is None else absolute(file), replace=force)
    key_file = target.key_file(where.config)
    entry = _entry(client, where, key_file, project, http=http)
    text = target.with_entry(entry)
    _refuse_nats_alone(where, data_dir)
    _make_sure_of_a_peer(where)
    key = _own_key(where, target, key_file)
    backup = write_with_backup(target, text) if text != target.text else None
    result = {
        "client": client.name,
        "file": str(target.file),
        "changed": text != target.text,
        **({} if backup is None else {"backup": str(backup)}),
        "agent": key.agent,
        "key_id": key.id,
        "key_file": str(key_file),
        "key_issued": key.issued,
    }
    output.print_json(result) if as_json else _print_done(client, result, http=http)


@click.group()
def mcp() -> None:
    """The MCP server that clients start, and entries for their files."""


@mcp.command("serve")
@click.option(
    "--toolset", type=click.Choice(mcp_serve.TOOLSETS), default="memory", help="Which tools to serve."
)
@click.option(
    "--config-dir", type=click.Path(path_type=Path), metavar="DIR", help="Instead of HYPHAE_CONFIG_DIR."
)
@data_dir_option
def serve(toolset: str, config_dir: Path | None, data_dir: Path | None) -> int:
    """Serve one client on stdin and stdout; clients start this themselves.

    The peer is HYPHAE_URL, else found through HYPHAE_NATS_URL, else the local one of this user. With
    nothing configured a local peer is started in the background, one for all editors; it ends after 30
    idle minutes, or with `hyphae down`.

    The key is HYPHAE_API_KEY, else in the file that HYPHAE_API_KEY_FILE names, else in the file `token` of
    the configuration directory; for the local peer without any of these, that of its first agent.
    """
    return mcp_serve.serve(mcp_serve.ServeOptions(toolset, config_dir, data_dir))


@mcp.command("print-config")
@client_option
@http_option
@directory_option
@project_option
@data_dir_option
@json_option
def print_config(
    client_name: str, http: bool, directory: Path, project: str | None, data_dir: Path | None, as_json: bool
) -> None:
    """Print the entry for a client's file; nothing is written and no key is issued.

    \b
    Examples:
      hyphae mcp print-config --client claude-code
      hyphae mcp print-config --client cursor --http
    """
    where, client = place(data_dir), CLIENTS[client_name]
    folder = absolute(directory)
    target = Target(client, folder, client.file(folder, Path.home(), {}), None, None)
    key_file = _key_to_name(where, target)
    config = {GROUP: {ENTRY: _entry(client, where, key_file, project, http=http)}}
    output.print_json(config) if as_json else output.print_text(
        json.dumps(config, indent=2, ensure_ascii=False)
    )
    if http:
        output.note(_export_hint(key_file))


def _entry(
    client: Client, where: Place, key_file: Path, project: str | None, *, http: bool
) -> dict[str, Any]:
    settings = current_settings(where.config)
    if http:
        host, tls = settings.http_name or settings.http_host, settings.tls_cert is not None
        usual = web_url(host, settings.http_port, tls=tls)
        entry = http_entry(client, mcp_url(where.data, where.url, usual))
        if project:
            entry["headers"]["x-hyphae-project"] = project
        return entry
    ca = None if settings.tls_ca is None else str(absolute(settings.tls_ca))
    found = {"data": str(where.data), "url": where.url, "tls_ca": ca, "project": project}
    return stdio_entry(client, hyphae_executable(), server_environment(found, key_file, where.config))


def _refuse_nats_alone(where: Place, given: Path | None) -> None:
    """Over NATS no key is issued, and a local peer in its place would be another mesh, without anybody's memories."""
    settings = current_settings(where.config)
    if settings.nats_url is not None and where.url is None and given is None:
        raise Invalid(
            "HYPHAE_NATS_URL leads to a mesh, but keys are not issued over NATS. Nothing was changed. Ask its owner for"
            " a key and write the entry yourself, as `hyphae mcp print-config` prints it, with HYPHAE_NATS_URL and"
            " HYPHAE_API_KEY_FILE in its env; or unset HYPHAE_NATS_URL to use a local peer."
        )


def _make_sure_of_a_peer(where: Place) -> None:
    """Where nobody ever stored anything, start the local peer; it makes the mesh and its first keys."""
    if where.url is None and not peers_of(where.data):
        with output.working("starting the local peer for the first time"):
            ensure_local_peer(where.data)


def _own_key(where: Place, target: Target, key_file: Path) -> _Key:
    """Return the client's key: the one in its file while the mesh knows it, else a new one."""
    old = read_secret(key_file) if key_file.exists() else None

    async def get(caller: Caller) -> _Key:
        if old is not None:
            try:
                me = await caller.call("whoami", {}, key=old)
                return _Key(me["agent"], me.get("key_id", ""), issued=False)
            except Unauthenticated:
                output.note(f"The mesh does not know the key in {key_file} any more; issuing another.")
        keys = await caller.pages("list_keys", {}, "keys")
        taken = frozenset(k["agent"] for k in keys)
        name = agent_name(target.client, target.project, socket.gethostname(), taken)
        made = await caller.call("issue_key", {"agent": name, "owner": getpass.getuser()})
        make_directory(key_file.parent)
        write_private(key_file, made["key"] + "\n")
        return _Key(name, made["id"], issued=True)

    return talk(where, get, as_owner=True, offline=True)


def _key_to_name(where: Place, target: Target) -> Path:
    own = target.key_file(where.config)
    first = first_agent_key(where.data)
    if own.exists() or where.url or not first.exists():
        if not own.exists():
            output.note(f"{own} does not exist yet: `hyphae init --client {target.client.name}` makes it.")
        return own
    output.note(
        f"The entry names the key of the first agent. `hyphae init --client {target.client.name}` gives the "
        "client its own; two clients with one key share an inbox."
    )
    return first


def _print_done(client: Client, result: dict[str, Any], *, http: bool) -> None:
    did = "put the entry into" if result["changed"] else "found the entry in"
    output.print_text(f"{client.title}: {did} {result['file']}")
    if "backup" in result:
        output.print_text(f"  a copy of the old file is in {result['backup']}")
    how = "issued to" if result["key_issued"] else "kept for"
    output.print_text(f"  key {result['key_id']} {how} {result['agent']}, in {result['key_file']}")
    if http:
        output.print_text(f"  {_export_hint(Path(result['key_file']))}")
        output.print_text("  Nothing starts the peer for it: keep `hyphae up` running.")
    output.print_text(f'Restart {client.title}. It then has a server "{ENTRY}" with eleven tools.')


def _export_hint(key_file: Path) -> str:
    return (
        f"Start the client with the key in its environment, from where the entry takes {KEY_HEADER}: "
        f'export HYPHAE_API_KEY="$(cat {key_file})"'
    )
