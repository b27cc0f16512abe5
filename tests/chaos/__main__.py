"""`python -m tests.chaos`: play scenarios, judge their histories, report.  Exit code 1 if any check found something.

Histories stay in .chaos/, one file a run; `--judge FILE` judges one again.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import random
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.chaos.checkers import SHOWN, figures, violations
from tests.chaos.cluster import Cluster
from tests.chaos.history import History, read_history
from tests.chaos.planted import play_planted
from tests.chaos.processes import ProcessCluster
from tests.chaos.run import SCENARIOS, Scenario, play
from tests.chaos.time_checks import time_figures
from tests.chaos.totals import total
from tests.support.places import short_directory

KEPT = Path(".chaos")


def say(text: str) -> None:
    """Tell people how far it is; results go to stdout."""
    print(text, file=sys.stderr, flush=True)


@contextlib.contextmanager
def cluster_for(on: str, scenario: Scenario) -> Iterator[Cluster]:
    """Yield a mesh that is up; nothing of it is left afterwards."""
    with short_directory() as root:
        cluster: Cluster
        if on == "containers":
            from tests.chaos.containers import ContainerCluster

            cluster = ContainerCluster()
        else:
            cluster = ProcessCluster(root, model=scenario.model, small_disks=scenario.small_disks)
        try:
            cluster.start()
            yield cluster
        finally:
            cluster.close()


def one_run(on: str, scenario: Scenario, seed: int, seconds: float) -> dict[str, Any]:
    """Play one scenario and judge it; return the report."""
    KEPT.mkdir(exist_ok=True)
    path = KEPT / f"{time.strftime('%Y%m%dT%H%M%S')}-{on}-{scenario.name}-{seed}.jsonl"
    history, began = History(path), time.monotonic()
    try:
        with cluster_for(on, scenario) as cluster, short_directory() as home:
            play(cluster, scenario, history, seed, seconds, say, home)
    finally:
        history.close()
    return judged(path) | {
        "scenario": scenario.name,
        "on": on,
        "seed": seed,
        "took_s": round(time.monotonic() - began),
    }


def judged(path: Path) -> dict[str, Any]:
    """Return what the checkers say of a history, and its figures."""
    records = read_history(path)
    found = {name: [len(v), v[:SHOWN]] for name, v in violations(records).items()}
    return {"history": str(path), "violations": found, **figures(records), **time_figures(records)}


def main(arguments: Sequence[str]) -> int:
    """Run the command; return its exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.chaos", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument(
        "scenarios", nargs="*", metavar="SCENARIO", help=f"of {', '.join(SCENARIOS)}; default: all"
    )
    parser.add_argument("--on", choices=("processes", "containers"), default="processes")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--seconds", type=float, default=20.0, help="of faults in each scenario")
    parser.add_argument("--minutes", type=float, default=0.0, help="go on with further seeds for so long")
    parser.add_argument("--total", action="store_true", help="only sum up the reports of all runs so far")
    parser.add_argument(
        "--planted", action="store_true", help="only show that faults planted into peers are found"
    )
    parser.add_argument("--judge", type=Path, metavar="FILE", help="only judge a history")
    given = parser.parse_args(arguments)
    if given.planted:
        return 0 if play_planted(given.scenarios, given.seed, KEPT, say) else 1
    unknown = set(given.scenarios) - SCENARIOS.keys()
    if unknown:
        parser.error(f"no scenario: {', '.join(sorted(unknown))}")
    if given.total:
        print(total(KEPT / "reports.jsonl"))
        return 0
    if given.judge is not None:
        reports: Iterable[dict[str, Any]] = [judged(given.judge)]
    else:
        chosen = [SCENARIOS[name] for name in given.scenarios or SCENARIOS]
        reports = _runs(given.on, chosen, given.seed, given.seconds, given.minutes)
    failed = False
    for report in reports:
        failed = failed or bool(report["violations"])
        _tell(report)
    return 1 if failed else 0


def _runs(
    on: str, chosen: Sequence[Scenario], seed: int, seconds: float, minutes: float
) -> Iterator[dict[str, Any]]:
    """Play the scenarios, again and again with further seeds until the time is over; yield the reports."""
    until = time.monotonic() + 60 * minutes
    for round_ in itertools.count():
        for scenario in chosen:
            yield one_run(on, scenario, seed + round_, seconds)
        if time.monotonic() >= until:
            return


def _tell(report: Mapping[str, Any]) -> None:
    print(json.dumps(report), flush=True)
    if report["history"] and "scenario" in report:
        with (KEPT / "reports.jsonl").open("a", encoding="utf-8") as kept:
            kept.write(json.dumps(report) + "\n")
    for name, (count, sentences) in report["violations"].items():
        say(f"{name}: {count} violations")
        for sentence in sentences:
            say(f"  {sentence}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
