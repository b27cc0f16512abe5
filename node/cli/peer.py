"""`hyphae peer`: the peers of a mesh."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

import click

from mesh.joining import parse_token
from node.cli import output
from node.cli.calls import call
from node.cli.options import Span, data_dir_option, json_option, place


@click.group()
def peer() -> None:
    """The peers of this mesh: list them, invite another one."""


@peer.command("invite")
@click.option(
    "--ttl", type=Span(), default=3600, help="How long the invitation is good, such as 30m. Default 1h."
)
@data_dir_option
@json_option
def invite(ttl: int, data_dir: Path | None, as_json: bool) -> None:
    """Print an invitation for another peer.

    It holds the address of NATS and the credentials of a peer: treat it like a password.

    \b
    Examples:
      hyphae peer invite --ttl 30m
      hyphae node --data-dir ./second --join "$(hyphae peer invite)"
    """
    result = call(place(data_dir), "invite_peer", {"ttl_seconds": ttl}, as_owner=True)
    if as_json:
        output.print_json(result)
        return
    output.print_text(result["token"])
    output.note(f"Good until {result['expires_at']}: hyphae node --data-dir DIR --join TOKEN")
    if _is_of_this_machine(parse_token(result["token"]).nats_url):
        output.note(
            "Only for this machine: its NATS server listens on loopback, as that of `hyphae up` does. For other"
            " machines run one that they reach, and peers with --nats-url; the README says how."
        )


def _is_of_this_machine(nats_url: str) -> bool:
    hosts = [urlsplit(part.strip()).hostname or "" for part in nats_url.split(",")]
    return all(host in {"localhost", "::1"} or host.startswith("127.") for host in hosts)


@peer.command("list")
@data_dir_option
@json_option
def list_peers(data_dir: Path | None, as_json: bool) -> None:
    """List the members of the mesh, as the peer that is asked sees them."""
    result = call(place(data_dir), "peers", {}, as_owner=True)
    if as_json:
        output.print_json(result)
        return
    rows = [
        [
            *(p["name"] + (" (asked)" if p.get("me") else ""), p["state"], p["peer_id"]),
            *(", ".join(p.get("urls", [])), p.get("missing_events"), _ago(p.get("heard_ms_ago"))),
        ]
        for p in result["peers"]
    ]
    output.print_table(["NAME", "STATE", "PEER", "URLS", "BEHIND", "HEARD"], rows)


def _ago(ms: int | None) -> str:
    return "" if ms is None else f"{ms / 1000:.1f} s ago"
