"""`hyphae doctor`: what is wrong here and how to mend it."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import click

from node.cli import output
from node.cli.options import data_dir_option, json_option
from node.diagnosis.checks import CHECKS, run_checks
from node.diagnosis.findings import Finding
from node.diagnosis.surroundings import Surroundings
from node.locations import absolute
from node.logging_setup import log_to_stderr

FAILED = 1
LOOKS_AT = "\n".join(f"  {check.name:<12}{check.looks_at}" for check in CHECKS)
HELP = f"""Say what is wrong here and how to mend it.

Nothing is changed, and no peer need run. Exit code 0 when there is no problem, 1 when there is one; a warning
is none. Secrets are never printed, so the output can be shown to others.

\b
Looks at:
{LOOKS_AT}

\b
Examples:
  hyphae doctor
  hyphae doctor --data-dir ./team --deep
  hyphae doctor --json
"""


@click.command(help=HELP)
@click.option("--deep", is_flag=True, help="Also check every event of the log, as `hyphae log verify` does.")
@data_dir_option
@json_option
def doctor(data_dir: Path | None, as_json: bool, deep: bool) -> int:
    """Run the checks; see `HELP`."""
    log_to_stderr("error")
    found: list[tuple[str, Finding]] = []
    at_once = not (as_json or deep)  # beside the bar of --deep nothing else can be printed
    with output.progress_of("checking the log") if deep else nullcontext(_quiet) as progress:
        given = None if data_dir is None else absolute(data_dir)
        for check, findings in run_checks(Surroundings(given, deep=deep, progress=progress)):
            found += [(check.name, finding) for finding in findings]
            if at_once:
                _print([(check.name, finding) for finding in findings])
    sound = all(finding.verdict != "problem" for _, finding in found)
    if as_json:
        output.print_json({"checks": [_record(*one) for one in found], "ok": sound})
    else:
        _print([] if at_once else found)
        output.print_text(_summary([finding for _, finding in found]))
    return 0 if sound else FAILED


def _print(found: list[tuple[str, Finding]]) -> None:
    for name, finding in found:
        output.print_text(f"{finding.verdict:<9}{name:<12}{finding.message}")
        if finding.mend is not None:
            output.print_text(f"{'':<9}{'':<12}mend: {finding.mend}")


def _quiet(_done: int, _of: int) -> None:
    pass


def _record(name: str, finding: Finding) -> dict[str, str]:
    mend = {} if finding.mend is None else {"mend": finding.mend}
    return {"name": name, "verdict": finding.verdict, "message": finding.message, **mend}


def _summary(found: list[Finding]) -> str:
    problems, warnings = (sum(f.verdict == v for f in found) for v in ("problem", "warning"))
    if not problems and not warnings:
        return "All is well."
    return f"{output.counted(problems, 'problem')}, {output.counted(warnings, 'warning')}."
