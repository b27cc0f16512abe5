"""How many processors this process may really use: affinity and container quota, not what the machine has."""

from __future__ import annotations

import math
import os
from pathlib import Path

_CGROUP = Path("/sys/fs/cgroup")


def available_cpus(cgroup: Path = _CGROUP) -> int:
    """Return the number of processors to plan threads for, at least 1.

    Args:
        cgroup: where the control group's files are; version 2 (`cpu.max`) and 1 (`cpu/cpu.cfs_*`) are read.
    """
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = _quota(cgroup)
    return count if quota is None else max(1, min(count, math.floor(quota)))


def _quota(cgroup: Path) -> float | None:
    try:
        limit, period = (cgroup / "cpu.max").read_text(encoding="ascii").split()
        return None if limit == "max" else int(limit) / int(period)
    except (OSError, ValueError):
        pass
    try:
        limit_us = int((cgroup / "cpu" / "cpu.cfs_quota_us").read_text(encoding="ascii"))
        period_us = int((cgroup / "cpu" / "cpu.cfs_period_us").read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None
    return limit_us / period_us if limit_us > 0 and period_us > 0 else None
