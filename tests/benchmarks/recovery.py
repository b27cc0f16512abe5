"""The figures of long logs: a restart, a peer that joins, the end of a partition.  In a full and a quick size."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable
from dataclasses import dataclass

from tests.benchmarks.figure import Figure
from tests.benchmarks.healing import measure_healing
from tests.benchmarks.joining import measure_joining, p99
from tests.benchmarks.restart import measure_restart

RESTART_S = 15.0
CATCH_UP_SHARE = 0.5
P99_RATIO = 3.0
HEAL_S = 10


@dataclass(frozen=True, slots=True)
class Size:
    """How much is measured.

    Args:
        restart_events, joining_events: in the log.
        idle_s: of stores before a peer joins.
        apart_s: how long the partition lasts; calls_per_s: of 40 memories, on each side of it.
    """

    restart_events: int
    joining_events: int
    idle_s: float
    apart_s: float
    calls_per_s: float


FULL = Size(200_000, 200_000, 30.0, 20.0, 20.0)
QUICK = Size(50_000, 30_000, 15.0, 20.0, 10.0)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def restart(figures: list[Figure], size: Size) -> None:
    """Start a peer on a long log: after a clean end, after kill -9, without a snapshot."""
    found = measure_restart(size.restart_events, _say)
    for how, seconds in (
        ("a clean end", found.clean),
        ("kill -9, a tenth of the log newer than the snapshot", found.killed),
        ("the loss of the snapshot", found.bare),
    ):
        figures.append(
            Figure(
                f"restart with {found.events:,} events after {how}: exec to the first recall",
                f"{seconds:.2f} s",
                f"< {RESTART_S:g} s",
                seconds < RESTART_S,
            )
        )


def joining(figures: list[Figure], size: Size) -> None:
    """Have a peer join, and store meanwhile."""
    found = measure_joining(size.joining_events, size.idle_s, _say)
    figures.append(
        Figure(
            f"a joining peer gets {found.events:,} events from two that serve",
            f"{found.rate_ratio:.0%} of the rebuild rate",
            f">= {CATCH_UP_SHARE:.0%}",
            found.rate_ratio >= CATCH_UP_SHARE,
            f"{found.catch_up_per_s:,.0f} against {found.rebuild_per_s:,.0f} events/s;"
            f" {found.exec_s:.1f} s from exec",
        )
    )
    figures.append(
        Figure(
            "live stores meanwhile, on one of the two, w = 2, p99",
            f"{found.p99_ratio:.2f} x",
            f"<= {P99_RATIO:g} x p99 before",
            found.p99_ratio <= P99_RATIO,
            f"{p99(found.busy_ms):.0f} against {p99(found.idle_ms):.0f} ms; p50"
            f" {statistics.median(found.busy_ms):.0f} against {statistics.median(found.idle_ms):.0f} ms;"
            f" {len(found.busy_ms)} and {len(found.idle_ms)} stores",
        )
    )


def healing(figures: list[Figure], size: Size) -> None:
    """End a partition and wait for the last delivery."""
    found = measure_healing(size.calls_per_s, size.apart_s, _say)
    figures.append(
        Figure(
            f"all deliveries after a partition of {size.apart_s:g} s with stores on both sides",
            f"{found.healed_s:.1f} s",
            f"<= {HEAL_S} s plus the backlog at half the rebuild rate: {found.allowed_s:.1f} s",
            found.healed_s <= found.allowed_s,
            f"{found.backlog:,} events behind, {found.deliveries:,} deliveries,"
            f" rebuild {found.rebuild_per_s:,} events/s",
        )
    )


RECOVERY: dict[str, Callable[[list[Figure], Size], None]] = {
    "restart": restart,
    "joining": joining,
    "healing": healing,
}
