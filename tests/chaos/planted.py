"""`python -m tests.chaos --planted`: play each plant on real processes; each must be found by the checks it names."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.chaos.checkers import CHECKS, violations
from tests.chaos.history import History, read_history
from tests.chaos.plants import PLANTS
from tests.chaos.processes import ProcessCluster
from tests.chaos.run import Scenario, play
from tests.support.places import short_directory

SECONDS = 8.0
_UNSEEN = re.compile(r"nobody (looked|verified|read|searched)")  # of a run that broke off: that is no finding


def play_planted(names: Sequence[str], seed: int, kept: Path, say: Callable[[str], None]) -> bool:
    """Play plants and print what found them; return whether each was found by all checks that it names."""
    kept.mkdir(exist_ok=True)
    reports = [_played(name, seed, kept, say) for name in names or PLANTS]
    shown = {check for report in reports for check in report["found_by"]}
    print(json.dumps({"checks_seen_to_fail": len(shown), "never": sorted(CHECKS.keys() - shown)}), flush=True)
    return not any(report["missed_by"] for report in reports)


def _played(name: str, seed: int, kept: Path, say: Callable[[str], None]) -> dict[str, Any]:
    planted = PLANTS[name]
    say(f"planted: {name}")
    path = kept / f"{time.strftime('%Y%m%dT%H%M%S')}-planted-{name}-{seed}.jsonl"
    history, broke = History(path), ""
    with short_directory() as root, short_directory() as home:
        cluster = ProcessCluster(root, plant=name)
        try:
            cluster.start()
            scenario = Scenario(name, tuple(planted.faults))
            play(cluster, scenario, history, seed, SECONDS, say, home)
        except Exception as error:  # a run may well break off: what it saw is judged
            broke = f"{type(error).__name__}: {error}"[:300]
        finally:
            cluster.close()
            history.close()
    found = _found(path)
    report = {
        "planted": name,
        "found_by": {check: len(sentences) for check, sentences in found.items()},
        "missed_by": sorted(set(planted.checks) - found.keys()),
        **({"broke": broke} if broke else {}),
        "history": str(path),
    }
    print(json.dumps(report), flush=True)
    return report


def _found(path: Path) -> dict[str, list[str]]:
    """Return what each check found, without what it only did not get to see."""
    found = {
        name: [s for s in sentences if not _UNSEEN.match(s)]
        for name, sentences in violations(read_history(path)).items()
    }
    return {name: sentences for name, sentences in found.items() if sentences}
