"""`hyphae beacon`: standing interests, from a terminal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from node.cli import output
from node.cli.calls import call
from node.cli.memory import TYPES
from node.cli.options import Span, data_dir_option, json_option, place, without_absent


@click.group()
def beacon() -> None:
    """Standing interests: memories that match one arrive in your inbox unasked."""


@beacon.command("place")
@click.argument("interest")
@click.option(
    "--threshold", type=float, help="0 to 1. Leave it out unless the inbox is too noisy or too quiet."
)
@click.option("--project", help="Only this project. Default: every project you may read.")
@click.option("--type", "cell_types", type=TYPES, multiple=True, help="Only this kind; may be repeated.")
@click.option("--layer", "layers", type=int, multiple=True, help="Only this layer, 0 to 2; may be repeated.")
@click.option("--min-salience", type=float, help="Only at least this salient.")
@click.option("--ttl", "ttl_seconds", type=Span(), help="How long it lives, such as 7d. Default 30 days.")
@click.option("--own", "include_own", is_flag=True, help="Also your own memories.")
@click.option("--strict", is_flag=True, help="Only the text decides, not a memory's type and salience.")
@data_dir_option
@json_option
def place_beacon(data_dir: Path | None, as_json: bool, include_own: bool, strict: bool, **args: Any) -> None:
    """Place a beacon, or change the one with the same interest, project and filters.

    INTEREST reads like a search query, one subject each; "*" stands for all that the filters let through.

    \b
    Examples:
      hyphae beacon place "payment retries and idempotency"
      hyphae beacon place "*" --project billing --type Decision
    """
    flags = {"include_own": include_own or None, "strict": strict or None}
    result = call(place(data_dir), "place_beacon", without_absent(**args, **flags))
    if as_json:
        output.print_json(result)
        return
    verb = "placed" if result["created"] else "renewed"
    output.print_text(f"{verb} {result['beacon_id']}, until {result['expires_at']}")
    matched = result["would_match"]
    output.print_text(f"It would have matched {matched['count']} of the memories that are here.")
    for example in matched.get("examples", []):
        text = example.get("content", "") if isinstance(example, dict) else example
        output.print_text(f"  {text}")


@beacon.command("list")
@data_dir_option
@json_option
def list_beacons(data_dir: Path | None, as_json: bool) -> None:
    """List your beacons, and what waits for each."""
    result = call(place(data_dir), "list_beacons", {})
    if as_json:
        output.print_json(result)
        return
    rows = [
        [
            b["beacon_id"],
            b.get("waiting", 0),
            b.get("threshold"),
            b.get("project"),
            b["expires_at"],
            b["interest"],
        ]
        for b in result["beacons"]
    ]
    if rows:
        output.print_table(["BEACON", "WAITING", "THRESHOLD", "PROJECT", "EXPIRES", "INTEREST"], rows, wrap=5)
    else:
        output.print_text('No beacons. Place one: hyphae beacon place "payment retries"')


@beacon.command("withdraw")
@click.argument("beacon_id")
@data_dir_option
@json_option
def withdraw(beacon_id: str, data_dir: Path | None, as_json: bool) -> None:
    """Withdraw a beacon. What it has matched stays in the inbox."""
    result = call(place(data_dir), "withdraw_beacon", {"beacon_id": beacon_id})
    output.print_json(result) if as_json else output.print_text(f"withdrew {result['beacon_id']}")
