"""The rate that other figures are compared with: `hyphae node rebuild` on a copy of a peer's log."""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple


class Rebuilt(NamedTuple):
    """What the command says of itself."""

    events: int
    per_s: int


def rebuild_rate(directory: Path) -> Rebuilt:
    """Copy the log aside, beside a peer that may go on, and fold the copy anew in a process of its own."""
    with tempfile.TemporaryDirectory(prefix="hyphae-bench-copy-", dir=directory.parent) as name:
        copy = Path(name) / "peer"
        copy.mkdir(mode=0o700)
        copy_log(directory, copy)
        shutil.copy(directory / "peer.json", copy)
        shutil.copytree(directory / "secrets", copy / "secrets")
        program = [sys.executable, "-m", "node", "node", "rebuild", "--json", "--data-dir", str(copy)]
        done = subprocess.run(program, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
        said: dict[str, Any] = json.loads(done.stdout)["peers"][0]
    return Rebuilt(said["events"], said["events_per_s"])


def copy_log(source: Path, target: Path) -> None:
    """Put a copy of one directory's log into another one, in place of what is there."""
    for file in target.glob("log.db*"):
        file.unlink()
    reading, writing = sqlite3.connect(source / "log.db"), sqlite3.connect(target / "log.db")
    reading.backup(writing)
    writing.execute("PRAGMA journal_mode=WAL")
    writing.close()
    reading.close()
