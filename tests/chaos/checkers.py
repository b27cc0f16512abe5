"""What must hold of any history, whatever was done to the mesh.  Pure: records in, sentences about violations out.

Names say when a check must hold: `anytime_` at every moment, `eventually_` within a bound after the last heal,
`finally_` once everything has settled and every reader has drained to the end.  `test_checkers.py` shows each of
them failing on a history with its fault in it, `plants` on a mesh with its fault in it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from tests.chaos import checks_disks, checks_logs, checks_reading, checks_stores, time_checks
from tests.chaos.facts import last_heal
from tests.chaos.history import FAULT, HEAL, OK, UNKNOWN, Record, pairs
from tests.chaos.losses import Losses
from tests.chaos.pages import Page, pages

SHOWN: Final = 5
MOMENT_EVENTS: Final = 10

Check = Callable[[Sequence[Record]], list[str]]

CHECKS: Final[Mapping[str, Check]] = {
    name: check
    for module in (checks_stores, checks_reading, checks_logs, checks_disks, time_checks)
    for name, check in vars(module).items()
    if name.startswith(("anytime_", "eventually_", "finally_"))
}


def violations(records: Sequence[Record]) -> dict[str, list[str]]:
    """Return what each check found; checks that found nothing are left out."""
    found = {name: check(records) for name, check in CHECKS.items()}
    return {name: sentences for name, sentences in found.items() if sentences}


def figures(records: Sequence[Record]) -> dict[str, Any]:
    """Return how much was done and seen in a run."""
    ends = Counter(r.kind for r in records if r.op and r.kind in (OK, "fail", UNKNOWN))
    all_pages: list[Page] = list(pages(records))
    drained = [r.at_s for r in records if r.what == "drained"]
    stored = [end for _, end in pairs(records, "store") if end is not None and end.kind == OK]
    found = [end.value for _, end in pairs(records, "find") if end is not None and end.kind == OK]
    return {
        "operations": dict(ends),
        "did": dict(Counter(r.what for r in records if r.op and r.kind == OK)),
        "stores": len(stored),
        "stores_short": sum("durable_on" in end.value for end in stored),
        "looks_into_logs": sum("held" in r.value for r in records),
        "finds_stale": sum(bool(f["stale"]) for f in found),
        "listed": sum(len(p.entries) for p in all_pages if not p.looked),
        "repeats_marked": _repeats(all_pages, marked=True),
        "repeats_unmarked_elsewhere": _repeats(all_pages, marked=False),
        "faults": dict(Counter(r.what for r in records if r.kind == FAULT)),
        "signs": dict(Counter(s for r in records if r.kind == HEAL for s in r.value.get("signs", ()))),
        "events_lost_with_disks": sum(r.value.get("events_lost", 0) for r in records if r.kind == HEAL),
        "may_be_lost": _possible_losses(records),
        "struck": sum(len(r.value.get("targets", ())) for r in records if r.kind == FAULT),
        "seen_apart": sum(
            _apart(r.value["events"]) for r in records if r.kind == HEAL and "events" in r.value
        ),
        "healed_to_delivered_s": round(max(drained) - last_heal(records), 1) if drained else None,
    }


def _possible_losses(records: Sequence[Record]) -> int:
    """Return how many memories one disk alone held when it was struck."""
    losses = Losses(records)
    return sum(r.what == "store" and losses.may_be_lost(r) for r in records)


def _repeats(all_pages: Iterable[Page], *, marked: bool) -> int:
    seen = defaultdict[str, set[str]](set)
    count = 0
    for page in (p for p in all_pages if not p.looked):
        again = sum(e.diff in seen[page.reader] for e in page.entries)
        count += again if page.may_repeat == marked else 0
        seen[page.reader].update(e.diff for e in page.entries)
    return count


def _apart(events: Sequence[int | None]) -> bool:
    """Tell whether a fault showed: a peer did not answer, or lacked more than a moment's events."""
    known = [n for n in events if n is not None]
    return not known or len(known) < len(events) or max(known) - min(known) > MOMENT_EVENTS
