"""How property tests run here: the same examples each time, no wall-clock deadline."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

LAW = settings(
    derandomize=True,
    max_examples=80,
    deadline=None,
    database=None,
    suppress_health_check=(HealthCheck.too_slow,),
)
RUBBISH = settings(LAW, max_examples=300)
