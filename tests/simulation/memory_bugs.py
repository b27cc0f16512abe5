"""Planted bugs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tests.simulation.memory_process import MemoryProcess
from tests.simulation.replica_site import ReplicaSite, SimulatedReplica

NO_BUG = "none"


@dataclass(frozen=True, slots=True)
class Bug:
    replica_class: type[SimulatedReplica] = SimulatedReplica
    site_class: type[ReplicaSite] = ReplicaSite
    process_class: type[MemoryProcess] = MemoryProcess

    @contextmanager
    def planted(self) -> Iterator[Bug]:
        yield self


BUGS = {NO_BUG: Bug()}
