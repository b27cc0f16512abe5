"""`hyphae log verify`: is the event log what it was when it was written?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from node.cli import output
from node.cli.calls import VERIFY_S, Caller, no_peer, talk
from node.cli.options import Place, data_dir_option, json_option, place
from node.data_directory import PeerDirectory, peers_of

DAMAGED = 6


@click.group()
def log() -> None:
    """The event log: the truth that everything else is folded from."""


@log.command("verify")
@data_dir_option
@json_option
def verify(data_dir: Path | None, as_json: bool) -> int:
    """Check every event of every stream against its hash chain.

    Through the peer where it runs, else in the files themselves; in the directory of `hyphae up` for each
    peer. Exit code 6 names the first event that is wrong.

    \b
    Examples:
      hyphae log verify
      hyphae log verify --data-dir ./team/peer-2 --json
    """
    where = place(data_dir)
    if where.url:
        results = [{"name": where.url, **_ask(where)}]
    else:
        results = [_verify(where, peer) for peer in peers_of(where.data)]
    if not results:
        raise no_peer(where)
    sound = all(r["ok"] for r in results)
    if as_json:
        output.print_json({"ok": sound, "peers": results})
    else:
        for result in results:
            _print_result(result)
    return 0 if sound else DAMAGED


def _verify(where: Place, peer: PeerDirectory) -> dict[str, Any]:
    name = {"name": peer.path.name, "path": str(peer.path)}
    if peer.running() is not None:
        return {**name, **_ask(Place(where.config, peer.path, None))}
    from node.peer import verify as verify_offline

    with output.progress_of(f"verifying {peer.path.name}") as progress:
        return {**name, **verify_offline(peer.path, progress)}


def _ask(where: Place) -> dict[str, Any]:
    async def ask(caller: Caller) -> dict[str, Any]:
        return await caller.call("verify_log", {}, VERIFY_S)

    with output.working("verifying the log"):
        return talk(where, ask, as_owner=True)


def _print_result(result: dict[str, Any]) -> None:
    if result["ok"]:
        events = output.counted(result["events"], "event")
        streams = output.counted(len(result["streams"]), "stream")
        output.print_text(f"{result['name']}: {events} in {streams}, as written")
        return
    if "unreadable" in result:
        output.print_text(f"{result['name']}: {result['unreadable']}")
        return
    bad = result.get("first_bad") or {}
    where = f"sequence {bad.get('sequence')} of stream {bad.get('stream')}"
    output.print_text(f"{result['name']}: damaged. First bad: {where}: {bad.get('why')}")
    output.print_text(
        "The rest is served. In a mesh of several peers: stop this peer, move its log.db (and log.db-wal, log.db-shm)"
        " aside and start it again; what the others hold comes back by itself."
    )
