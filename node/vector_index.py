"""Port: vectors by number, nearest first, one index per tenant and layer."""

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
    """Exact search by cosine.  Safe to search from several threads while one adds and removes."""

    def add(self, key: IndexKey, ids: Ids, vectors: Floats) -> None: ...

    def remove(self, key: IndexKey, ids: Ids) -> None: ...

    def search(self, key: IndexKey, vector: Floats, k: int, allowed: Ids | None = None) -> tuple[Ids, Floats]: ...

    def cosines(self, key: IndexKey, vector: Floats, ids: Ids) -> Floats: ...

    def ntotal(self, key: IndexKey) -> int: ...

    def clear(self) -> None: ...

    def save(self, path: Path, stamp: bytes) -> None: ...

    def load(self, path: Path, dimensions: int) -> bytes | None: ...
