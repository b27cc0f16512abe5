"""The reports of many runs summed up, as the rows of the table in docs/reliability.md.  Pure but for the one file."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tests.chaos.disk_faults import BESIDE_KILLS, DISK_FAULTS
from tests.chaos.looking import LOOKING
from tests.chaos.time_faults import AIMED_KILLS, APART, BACKLOGS

HEADINGS: Final = (
    *("on", "scenario", "runs", "stores acknowledged", "entries listed", "kills", "partitions", "pauses"),
    *("disks", "rolling restarts", "logs read in between", "repeats unmarked", "longest heal to delivery, s"),
    "violations",
)
KILLS: Final = (
    *("kill_peer", "kill_all_peers", "kill_server", "kill_all_servers"),
    *AIMED_KILLS,
    *BACKLOGS,
    APART,
    *BESIDE_KILLS,
    *LOOKING,
)
PARTITIONS: Final = ("cut_off_one", "cut_off_each", "flap", "deaf_one", "mute_one", "reset_one", "bridge")
PAUSES: Final = ("pause_peer", "pause_server")
DISKS: Final = (*DISK_FAULTS, *BESIDE_KILLS)
MEMBERS: Final = {  # how often one of them counts
    "kill_all_peers": 3,
    "kill_all_servers": 3,
    "flap": 4,
    "behind_one": 3,  # those that miss something, then whoever runs
    "behind_two": 3,
    "behind_in_turn": 5,
    **dict.fromkeys(LOOKING, 3),
}


def total(path: Path) -> str:
    """Return the table of all reports in a file, one a line."""
    with path.open(encoding="utf-8") as lines:
        return table([json.loads(line) for line in lines])


def table(reports: Iterable[Mapping[str, Any]]) -> str:
    """Return reports summed up by cluster and scenario, and over all, as a Markdown table."""
    groups = defaultdict[tuple[str, str], list[Mapping[str, Any]]](list)
    for report in reports:
        groups[report["on"], report["scenario"]].append(report)
    rows = [[*key, *_sums(group)] for key, group in sorted(groups.items())]
    rows.append(["**all**", "", *_sums([report for group in groups.values() for report in group])])
    lines = [HEADINGS, ["---"] * len(HEADINGS), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def _sums(reports: Sequence[Mapping[str, Any]]) -> list[object]:
    delivered = [r["healed_to_delivered_s"] for r in reports if r["healed_to_delivered_s"] is not None]
    return [
        len(reports),
        *(sum(r[name] for r in reports) for name in ("stores", "listed")),
        _count(reports, KILLS) - sum(r.get("killed_twice", 0) for r in reports),
        *(_count(reports, f) for f in (PARTITIONS, PAUSES, DISKS, ("restart_in_turn",), tuple(LOOKING))),
        sum(r["repeats_unmarked_elsewhere"] for r in reports),
        max(delivered, default="-"),
        sum(count for r in reports for count, _ in r["violations"].values()),
    ]


def _count(reports: Sequence[Mapping[str, Any]], faults: Sequence[str]) -> int:
    return sum(r["faults"].get(fault, 0) * MEMBERS.get(fault, 1) for r in reports for fault in faults)
