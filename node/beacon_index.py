"""All beacons in memory, as matrices: which beacons could a new cell match, and which cells a new beacon.

One matrix per (tenant, embedding space); the exact decision on each candidate is `matching.judge`.  Owned by
the writer thread; rebuilt from the database at start and after a rollback.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from node.matching import INTEREST_IN_ALL, Beacon
from proto.ids import AgentId, BeaconId, TenantId
from proto.payloads import Vector
from proto.scoring import matches

Floats = npt.NDArray[np.float32]


def unpack_vector(vector: Vector) -> Floats:
    """Return the int8 values as float32[dim], exact."""
    return np.frombuffer(vector.values, dtype=np.int8).astype(np.float32)


class _Matrix:
    """Rows of one tenant and space; grows by doubling."""

    def __init__(self, dimensions: int) -> None:
        self.rows = np.zeros((16, dimensions), dtype=np.float32)
        self.norms = np.ones(16, dtype=np.int64)
        self.thresholds = np.zeros(16, dtype=np.int32)
        self.beacons: list[Beacon] = []

    def add(self, beacon: Beacon, values: Floats, norm: int) -> int:
        row = len(self.beacons)
        if row == len(self.rows):
            self.rows = np.concatenate([self.rows, np.zeros_like(self.rows)])
            self.norms = np.concatenate([self.norms, np.ones_like(self.norms)])
            self.thresholds = np.concatenate([self.thresholds, np.zeros_like(self.thresholds)])
        self.rows[row], self.norms[row] = values, norm
        self.beacons.append(beacon)
        return row


class BeaconIndex:
    """Beacons by id, by agent, and by what they could match."""

    def __init__(self) -> None:
        self._by_id: dict[BeaconId, Beacon] = {}
        self._by_agent: dict[AgentId, list[Beacon]] = {}
        self._matrices: dict[tuple[TenantId, str], _Matrix] = {}
        self._row: dict[BeaconId, tuple[_Matrix, int]] = {}
        self._all: dict[TenantId, list[Beacon]] = {}  # interest "*"

    def get(self, beacon: BeaconId) -> Beacon | None:
        return self._by_id.get(beacon)

    def of_agent(self, agent: AgentId) -> Sequence[Beacon]:
        return self._by_agent.get(agent, ())

    def all(self) -> Iterator[Beacon]:
        yield from self._by_id.values()

    def __len__(self) -> int:
        return len(self._by_id)

    def add(self, beacon: Beacon, vector: Vector | None) -> None:
        """Add a beacon that is not there yet; it has at least one placement."""
        self._by_id[beacon.beacon] = beacon
        self._by_agent.setdefault(beacon.agent_id, []).append(beacon)
        if beacon.interest == INTEREST_IN_ALL or vector is None:
            self._all.setdefault(beacon.tenant, []).append(beacon)
            return
        values = unpack_vector(vector)
        matrix = self._matrices.setdefault((beacon.tenant, vector.space), _Matrix(len(values)))
        if len(values) != matrix.rows.shape[1]:
            return  # another dimension under the same name of a space: it can match nothing
        self._row[beacon.beacon] = matrix, matrix.add(beacon, values, vector.norm)
        self.refresh(beacon)

    def refresh(self, beacon: Beacon) -> None:
        """Take a changed threshold over."""
        found = self._row.get(beacon.beacon)
        if found is not None:
            matrix, row = found
            matrix.thresholds[row] = beacon.lowest_threshold()

    def unfiltered(self, tenant: TenantId) -> Sequence[Beacon]:
        """Return the beacons that look at every diff of a tenant."""
        return self._all.get(tenant, ())

    def candidates(
        self,
        tenant: TenantId,
        space: str,
        values: Floats,
        norms: npt.NDArray[np.int64],
        bonus: npt.NDArray[np.int32],
    ) -> Iterator[tuple[int, Beacon, int]]:
        """Yield (row of `values`, beacon, score) wherever the score could reach a threshold.

        Args:
            values: float32[m, dim] of int8 values; norms: int64[m]; bonus: int32[m], ten-thousandths.
        """
        matrix = self._matrices.get((tenant, space))
        if matrix is None or not matrix.beacons or values.shape[1] != matrix.rows.shape[1]:
            return
        n = len(matrix.beacons)
        rows, columns, scores = matches(
            values, norms, matrix.rows[:n], matrix.norms[:n], matrix.thresholds[:n], np.maximum(bonus, 0)
        )
        for i, j, score in zip(rows.tolist(), columns.tolist(), scores.tolist(), strict=True):
            yield i, matrix.beacons[j], score

    def vector_of(self, beacon: BeaconId) -> tuple[Floats, int, str] | None:
        """Return (values, norm, space) of a beacon's interest, or None for "*"."""
        found = self._row.get(beacon)
        if found is None:
            return None
        matrix, row = found
        space = next(key[1] for key, value in self._matrices.items() if value is matrix)
        return matrix.rows[row], int(matrix.norms[row]), space
