"""What the simulations say to people: a failing seed with its last steps, and the table of situations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from tests.simulation.catalog import SIMULATIONS
from tests.simulation.outcome import Outcome
from tests.simulation.trace import Trace


def failure(outcome: Outcome) -> Iterator[str]:
    """Yield the lines about a seed that failed: how to run it again, what was found, its last steps.

    The seed is run once more for its steps; it is the same history.
    """
    trace = Trace()
    SIMULATIONS[outcome.simulation].simulate(outcome.seed, bug=outcome.bug, trace=trace)
    yield f"{outcome.simulation}, seed {outcome.seed}: run it again with  {outcome.replay()}"
    yield from (f"    {finding}" for finding in outcome.findings)
    yield "  the last steps of each peer until the first finding:"
    yield from (f"    {line}" for line in trace.lines())


def situations(name: str, counts: Mapping[str, int], seeds: int) -> Iterator[str]:
    """Yield a table of what occurred, how often, and how often it must: "-" where it need not."""
    sometimes = SIMULATIONS[name].sometimes
    yield f"{name}, {seeds:,} seeds: what occurred"
    yield f"    {'situation':<44} {'times':>12} {'per seed':>10} {'at least':>9}"
    for situation in sorted(counts.keys() | sometimes.keys()):
        times, least = counts.get(situation, 0), sometimes.get(situation)
        bound = "-" if least is None else f"{least:g}"
        yield f"    {situation:<44} {times:>12,} {times / max(1, seeds):>10.3f} {bound:>9}"


def total(outcomes: list[Outcome]) -> Counter[str]:
    """Return what occurred in several seeds together."""
    counts: Counter[str] = Counter()
    for outcome in outcomes:
        counts.update(outcome.counts)
    return counts
