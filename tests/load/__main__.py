"""`python -m tests.load`: the proof on this machine, as a table or as JSON; exit code 1 on a violation."""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import json
import sys

from tests.load.proof import Report, Size, prove


def main() -> int:
    """Run, print, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.load", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="of mixed calls; 15 s of overload follow")
    parser.add_argument("--agents", type=int, default=200, help="over HTTP, each with a key of its own")
    parser.add_argument("--gateways", type=int, default=20, help="processes of `hyphae mcp serve`")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    given = parser.parse_args()
    size = Size(given.seconds, given.agents, given.gateways)
    report = asyncio.run(prove(size, lambda text: print(text, file=sys.stderr, flush=True)))
    if given.json:
        print(json.dumps(dataclasses.asdict(report)))
    else:
        print(table(report))
    return 1 if report.violations else 0


def table(report: Report) -> str:
    """Return a report for people."""
    lines = []
    for phase, rows in report.phases.items():
        lines += ["", f"{phase:<15}{'answered':>10}{'overloaded':>12}{'p50 ms':>10}{'p99 ms':>10}"]
        lines += [
            f"{r['kind']:<15}{r['answered']:>10}{r['overloaded']:>12}{r['p50_ms']:>10.1f}{r['p99_ms']:>10.1f}"
            for r in rows
        ]
    lines += ["", *(f"{name}: {value}" for name, value in report.facts.items()), ""]
    lines += [f"VIOLATION: {sentence}" for sentence in report.violations] or ["Everything held."]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
