"""`hyphae status` and `hyphae tail`: the mesh at a glance, and live."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from node.cli import output
from node.cli.calls import Caller, talk
from node.cli.failures import EXIT_CODES
from node.cli.options import data_dir_option, json_option, place
from proto.errors import HyphaeError

WAIT_MS = 20_000
PAGE_ENTRIES = 200
DEGRADED = 1
NOT_RUNNING = 4
assert NOT_RUNNING in EXIT_CODES


@click.command()
@data_dir_option
@json_option
def status(data_dir: Path | None, as_json: bool) -> int:
    """Show the state of a peer and of its mesh, and who shares it.

    Exit code 0 when all is well, 1 when the peer is degraded, 4 when none runs: then the data directory is
    looked at directly, if there is one.

    \b
    Examples:
      hyphae status
      hyphae status --data-dir ./team --json
    """

    async def ask(caller: Caller) -> dict[str, Any]:
        result = await caller.call("status", {})
        result["running"] = not caller.offline
        if caller.offline:
            result["state"] = "stopped"
        else:
            try:
                result["peers"] = (await caller.call("peers", {}))["peers"]
            except HyphaeError as e:  # a key without admin, over a URL: the rest is still worth showing
                result["peers_hidden"] = e.code
        return result

    result = talk(place(data_dir), ask, as_owner=True, offline=True)
    output.print_json(result) if as_json else _print_status(result)
    if not result["running"]:
        return NOT_RUNNING
    return 0 if result["state"] == "ok" else DEGRADED


@click.command()
@click.option(
    "-n", "--lines", type=int, default=10, show_default=True, help="How many past entries to begin with."
)
@click.option("--after", type=int, help="Begin after this position instead; 0 is the beginning.")
@click.option("--no-follow", is_flag=True, help="Stop when the present is reached.")
@data_dir_option
@json_option
def tail(data_dir: Path | None, as_json: bool, lines: int, after: int | None, no_follow: bool) -> None:
    """Watch what happens at a peer: memories, beacons, keys, members. Ends with Ctrl-C.

    With --json each entry is one line.

    \b
    Examples:
      hyphae tail
      hyphae tail --after 0 --no-follow --json
    """

    show = output.print_json if as_json else _print_entry

    async def watch(caller: Caller) -> None:
        position = after
        if position is None:
            position, past = await _past(caller, lines)
            for entry in past:
                show(entry)
        while True:
            args = {"after": position, "limit": PAGE_ENTRIES, "wait_ms": 0 if no_follow else WAIT_MS}
            page = await caller.call("tail", args)
            for entry in page["entries"]:
                show(entry)
            if no_follow and not page["entries"]:
                return
            position = page["next"]

    talk(place(data_dir), watch, as_owner=True)


async def _past(caller: Caller, lines: int) -> tuple[int, list[dict[str, Any]]]:
    """Return the present position and the last entries before it.

    Positions count all events, of which only some are shown: begin well before the present.
    """
    position = max(0, (await caller.call("status", {})).get("events", 0) - 20 * lines - PAGE_ENTRIES)
    past: deque[dict[str, Any]] = deque(maxlen=max(0, lines))
    while True:
        page = await caller.call("tail", {"after": position, "limit": PAGE_ENTRIES, "wait_ms": 0})
        position = page["next"]
        past.extend(page["entries"])
        if not page["entries"]:
            return position, list(past)


def _print_status(s: dict[str, Any]) -> None:
    if not s["running"]:
        output.print_text("No peer runs here; this is what the data directory says.")
    rows = [
        ("peer", f"{s['name']}  {s['peer_id']}"),
        ("mesh", f"{s['mesh_id']}  {_members(s)}"),
        ("state", s["state"] + "".join(f"\n          {p}" for p in s.get("problems", []))),
        ("nats", s.get("nats", "down")),
        *([("durable", f"on {output.counted(s['write_concern'], 'peer')}")] if "write_concern" in s else []),
        ("memories", f"{s['cells']}" + _unsearchable(s)),
        ("beacons", f"{s['beacons']} of {output.counted(s['agents'], 'agent')}"),
        *(
            [("events", f"{s['events']} in {output.counted(s['streams'], 'stream')}")]
            if "events" in s
            else []
        ),
        *([("aside", aside)] if (aside := ", ".join(_aside(s))) else []),
        ("space", s.get("space", "")),
        ("version", s["version"]),
        ("disk free", f"{s.get('disk_free_bytes', 0) / 1e9:.1f} GB"),
        ("data", s.get("data_dir", "")),
    ]
    for name, value in rows:
        output.print_text(f"{name:<10}{value}")
    if s.get("peers"):
        output.print_text("")
        columns = [
            [p["name"], p["state"], ", ".join(p.get("urls", [])), p.get("missing_events")] for p in s["peers"]
        ]
        output.print_table(["PEER", "STATE", "URLS", "BEHIND"], columns)


def _members(s: dict[str, Any]) -> str:
    members = s.get("members", 0)
    peers = output.counted(members, "peer")
    return f"{s.get('peers_up', 0)} of {peers} up" if s["running"] else peers


def _aside(s: dict[str, Any]) -> Iterator[str]:
    """Yield what of the log does not count, and what of it nobody has."""
    if s.get("late_events"):
        yield f"{output.counted(s['late_events'], 'event')} of retired peers came late; hyphae peer list"
    lost = sum(tail["to"] - tail["from"] + 1 for tail in s.get("lost_tails", []))
    if lost:
        yield f"{output.counted(lost, 'event')} that nobody who is heard holds any more; hyphae peer list"


def _unsearchable(s: dict[str, Any]) -> str:
    count = s.get("unsearchable_cells", 0)
    return f", {count} of them in another embedding space and not searchable here" if count else ""


def _print_entry(entry: dict[str, Any]) -> None:
    parts = (entry["at"], entry["kind"], entry.get("agent"), entry.get("project"), entry.get("text"))
    output.print_text("  ".join(str(p) for p in parts if p))
