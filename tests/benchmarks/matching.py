"""Matching in process, on the product's own index and rules."""

from __future__ import annotations

import statistics
import time

import numpy as np

from node.beacon_index import BeaconIndex
from node.matching import Beacon, Coverages, Diff, Filters, Placement, judge
from proto.clock import Hlc
from proto.ids import AgentId, BeaconId, CellId, DiffId, PeerId, TenantId
from proto.payloads import Vector
from proto.scoring import quantise
from proto.streams import Position, StreamId

TENANT = TenantId(bytes(16))
STREAM = StreamId(PeerId(bytes(16)), 0, 0, bytes(8))
BATCH = 64
DIMENSIONS = 384
SPACE = f"bench/{DIMENSIONS}"


def matching_ms(beacons: int, diffs: int) -> float:
    """Return the median milliseconds per diff: product, threshold and exact judgement."""
    rng = np.random.default_rng(0)
    index, covers = BeaconIndex(), Coverages({})
    for n in range(beacons):
        q = quantise(rng.standard_normal(DIMENSIONS).astype(np.float32))
        beacon = Beacon(
            BeaconId(n.to_bytes(16, "big")),
            TENANT,
            AgentId(bytes(15) + b"\x01"),
            "reader",
            f"interest {n}",
            Filters(None, frozenset(), frozenset(), 0),
        )
        vector = Vector(space="bench", values=q.q, norm=q.n)
        beacon.placements.append(_placement(index.add(beacon, vector)))
        index.refresh(beacon)
    spent: list[float] = []
    for start in range(0, diffs, BATCH):
        quantised = [quantise(rng.standard_normal(DIMENSIONS).astype(np.float32)) for _ in range(BATCH)]
        values = np.stack([np.frombuffer(q.q, dtype=np.int8).astype(np.float32) for q in quantised])
        norms = np.array([q.n for q in quantised], dtype=np.int64)
        bonus = np.zeros(BATCH, dtype=np.int32)
        began = time.perf_counter()
        for row, beacon, number, score in index.candidates(TENANT, SPACE, values, norms, bonus):
            judge(beacon, _diff(start + row), {number: score}, covers)
        spent.append((time.perf_counter() - began) * 1000 / BATCH)
    return statistics.median(spent)


def _placement(vector_no: int) -> Placement:
    at = Position(STREAM, 1)
    return Placement(1, at, Hlc(1, 0), 1_500, 2**52, False, False, "reader", None, (), SPACE, vector_no)


def _diff(n: int) -> Diff:
    return Diff(
        n,
        Position(STREAM, n + 2),
        Hlc(2, n),
        TENANT,
        AgentId(bytes(16)),
        "author",
        "default",
        None,
        "Fact",
        0,
        5_000,
        0,
        CellId(bytes(16)),
        n,
        DiffId(bytes(16)),
        SPACE,
    )
