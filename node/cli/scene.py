"""`hyphae scene`: groups of related memories, from a terminal."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from node.cli import output
from node.cli.calls import Caller, call, talk
from node.cli.options import data_dir_option, json_option, place, without_absent
from node.cli.output import counted

WAIT_MS = 10_000
SHORT_WAIT_MS = 500  # on a terminal, so that progress is seen to move


@click.group()
def scene() -> None:
    """Scenes: memories that belong together, each with a title and a summary on layer 1."""


@scene.command("consolidate")
@click.option("--project", help="Which project. Default: as of a call without a project.")
@click.option("--session", "session_id", help="Only what was stored in this session.")
@data_dir_option
@json_option
def consolidate(data_dir: Path | None, as_json: bool, **args: Any) -> None:
    """Group the memories of a project into scenes, and wait until it is done.

    What has not changed since the last time stays. Interrupted, it goes on in the peer; run again, it is
    waited for.

    \b
    Examples:
      hyphae scene consolidate --project billing
      hyphae scene consolidate --session 3f9a1c20-7d7e-4c1f-9a63-0c8a55a1f2de --json
    """
    wait_ms = SHORT_WAIT_MS if sys.stderr.isatty() else WAIT_MS
    given = {**without_absent(**args), "wait_ms": wait_ms}
    with output.progress_of("consolidating") as progress:

        async def until_done(caller: Caller) -> dict[str, Any]:
            while True:
                result = await caller.call("consolidate_scenes", given)
                if result["state"] != "running":
                    return result
                progress(result["progress"]["done"], result["progress"]["total"])

        result = talk(place(data_dir), until_done)
    if as_json:
        output.print_json(result)
        return
    made = f"{result['created']} new, {result['changed']} changed, {result['unchanged']} as before"
    cells = counted(result["cells"], "memory", "memories")
    output.print_text(f"{result['project']}: {counted(result['scenes'], 'scene')} of {cells}; {made}")
    if result.get("left_out"):
        left = counted(result["left_out"], "memory", "memories")
        output.print_text(f"{left} left out.")


@scene.command("list")
@click.option("--project", help="Only this project. Default: every project you may read.")
@data_dir_option
@json_option
def list_scenes(data_dir: Path | None, as_json: bool, project: str | None) -> None:
    """List the scenes."""

    async def ask(caller: Caller) -> list[dict[str, Any]]:
        return await caller.pages("list_scenes", without_absent(project=project), "scenes")

    scenes = talk(place(data_dir), ask)
    if as_json:
        output.print_json({"scenes": scenes})
    elif scenes:
        rows = [
            [s["scene_id"], _count(s.get("cells")), s["project"], s.get("from"), s.get("to"), s["title"]]
            for s in scenes
        ]
        output.print_table(["SCENE", "CELLS", "PROJECT", "FROM", "TO", "TITLE"], rows, wrap=5)
    else:
        output.print_text("No scenes. Make them: hyphae scene consolidate")


@scene.command("show")
@click.argument("scene_id", metavar="ID")
@data_dir_option
@json_option
def show(scene_id: str, data_dir: Path | None, as_json: bool) -> None:
    """Show one scene: its summary and its memories."""
    result = call(place(data_dir), "get_scene", {"scene_id": scene_id})
    if as_json:
        output.print_json(result)
        return
    found = result["scene"]
    output.print_text(f"{found['title']}\n{found['scene_id']}  project {found['project']}")
    output.print_text(f"\n{found.get('summary', '')}\n")
    members = found.get("members", [])
    rows = [[m["node_id"][:8], m.get("cell_type"), m.get("source_agent"), m.get("content")] for m in members]
    if rows:
        output.print_table(["NODE", "TYPE", "BY", "CONTENT"], rows, wrap=3)


def _count(cells: Any) -> Any:
    return len(cells) if isinstance(cells, list) else cells
