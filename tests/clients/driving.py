"""One client, driven through the story in a process of its own.

The duty: the job that a driver reads, the lines that it prints, and what the server wrote to stdout meanwhile.
It must not know what the lines should say.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import psutil

from tests.clients import installed
from tests.clients.matrix import Case
from tests.clients.scenario import Step

DRIVERS: Final = Path(__file__).parent / "drivers"
HYPHAE: Final = Path(sys.executable).with_name("hyphae")
RUN_S: Final = 90
MARK: Final = "HYPHAE_TEST_TAP"  # a variable of everything that a client starts
TAP: Final = f'"$@" | tee -a "${MARK}"'  # the server's stdout goes to the client, and into a file


@dataclass(frozen=True, slots=True)
class Run:
    """What one run of a driver showed.

    Args:
        lines: what it printed for each step, by name of the step; first of all comes `connect`, if it can tell.
        written: the lines that the server wrote to stdout; none over HTTP.
        complaints: what the client wrote to stderr, and over stdio the server too.
    """

    lines: Mapping[str, Mapping[str, Any]]
    written: Sequence[str]
    complaints: str


def stdio_server(environment: Mapping[str, str], tap: Path) -> dict[str, Any]:
    """Return the server as a client's file describes it, with `tap` on its stdout."""
    command = ["-c", TAP, "sh", str(HYPHAE), "mcp", "serve"]
    return {"command": "/bin/sh", "args": command, "env": {**environment, MARK: str(tap)}}


def http_server(url: str, key: str) -> dict[str, Any]:
    """Return the server as a client's file describes it."""
    return {"url": url, "headers": {"x-hyphae-key": key}}


def run_driver(case: Case, server: Mapping[str, Any], steps: Sequence[Step], tap: Path) -> Run:
    """Run the driver of a client to its end.

    Args:
        case: which one, and how.
        server: of `stdio_server` or `http_server`.
        steps: what to do.
        tap: where the server's stdout is kept; a path of its own for each run.
    """
    job = {"transport": case.transport, "era": case.era, "server": server, "steps": steps}
    ended = subprocess.run(
        _program(case), input=json.dumps(job), capture_output=True, text=True, timeout=RUN_S, check=False
    )
    assert ended.returncode == 0, f"{case} ended with {ended.returncode}: {ended.stderr[-3000:]}"
    printed = [json.loads(line) for line in ended.stdout.splitlines()]
    written = tap.read_text().split("\n") if tap.exists() else []
    return Run({line["step"]: line for line in printed}, written, ended.stderr)


def left_behind(tap: Path) -> list[psutil.Process]:
    """Return the living processes that a client started and did not end."""
    return [process for process in psutil.process_iter() if _variable(process) == str(tap)]


def _variable(process: psutil.Process) -> str | None:
    try:
        environment: dict[str, str] = process.environ()
    except psutil.Error:
        return None
    return environment.get(MARK)


def _program(case: Case) -> list[str]:
    name = case.client.id
    if case.client.runtime == "node":
        return [str(installed.node()), str(DRIVERS / f"{name}.mjs")]
    interpreter = str(installed.python(case.client.runtime))
    further = [str(installed.node_22())] if name == "inspector" else []
    return [interpreter, str(DRIVERS / f"{name}.py"), *further]
