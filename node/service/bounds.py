"""The limits of a peer's service that its operator may set, each with its usual value.

Plain values.  Sizes of texts, bodies, pages and messages are not here: they are part of what peers, gateways
and clients agree on, and stay the same in every mesh (`proto.limits`).
"""

from __future__ import annotations

from dataclasses import dataclass

from proto import limits


@dataclass(frozen=True, slots=True)
class Bounds:
    """What one peer admits.

    Args:
        rate_per_key: calls that one key may make each second.  Too low refuses agents that work in parallel, too
            high lets one in a loop have the processor.
        rate_burst: calls that a rested key may make at once; at least `rate_per_key` makes sense.
        calls_at_once: calls under way in all.  Too high makes all of them late before any is refused.
        calls_at_once_per_key: calls under way of one key; lower than `calls_at_once`, or one key can have all.
        beacons_per_agent: standing beacons.  Each costs a product with every new memory's vector.
        sessions_per_agent: open working sessions.
    """

    rate_per_key: int = limits.RATE_PER_KEY_PER_S
    rate_burst: int = limits.RATE_BURST
    calls_at_once: int = limits.CALLS_AT_ONCE
    calls_at_once_per_key: int = limits.CALLS_AT_ONCE_PER_KEY
    beacons_per_agent: int = limits.BEACONS_PER_AGENT
    sessions_per_agent: int = limits.OPEN_SESSIONS_PER_AGENT
