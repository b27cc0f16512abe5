"""What `hyphae up` is asked for, and what it has to say when ready, for people and for scripts.

Plain values, and the choice of ports.  Starting and stopping is `supervisor`'s.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from node import processes
from node.client_config import ENTRY, GROUP, Client, stdio_entry
from node.client_setup import hyphae_executable
from node.data_directory import MeshDirectory, RunFile
from node.private_files import read_secret
from node.version import version
from proto.errors import Conflict, Invalid


@dataclass(frozen=True, slots=True)
class UpConfig:
    """What `hyphae up` was asked for.

    Args:
        directory: where everything lies.
        peers: how many; None for as many as the directory holds, at least one.
        http_host: address that the peers listen on.
        http_port: port of peer-1, the others count up; 0 takes free ones.
    """

    directory: Path
    peers: int | None = None
    http_host: str = "127.0.0.1"
    http_port: int = 4974


@dataclass(frozen=True, slots=True)
class UpSummary:
    """What there is to say when everything is ready.  Holds secrets: for this user's terminal alone.

    Args:
        directory: where everything lies.
        peers: the running peers, by number.
        nats_url: with the credentials of a gateway.
        admin_key: the operator's bootstrap key; None where its file was put elsewhere.
        agent_key: the first agent's bootstrap key; likewise.
    """

    directory: Path
    peers: tuple[RunFile, ...]
    nats_url: str
    admin_key: str | None
    agent_key: str | None

    def peer_records(self) -> list[dict[str, str]]:
        """Return peer id and addresses of each peer."""
        return [
            {"peer_id": p.peer_id, "mcp_url": f"{p.http_url}/mcp", "rest_url": p.http_url} for p in self.peers
        ]

    def record(self) -> dict[str, Any]:
        """Return the object that `hyphae up --json` prints."""
        return {
            "ready": True,
            "peers": self.peer_records(),
            "nats_url": self.nats_url,
            "admin_key": self.admin_key,
            "agent_key": self.agent_key,
        }


def choose_ports(config: UpConfig) -> list[int]:
    """Return one free port for each peer.

    Raises:
        Conflict: a port is taken; the message names the holder.
        Invalid: the ports would count beyond 65535.
    """
    count = config.peers or max(1, MeshDirectory(config.directory).last_number())
    if config.http_port == 0:
        return processes.free_ports(config.http_host, count)
    ports = list(range(config.http_port, config.http_port + count))
    if ports[-1] > 65535:
        raise Invalid(f"{count} peers from port {config.http_port} on go beyond 65535; choose a lower one.")
    for number, port in enumerate(ports, start=1):
        if not processes.port_is_free(config.http_host, port):
            raise Conflict(
                f"port {port} of {config.http_host}, for peer-{number}, is taken by "
                f"{processes.port_holder(port)}. Nothing was started. Choose another first port, "
                f"such as --http-port {_elsewhere(config.http_host, count)}, or 0 for free ones."
            )
    return ports


def summary_text(summary: UpSummary, client: Client, env: Mapping[str, str], *, detached: bool) -> str:
    """Return what `hyphae up` prints for people.

    Args:
        summary: what there is to say.
        client: whose entry is shown.
        env: the variables of that entry.
        detached: it runs in the background.
    """
    mesh = MeshDirectory(summary.directory)
    names = [
        f"  {p.name:<9} {p.http_url}   MCP {p.http_url}/mcp   REST {p.http_url}/v1" for p in summary.peers
    ]
    entry = {GROUP: {ENTRY: stdio_entry(client, hyphae_executable(), env)}}
    count = len(summary.peers)
    return "\n".join(
        [
            f"hyphae {version()}: {count} {'peer is' if count == 1 else 'peers are'} ready",
            "",
            *names,
            f"  NATS      its address, for HYPHAE_NATS_URL, is in {mesh.nats_gateway_url}",
            f"  data      {summary.directory}",
            f"  logs      {mesh.logs}",
            "",
            "Keys, the same at every start",
            f"  agent     {_key_text(summary.agent_key, mesh.agent_key)}",
            f"  operator  {_key_text(summary.admin_key, mesh.operator_key)}",
            "",
            "An entry for .mcp.json (Claude Code) or .cursor/mcp.json (Cursor), ready to paste:",
            "",
            json.dumps(entry, indent=2, ensure_ascii=False),
            "",
            "or let hyphae write it, with a key of the client's own: hyphae init --client claude-code"
            + _data_dir_hint(env),
            f"Stop it with: hyphae down{_data_dir_hint(env)}" if detached else "Stop with Ctrl-C.",
        ]
    )


def count_note(asked: int | None, running: int, held: int) -> str | None:
    """Return what is to be said where not as many peers run as one may expect, or None.

    Args:
        asked: how many were asked for; None for all.
        running: how many run.
        held: number of the last peer in the directory.
    """
    if asked is not None and asked != running:
        return (
            f"It was running already, with {running} {'peer' if running == 1 else 'peers'}, and was left as it is. "
            f"`hyphae down`, then `hyphae up --peers {asked}`, changes that."
        )
    if running < held:
        return (
            f"The directory holds {held} peers, and {running} of them were started, as --peers or HYPHAE_PEERS says. "
            "The others keep what they hold; without a number all are started."
        )
    return None


def bootstrap_key(path: Path) -> str | None:
    """Return a bootstrap key, or None where its file was put elsewhere: the mesh runs without it.

    Raises:
        Unauthenticated: the file holds no key.
    """
    return read_secret(path) if path.exists() else None


def _key_text(key: str | None, path: Path) -> str:
    return (
        f"{path} is not there; `hyphae key issue` makes another key" if key is None else f"{key}   in {path}"
    )


def _data_dir_hint(env: Mapping[str, str]) -> str:
    return f" --data-dir {env['HYPHAE_DATA_DIR']}" if "HYPHAE_DATA_DIR" in env else ""


def _elsewhere(host: str, count: int) -> int:
    """Return a first port from which `count` ports are free now."""
    for first in range(5074, 60000, 100):
        if all(processes.port_is_free(host, first + k) for k in range(count)):
            return first
    return 0
