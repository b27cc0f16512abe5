"""`hyphae peer`: the peers of a mesh."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click

from mesh.joining import parse_token
from node.cli import output
from node.cli.calls import call
from node.cli.options import Span, data_dir_option, json_option, place


@click.group()
def peer() -> None:
    """The peers of this mesh: list them, invite another one, retire one that is gone."""


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


@peer.command("retire")
@click.argument("peer")
@click.option("--why", default="", help="A reason, shown to everybody and to the peer itself.")
@click.option(
    "--let-in", is_flag=True, help="Let what has arrived of a peer that has retired count after all."
)
@data_dir_option
@json_option
def retire(peer: str, why: str, let_in: bool, data_dir: Path | None, as_json: bool) -> None:
    """End the membership of a peer that is gone for good, given by its name or id.

    What is known of it here counts; what comes of it later is kept aside and shown. Nobody waits for it any
    more. If it comes back it stores nothing, and says why: it joins anew with an empty directory.

    \b
    Examples:
      hyphae peer retire laptop --why "sold"
      hyphae peer retire laptop --let-in
    """
    args = {"peer": peer, **({"why": why} if why else {}), **({"let_in": True} if let_in else {})}
    result = call(place(data_dir), "retire_peer", args, as_owner=True)
    if as_json:
        output.print_json(result)
        return
    late = result["late_events"]
    output.print_text(
        f"{result['name']} ({result['peer_id']}) has been retired since {result['retired_at']}."
    )
    if late:
        output.note(f"{output.counted(late, 'event')} came later and do not count; --let-in lets them.")


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
            ", ".join(_aside(p)),
        ]
        for p in result["peers"]
    ]
    titles = ["NAME", "STATE", "PEER", "URLS", "BEHIND", "HEARD", "NOTE"]
    shown = len(titles) if any(row[-1] for row in rows) else len(titles) - 1
    output.print_table(titles[:shown], [row[:shown] for row in rows])


def _aside(p: Mapping[str, Any]) -> Iterator[str]:
    """Yield what of a peer's events does not count, or is lost."""
    if "late_events" in p:
        yield f"{output.counted(p['late_events'], 'late event')} kept aside"
    for tail in p.get("lost_tails", []):
        yield f"events {tail['from']} to {tail['to']} of {tail['stream'].split('.', 1)[1]} lost"


def _ago(ms: int | None) -> str:
    return "" if ms is None else f"{ms / 1000:.1f} s ago"
