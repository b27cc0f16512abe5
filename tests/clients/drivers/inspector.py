"""Driver of the Inspector CLI: one run of it per step.  Reads a job from stdin, prints one JSON line per step.

It shows results on stdout, and of an error only the message, on stderr; what it thinks of a step is its exit
code.  The tool list is asked for with --strict, which makes a schema that clients may not like an error.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

MODULES = Path(__file__).parents[1] / "node_modules"
CLI = MODULES / "@modelcontextprotocol/inspector/clients/cli/build/index.js"
COMPILED = MODULES / ".compiled"  # Node.js keeps compiled modules here: a third of the time of a run
RUN_S = 60


def target(job: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Return the options that describe the server, and what follows all options."""
    server = job["server"]
    if job["transport"] == "http":
        headers = [part for item in server["headers"].items() for part in ("--header", ": ".join(item))]
        return ["--server-url", server["url"], "--transport", "http", *headers], []
    variables = [part for item in server["env"].items() for part in ("-e", "=".join(item))]
    return variables, ["--", server["command"], *server["args"]]


def method(step: Mapping[str, Any]) -> list[str]:
    if "tool" not in step:
        return ["--method", "tools/list", "--strict"]
    arguments = json.dumps(step["arguments"])
    return ["--method", "tools/call", "--tool-name", step["tool"], "--tool-args-json", arguments]


def outcome(result: Mapping[str, Any]) -> dict[str, Any]:
    if "protocolVersion" in result:
        return {"revision": result["protocolVersion"]}
    if "tools" in result:
        return {"tools": [tool["name"] for tool in result["tools"]]}
    texts = [part["text"] for part in result["content"] if part["type"] == "text"]
    return {"is_error": result["isError"], "texts": texts, "structured": result.get("structuredContent")}


def shown(run: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """Return what one run shows: of a result all, of an error its message."""
    if run.stdout:
        return {"exit": run.returncode, **outcome(json.loads(run.stdout)["result"])}
    return {"exit": run.returncode, "error": {"message": json.loads(run.stderr)["error"]["message"]}}


def inspect(node: str, options: Sequence[str], home: str) -> subprocess.CompletedProcess[str]:
    """Run the CLI to its end, in a home of its own, since it keeps files there."""
    environment = {"PATH": os.environ["PATH"], "HOME": home, "NODE_COMPILE_CACHE": str(COMPILED)}
    program = [node, str(CLI), "--format", "json", "-q", *options]
    return subprocess.run(
        program,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env=environment,
        timeout=RUN_S,
        check=False,
    )


def main(node: str) -> None:
    job = json.load(sys.stdin)
    options, command = target(job)
    runs = [("connect", ["--method", "initialize"])] + [(step["name"], method(step)) for step in job["steps"]]
    with tempfile.TemporaryDirectory() as home:
        for name, words in runs:
            run = inspect(node, ["--protocol-era", job["era"], *words, *options, *command], home)
            print(json.dumps({"step": name, **shown(run)}))


main(sys.argv[1])
