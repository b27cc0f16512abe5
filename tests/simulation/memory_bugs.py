"""Planted bugs of the memory: each breaks one rule of the product, and the checks must find it.

A bug replaces a class of the product or of the simulated peer, or a function of the product for the length of
a run; the product itself has no switch.  Most of them are designs that were tried and rejected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

from mesh.engine_config import EngineConfig
from node import folding, inbox_projection, inbox_query, matching
from node.beacons_projection import BeaconsProjection
from node.draining import DrainPlan
from node.folding import Folding
from node.membership_projection import MembershipProjection
from node.readers import ReaderMemory
from tests.simulation import memory_process
from tests.simulation.memory_flaws import (
    ForgetfulReplica,
    HastyProcess,
    HastySite,
    LastScenesReplica,
    OneEpochReplica,
    PartialScenesReplica,
    RewritingSite,
    SharedCursorProcess,
    as_judged_by_event,
    conditions_by_highest_seen,
    coverage_by_ordinal,
    decodes_or_stops,
    drops,
    eligible_by_clock,
    everything_counts,
    folds_most,
    forget,
    judge_by_last_placement,
    listing_committed,
    never_marked,
    new_for_any_gateway,
    nothing_is_taken_back,
    settled_at_its_end,
)
from tests.simulation.memory_process import MemoryProcess
from tests.simulation.outcome import NO_BUG
from tests.simulation.replica_site import ReplicaSite, SimulatedReplica


@dataclass(frozen=True, slots=True)
class Bug:
    """Which parts are replaced, and the guarantee that breaks.

    Args:
        patches: functions that are replaced: (where, name, what stands there instead).
        mix: settings of the histories in which it is looked for: a rare chance is made a common one.
        seeds: within how many it must be found.
    """

    breaks: str = ""
    seeds: int = 20
    replica_class: type[SimulatedReplica] = SimulatedReplica
    site_class: type[ReplicaSite] = ReplicaSite
    process_class: type[MemoryProcess] = MemoryProcess
    patches: Sequence[tuple[Any, str, Callable[..., Any]]] = field(default=())
    mix: Mapping[str, Any] = field(default_factory=dict)

    @contextmanager
    def planted(self) -> Iterator[Bug]:
        """Let the bug be there while the block runs."""
        with ExitStack() as stack:
            for place, name, instead in self.patches:
                stack.enter_context(mock.patch.object(place, name, instead))
            yield self


BUGS: dict[str, Bug] = {
    NO_BUG: Bug(),
    "no epoch": Bug("G10", replica_class=OneEpochReplica),
    "publish before fsync": Bug("G1", site_class=HastySite, process_class=HastyProcess),
    "activation by HLC": Bug("G4", patches=[(matching, "_eligible", eligible_by_clock)]),
    "older epochs are before": Bug("G4", patches=[(matching, "coverage", coverage_by_ordinal)]),
    "late links not judged": Bug("G3", patches=[(BeaconsProjection, "_judge_covered", forget)]),
    "late beacons not judged": Bug("G3", patches=[(BeaconsProjection, "_judge_beyond", forget)]),
    "last placement wins": Bug("G4", patches=[(inbox_projection, "judge", judge_by_last_placement)]),
    "one cursor for two sessions": Bug("G5", process_class=SharedCursorProcess),
    "highest seen per agent": Bug("G5", patches=[(inbox_query, "_conditions", conditions_by_highest_seen)]),
    "commit on send": Bug("G5", patches=[(memory_process, "listing", listing_committed)]),
    "pages are never marked": Bug("G6", patches=[(DrainPlan, "may_repeat", never_marked)]),
    "the end of a reader ends its marks": Bug(  # lost messages alone, and pages so small that catching up takes long
        "G6",
        patches=[(DrainPlan, "settle", settled_at_its_end)],
        mix={"config": EngineConfig(page_bytes=500), "loss": 0.6, "stores": 120, "beacons": 25, "sticky": 0.3}
        | {"reply_loss": 0.0, "gateway_restarts": 0.0, "duration_ms": 10_000, "pace": 1.0, "sessions": 5}
        | {"faults": frozenset(), "storm": False, "retirements": 0, "clocks": ("right",), "poison": 0}
        | {"second_gateway": False, "consolidations": 0, "two_spaces": False},
    ),
    "a session is new to a new gateway": Bug(
        "G6",
        patches=[(ReaderMemory, "has_listed_nothing", new_for_any_gateway)],
        mix={"sessions": 25, "stores": 150, "beacons": 30, "gateway_restarts": 0.7, "reply_loss": 0.02},
    ),
    "the last scenes to come count": Bug("G3", replica_class=LastScenesReplica),
    "a part of the scenes counts": Bug("G3", replica_class=PartialScenesReplica),
    "late events are folded": Bug(
        "G4", patches=[(MembershipProjection, "counts", everything_counts)], mix={"retirements": 3}
    ),
    "what was folded before a retirement stays": Bug(
        "G3", patches=[(MembershipProjection, "settle", nothing_is_taken_back)], mix={"retirements": 3}
    ),
    "references are event ids": Bug(
        "G3", patches=[(inbox_projection, "as_judged", as_judged_by_event)], replica_class=ForgetfulReplica
    ),
    "one event in 40 is not folded": Bug("G3", patches=[(Folding, "_fold", folds_most)]),
    "an event that cannot be read stops a peer": Bug(
        "G11", patches=[(folding, "decode_payload", decodes_or_stops)]
    ),
    "an event that cannot be read is forgotten": Bug("G11", patches=[(folding, "set_aside", drops)]),
    "written anew before hashing": Bug("G3", site_class=RewritingSite),
}
"""Each planted bug by its name."""
