"""What must hold of `time_faults` beyond what `checkers` ask of any run, and the figures of them.  Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from tests.chaos.aimed import COMMIT_INSTANTS, SNAPSHOT_INSTANTS
from tests.chaos.history import BEGIN, FAULT, HEAL, OK, Record, pairs
from tests.chaos.looking import LOOKING
from tests.chaos.time_faults import BACKLOGS, MEMBER

AIMED: Final = {f"kill_{instant}": instant for instant in (*COMMIT_INSTANTS, *SNAPSHOT_INSTANTS)}


def finally_a_retired_member_changes_nothing(records: Sequence[Record]) -> list[str]:
    """Members: what a peer stored in time counts, what came late is kept and not shown, and it stores no more."""
    found = []
    for record in _healed(records, MEMBER):
        told = record.value
        if "late" not in told:
            continue
        name = told["targets"][0]
        found += [f"{p} lacks {n} memories that {name} stored in time" for p, n in told["lost"].items() if n]
        found += [f"{p} shows what {name} stored late: {ids}" for p, ids in told["shown"].items() if ids]
        few = {p: n for p, n in told["kept_aside"].items() if n < told["late"]}
        found += [f"{p} kept {n} of {told['late']} late events of {name} aside" for p, n in few.items()]
        if told["still_stores"]:
            found.append(f"{name} was retired and still stores")
    return found


def eventually_what_was_missed_is_caught_up(records: Sequence[Record]) -> list[str]:
    """Backlogs: everybody holds in time what it missed (G3)."""
    return [
        f"after {name} {record.value['missed']} events were not caught up"
        for name in BACKLOGS
        for record in _healed(records, name)
        if "missed" in record.value and record.value["caught_up_s"] is None
    ]


TIME_CHECKS: Final = {
    check.__name__: check
    for check in (finally_a_retired_member_changes_nothing, eventually_what_was_missed_is_caught_up)
}


def time_figures(records: Sequence[Record]) -> dict[str, Any]:
    """Return at which instants peers died, who came and went, and how backlogs went."""
    deaths: dict[str, int] = {}
    for record in records:
        if record.kind == FAULT and record.what in AIMED:
            instant = record.value["died_at"] or "elsewhere"
            deaths[instant] = deaths.get(instant, 0) + 1
    joined = [r.value["joined_s"] for r in records if r.kind == FAULT and "joined_s" in r.value]
    backlogs = [
        _backlog(records, r) for name in BACKLOGS for r in _healed(records, name) if "missed" in r.value
    ]
    figures: dict[str, Any] = {"killed_twice": killed_twice(records)}
    figures |= {"died_at": deaths} if deaths else {}
    figures |= {"joined_s": joined} if joined else {}
    return figures | ({"backlogs": backlogs} if backlogs else {})


def killed_twice(records: Sequence[Record]) -> int:
    """Return how many of those that a fault was to kill were dead already, by another fault of its pair."""
    down: set[str] = set()
    count = 0
    for record in records:
        if record.kind == FAULT and (record.what.startswith("kill_") or record.what in LOOKING):
            count += len(down & set(record.value["targets"]))
            down |= set(record.value["targets"])
        elif record.kind == HEAL:
            down -= set(record.value.get("targets", ()))
    return count


def _backlog(records: Sequence[Record], healed: Record) -> dict[str, Any]:
    """Return what is known of a backlog; live stores are those of the agents from the restart to the heal's end."""
    struck = [r for r in records if r.kind == FAULT and r.what == healed.what and r.at_s <= healed.at_s][-1]
    begun = [r for r in records if r.kind == BEGIN and r.what == healed.what and r.at_s <= struck.at_s][-1]
    idle = _store_ms(records, 0.0, min(r.at_s for r in records if r.kind == BEGIN))
    told: Mapping[str, Any] = healed.value
    return {
        **{name: told[name] for name in ("missed", "stored", "restarted_s", "caught_up_s")},
        "stored_in_s": round(struck.at_s - begun.at_s, 1),
        "live_p99_ms": _p99(_store_ms(records, struck.at_s, healed.at_s)),
        "idle_p99_ms": _p99(idle),
    }


def _store_ms(records: Sequence[Record], from_s: float, to_s: float) -> list[float]:
    """Return how long the agents' stores took that were acknowledged, of those begun in an interval."""
    return [
        (end.at_s - asked.at_s) * 1000
        for asked, end in pairs(records, "store")
        if end is not None and end.kind == OK and from_s <= asked.at_s <= to_s
    ]


def _p99(values: Sequence[float]) -> float | None:
    return round(sorted(values)[int(len(values) * 0.99)], 1) if values else None


def _healed(records: Sequence[Record], fault: str) -> Iterator[Record]:
    return (r for r in records if r.kind == HEAL and r.what == fault)
