"""What one seed came to, in every simulation."""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.simulation.checks import Checks

NO_BUG = "none"
SURE = 2


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run came to.

    Args:
        simulation: its name in the catalog.
        bug: planted; `NO_BUG` for none.
        findings: what does not hold, each with its guarantee.
        counts: how often which situation occurred.
    """

    simulation: str
    seed: int
    bug: str
    findings: list[str]
    counts: Counter[str] = field(default_factory=Counter)

    def replay(self) -> str:
        """Return the command that runs this history again, and tells its last steps."""
        planted = "" if self.bug == NO_BUG else f' BUG="{self.bug}"'
        return f"make sim OF={self.simulation} SEED={self.seed} RUNS=1{planted}"


@contextmanager
def failures_found(checks: Checks) -> Iterator[None]:
    """Take an error that leaves the product for a finding: nothing that is sent to a peer may stop it."""
    try:
        yield
    except Exception as error:  # whatever it is, it is what the history came to
        place = traceback.extract_tb(error.__traceback__)[-1]
        checks.find(f"G11: {type(error).__name__} in {place.name}, line {place.lineno}: {error}")


def missing(sometimes: Mapping[str, float], counts: Counter[str], seeds: int) -> list[str]:
    """Return what happened too rarely over so many seeds for a run without findings to mean anything.

    Args:
        sometimes: by situation, how often it must occur, per seed on average.  What is due less than `SURE` times
            in so few seeds may be missing by chance.
    """
    due = {name: least * seeds for name, least in sometimes.items()}
    return [name for name, times in due.items() if times >= SURE and counts[name] < times]
