"""Traffic of the injector: memories that the operator stores many at a time, and how much a peer holds.

They lie in a project of their own, for which no agent has a beacon, so the checks about inboxes do not know them;
those about streams and states do.
"""

from __future__ import annotations

import http.client
import random
import threading
from collections.abc import Mapping, Sequence
from typing import Any, Final

from tests.chaos.caller import CALL_S
from tests.chaos.cluster import Cluster
from tests.support.http_agent import HttpAgent

PROJECT: Final = "bulk"
PART: Final = 128  # of the 256 that one call may hold: a model on a busy machine has to come through
BULK_S: Final = 60.0
TRIES: Final = 4
NO_ANSWER: Final = (OSError, http.client.HTTPException, ValueError, KeyError)
WORDS: Final = (
    "harbour",
    "basalt",
    "signal",
    "orchard",
    "copper",
    "tide",
    "lantern",
    "meadow",
    "gravel",
    "loom",
)


def store_many(cluster: Cluster, peer: str, count: int, rng: random.Random, words: int = 12) -> list[str]:
    """Store so many memories at one peer, or fewer if it fails again and again; return the acknowledged ones' ids."""
    caller, pause = HttpAgent(cluster.url(peer), cluster.operator_key(), timeout_s=BULK_S), threading.Event()
    stored: list[str] = []
    failed = 0
    while len(stored) < count and failed < TRIES:
        cells = [_cell(rng, words) for _ in range(min(PART, count - len(stored)))]
        try:
            acknowledged = _ids(caller.rest("POST", "/v1/nodes:bulk", {"cells": cells}).result or {})
        except NO_ANSWER:
            caller.close()
            acknowledged = []
        stored += acknowledged
        failed = 0 if acknowledged else failed + 1
        pause.wait(0.0 if acknowledged else 0.5)
    caller.close()
    return stored


def poke(cluster: Cluster, peer: str, rng: random.Random) -> bool:
    """Store one memory at a peer, whatever comes of it; return whether it was acknowledged."""
    caller = HttpAgent(cluster.url(peer), cluster.operator_key(), timeout_s=CALL_S)
    try:
        return bool(_ids(caller.rest("POST", "/v1/nodes:bulk", {"cells": [_cell(rng, 12)]}).result or {}))
    except NO_ANSWER:
        return False
    finally:
        caller.close()


def holds(cluster: Cluster, peer: str, nodes: Sequence[str]) -> list[str] | None:
    """Return which memories a peer shows; None where it does not answer."""
    caller = HttpAgent(cluster.url(peer), cluster.operator_key(), timeout_s=CALL_S)
    try:
        return [node for node in nodes if caller.ask("get_node", {"node_id": node}).result is not None]
    except NO_ANSWER:
        return None
    finally:
        caller.close()


def status(cluster: Cluster, peer: str) -> Mapping[str, Any]:
    """Return what a peer says of itself; empty where it does not answer."""
    caller = HttpAgent(cluster.url(peer), cluster.operator_key(), timeout_s=CALL_S)
    try:
        return caller.ask("status", {}).result or {}
    except NO_ANSWER:
        return {}
    finally:
        caller.close()


def _cell(rng: random.Random, words: int) -> dict[str, str]:
    text = " ".join(rng.choice(WORDS) for _ in range(words))
    return {"content": f"{rng.getrandbits(64):016x} {text}", "cell_type": "Fact", "project": PROJECT}


def _ids(result: Mapping[str, Any]) -> list[str]:
    return [r["node_id"] for r in result.get("results", ()) if "node_id" in r]
