"""Port: vectors by number, nearest first, one index per tenant and layer.

Vectors have length 1, so the inner product is the cosine.  Search is exact: k results whenever k pass the
filter.  Safe to search from several threads while one adds and removes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from proto.ids import TenantId

Ids = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]
IndexKey = tuple[TenantId, int]


class VectorIndexes(Protocol):
    """All indexes of a peer.  Everything in them can be built again from the log."""

    def add(self, key: IndexKey, ids: Ids, vectors: Floats) -> None:
        """Add vectors float32[n, dim] under ids int64[n] that are not in the index."""
        ...

    def remove(self, key: IndexKey, ids: Ids) -> None:
        """Take ids out; unknown ones are ignored."""
        ...

    def search(self, key: IndexKey, vector: Floats, k: int, allowed: Ids | None = None) -> tuple[Ids, Floats]:
        """Return (ids int64[m], cosines float32[m]), m <= k, highest first.

        Args:
            vector: float32[dim].
            allowed: int64[], only these ids; None for all.
        """
        ...

    def cosines(self, key: IndexKey, vector: Floats, ids: Ids) -> Floats:
        """Return the cosine of each id, float32[n]; 0 for one that is not in the index."""
        ...

    def ntotal(self, key: IndexKey) -> int:
        """Return how many vectors an index holds."""
        ...

    def clear(self) -> None:
        """Drop everything."""
        ...

    def save(self, path: Path, stamp: bytes) -> None:
        """Write a checksummed snapshot, whole or not at all.

        Args:
            stamp: of the caller: what the snapshot covers.
        """
        ...

    def load(self, path: Path, dimensions: int) -> bytes | None:
        """Take a snapshot over and return its stamp; on any doubt stay empty and return None."""
        ...
