"""Writes `docs/tools/<name>.md` and `docs/llms.txt`.  Takes some seconds: the examples are played on a real peer."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from mcp_gateway.tools import TOOLS
from tests.reference.pages import render_index, render_tool
from tests.reference.playing import Played, play
from tests.support.open_service import open_peer

DOCS = Path(__file__).parents[2] / "docs"


async def play_on_a_new_peer() -> dict[str, Played]:
    """Return what each tool answers on a peer that is made and thrown away."""
    with tempfile.TemporaryDirectory() as directory:
        async with open_peer(Path(directory), embedder="onnx") as peer:
            return await play(peer)


def index() -> str:
    """Return the text of `docs/llms.txt`, from the pages as they are."""
    readme = {"../README.md": (DOCS.parent / "README.md").read_text("utf-8")}
    pages = {path.name: path.read_text("utf-8") for path in sorted(DOCS.glob("*.md"))}
    records = {
        f"adr/{path.name}": path.read_text("utf-8") for path in sorted((DOCS / "adr").glob("[0-9]*.md"))
    }
    return render_index({**readme, **pages}, records)


def main() -> None:
    """Write all of them."""
    (DOCS / "tools").mkdir(exist_ok=True)
    for name, played in asyncio.run(play_on_a_new_peer()).items():
        (DOCS / "tools" / f"{name}.md").write_text(render_tool(TOOLS[name], played), encoding="utf-8")
    (DOCS / "llms.txt").write_text(index(), encoding="utf-8")


if __name__ == "__main__":
    main()
