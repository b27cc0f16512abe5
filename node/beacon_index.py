"""All beacons in memory, as matrices: which beacons could a new cell match, and which cells a new beacon.

One matrix per tenant and space of comparison, one row per vector of a beacon; the exact decision on each
candidate is `matching.judge`.  Owned by the writer thread; rebuilt from the database at start and after a
rollback.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from node.matching import INTEREST_IN_ALL, Beacon
from proto.ids import AgentId, BeaconId, TenantId
from proto.payloads import Vector
from proto.scoring import DIMENSIONS_MAX, matches

Floats = npt.NDArray[np.float32]


def unpack_vector(vector: Vector) -> Floats:
    """Return the int8 values as float32[dim], exact."""
    return np.frombuffer(vector.values, dtype=np.int8).astype(np.float32)


def is_usable(vector: Vector) -> bool:
    """Tell whether a vector is what the scoring rule expects: a direction with its own sum of squares."""
    values = np.frombuffer(vector.values, dtype=np.int8).astype(np.int64)
    return len(values) <= DIMENSIONS_MAX and 0 < vector.norm == int(values @ values)


def space_of(vector: Vector) -> str:
    """Return what must be equal for two vectors to be compared: embedding space and number of dimensions."""
    return f"{vector.space}/{len(vector.values)}"


class _Matrix:
    """Rows of one tenant and space; grows by doubling."""

    def __init__(self, dimensions: int) -> None:
        self.rows = np.zeros((16, dimensions), dtype=np.float32)
        self.norms = np.ones(16, dtype=np.int64)
        self.thresholds = np.zeros(16, dtype=np.int32)
        self.beacons: list[tuple[Beacon, int]] = []  # with the number of the vector

    def add(self, beacon: Beacon, vector_no: int, values: Floats, norm: int) -> int:
        row = len(self.beacons)
        if row == len(self.rows):
            self.rows = np.concatenate([self.rows, np.zeros_like(self.rows)])
            self.norms = np.concatenate([self.norms, np.ones_like(self.norms)])
            self.thresholds = np.concatenate([self.thresholds, np.zeros_like(self.thresholds)])
        self.rows[row], self.norms[row] = values, norm
        self.beacons.append((beacon, vector_no))
        return row


class BeaconIndex:
    """Beacons by id, by agent, and by what they could match."""

    def __init__(self) -> None:
        self._by_id: dict[BeaconId, Beacon] = {}
        self._by_agent: dict[AgentId, list[Beacon]] = {}
        self._matrices: dict[tuple[TenantId, str], _Matrix] = {}
        self._rows: dict[BeaconId, list[tuple[Vector, _Matrix, int]]] = {}  # by number of the vector
        self._all: dict[TenantId, list[Beacon]] = {}  # interest "*"

    def get(self, beacon: BeaconId) -> Beacon | None:
        return self._by_id.get(beacon)

    def of_agent(self, agent: AgentId) -> Sequence[Beacon]:
        return self._by_agent.get(agent, ())

    def all(self) -> Iterator[Beacon]:
        yield from self._by_id.values()

    def __len__(self) -> int:
        return len(self._by_id)

    def add(self, beacon: Beacon, vector: Vector | None) -> int:
        """Add a beacon, or one more vector of it; nothing changes when both are there already.

        Args:
            vector: usable (`is_usable`); None for interest "*".

        Returns:
            The number of the vector, for `Placement.vector_no`.
        """
        if beacon.beacon not in self._by_id:
            self._by_id[beacon.beacon] = beacon
            self._by_agent.setdefault(beacon.agent_id, []).append(beacon)
            if beacon.interest == INTEREST_IN_ALL:
                self._all.setdefault(beacon.tenant, []).append(beacon)
        if vector is None or beacon.interest == INTEREST_IN_ALL:
            return 0
        rows = self._rows.setdefault(beacon.beacon, [])
        for number, (known, _, _) in enumerate(rows):
            if known == vector:
                return number
        values, number = unpack_vector(vector), len(rows)
        key = beacon.tenant, space_of(vector)
        matrix = self._matrices.get(key) or self._matrices.setdefault(key, _Matrix(len(values)))
        rows.append((vector, matrix, matrix.add(beacon, number, values, vector.norm)))
        return number

    def refresh(self, beacon: Beacon) -> None:
        """Take changed thresholds over: call after a placement was added."""
        for number, (_, matrix, row) in enumerate(self._rows.get(beacon.beacon, ())):
            matrix.thresholds[row] = beacon.lowest_threshold(number)

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
    ) -> Iterator[tuple[int, Beacon, int, int]]:
        """Yield (row of `values`, beacon, number of its vector, score) where the score could suffice.

        Args:
            space: as `space_of` gives it.
            values: float32[m, dim] of int8 values; norms: int64[m]; bonus: int32[m], ten-thousandths.
        """
        matrix = self._matrices.get((tenant, space))
        if matrix is None:
            return
        n = len(matrix.beacons)
        rows, columns, scores = matches(
            values, norms, matrix.rows[:n], matrix.norms[:n], matrix.thresholds[:n], np.maximum(bonus, 0)
        )
        for i, j, score in zip(rows.tolist(), columns.tolist(), scores.tolist(), strict=True):
            beacon, number = matrix.beacons[j]
            yield i, beacon, number, score
