"""What one fault is: something done to a mesh, how long it lasts, and how it is undone."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.chaos.cluster import Cluster


@dataclass(frozen=True, slots=True)
class Strike:
    """One fault under way.

    Args:
        hold_s: how long it lasts before `heal`.
        heal: undoes it; may return what the history is to note of that.
        total: nobody can be served while it lasts.
        noted: what the history is to note of the fault itself (`tests.chaos.losses` reads it).
    """

    targets: Sequence[str]
    hold_s: float
    heal: Callable[[], Mapping[str, Any] | None]
    total: bool = False
    noted: Mapping[str, Any] = field(default_factory=dict)


Fault = Callable[[Cluster, random.Random], Strike]
