"""What runs on this machine, as the operating system says: by `/proc` where there is one, else by `ps`."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

_PROC = Path("/proc")
COMMAND_CHARS = 80


def is_running(pid: int) -> bool:
    """Tell whether a process runs; one that has ended and waits to be collected does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return _state(pid) != "Z"


def naming(text: str) -> dict[int, str]:
    """Return the processes, this one apart, whose command line holds a text: id and shortened command."""
    found = _by_proc() if (_PROC / "self" / "cmdline").exists() else _by_ps()
    return {
        pid: command[:COMMAND_CHARS]
        for pid, command in found.items()
        if text in command and pid != os.getpid()
    }


def _state(pid: int) -> str:
    try:
        status = (_PROC / str(pid) / "stat").read_text("utf-8", "replace")
    except OSError:
        return ""
    return status.rpartition(")")[2].split()[0]


def _by_proc() -> dict[int, str]:
    found = {}
    for entry in _PROC.iterdir():
        if entry.name.isdecimal():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:  # it ended meanwhile
                continue
            found[int(entry.name)] = b" ".join(words).decode("utf-8", "replace").strip()
    return found


def _by_ps() -> dict[int, str]:
    listed = subprocess.run(
        ["/bin/ps", "-axww", "-o", "pid=,command="], capture_output=True, text=True, check=True
    )
    rows = (line.strip().partition(" ") for line in listed.stdout.splitlines() if line.strip())
    return {int(pid): command.strip() for pid, _, command in rows}
