"""`python -m tests.benchmarks.run [names] [--quick] [--write]`: measure, print the table, maybe write the page."""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import sys
from pathlib import Path

from node.cpus import available_cpus
from node.version import version
from tests.benchmarks.figure import Figure
from tests.benchmarks.figures import ALL
from tests.benchmarks.recovery import FULL, QUICK, RECOVERY

PAGE = Path(__file__).resolve().parents[2] / "docs" / "benchmarks.md"
BEGIN, END = "<!-- table: begin -->", "<!-- table: end -->"


def table(figures: list[Figure]) -> str:
    """Return the figures as a Markdown table."""
    rows = ["| what | measured | bar | holds | detail |", "|---|---|---|---|---|"]
    for f in figures:
        holds = "-" if f.holds is None else ("yes" if f.holds else "**no**")
        rows.append(f"| {f.what} | {f.value} | {f.bar} | {holds} | {f.detail} |")
    return "\n".join(rows)


def machine() -> str:
    """Name the machine as far as the figures depend on it."""
    model = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        model = next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    python = platform.python_version()
    return f"{model}, {available_cpus()} cores, {platform.system()}, Python {python}, hyphae-mesh {version()}"


def main() -> int:
    """Return 1 if a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    known = [*ALL, *RECOVERY]
    parser.add_argument(
        "names", nargs="*", choices=[[], *known], default=[], help=f"of {', '.join(known)}; all by default"
    )
    parser.add_argument("--quick", action="store_true", help="shorter logs where their length can be chosen")
    parser.add_argument("--write", action="store_true", help="put the table into docs/benchmarks.md")
    options = parser.parse_args()
    figures: list[Figure] = []
    for name in options.names or known:
        print(f"measuring {name}, load {os.getloadavg()[0]:.1f} ...", file=sys.stderr)
        if name in ALL:
            ALL[name](figures)
        else:
            RECOVERY[name](figures, QUICK if options.quick else FULL)
    text = f"Measured on {datetime.date.today().isoformat()}: {machine()}.\n\n{table(figures)}"
    print(text)
    if options.write:
        page = PAGE.read_text(encoding="utf-8")
        head, rest = page.split(BEGIN)
        tail = rest.split(END)[1]
        PAGE.write_text(f"{head}{BEGIN}\n{text}\n{END}{tail}", encoding="utf-8")
    return 0 if all(f.holds is not False for f in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
