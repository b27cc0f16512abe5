"""`hyphae session`: working sessions, from a terminal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from node.cli import output
from node.cli.calls import Caller, call, talk
from node.cli.options import data_dir_option, json_option, place, without_absent


@click.group()
def session() -> None:
    """Working sessions: a place in the inbox of its own, and what one piece of work stored."""


@session.command("open")
@click.option("--project", help="Project of what is stored in it. Default: as of a call without a project.")
@click.option("--title", help="What the work is about.")
@data_dir_option
@json_option
def open_session(data_dir: Path | None, as_json: bool, **args: Any) -> None:
    """Open a session. Give its id to `store` and `inbox` with --session; it closes itself after 24 idle hours.

    \b
    Examples:
      hyphae session open --project billing --title "move retries to the queue"
      hyphae inbox --session "$(hyphae session open --json | jq -r .session_id)"
    """
    result = call(place(data_dir), "open_session", without_absent(**args))
    if as_json:
        output.print_json(result)
        return
    output.print_text(f"opened {result['session_id']} in project {result['project']}")
    waiting = output.counted(result["unread"], "unread entry", "unread entries")
    output.print_text(f"{waiting} in the inbox of {result['agent']}.")
    others = result["open_sessions"]
    if others:
        output.print_text(f"{output.counted(len(others), 'other session')} of yours still open here:")
        for other in others:
            output.print_text(f"  {other['session_id']}  {other['opened_at']}  {other.get('title', '')}")


@session.command("close")
@click.argument("session_id", metavar="ID")
@data_dir_option
@json_option
def close_session(session_id: str, data_dir: Path | None, as_json: bool) -> None:
    """Close a session. What was stored in it stays; what it did not read stays in the agent's inbox.

    \b
    Example:
      hyphae session close 3f9a1c20-7d7e-4c1f-9a63-0c8a55a1f2de
    """
    result = call(place(data_dir), "close_session", {"session_id": session_id})
    output.print_json(result) if as_json else output.print_text(
        f"closed {result['session_id']} at {result['closed_at']}"
    )


@session.command("list")
@click.option("--project", help="Only this project.")
@data_dir_option
@json_option
def list_sessions(data_dir: Path | None, as_json: bool, project: str | None) -> None:
    """List your open sessions."""

    async def ask(caller: Caller) -> list[dict[str, Any]]:
        return await caller.pages("list_sessions", without_absent(project=project), "sessions")

    sessions = talk(place(data_dir), ask)
    if as_json:
        output.print_json({"sessions": sessions})
    elif sessions:
        rows = [
            [s["session_id"], s.get("unread"), s.get("project", project), s["opened_at"], s.get("title")]
            for s in sessions
        ]
        output.print_table(["SESSION", "UNREAD", "PROJECT", "OPENED", "TITLE"], rows, wrap=4)
    else:
        output.print_text('No open sessions. Open one: hyphae session open --title "what it is about"')
