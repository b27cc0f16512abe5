"""STUB to unblock others; replaced by its owner."""

from __future__ import annotations

import threading
from pathlib import Path

import faiss
import numpy as np

from node.vector_index import Floats, Ids, IndexKey

faiss.omp_set_num_threads(1)


class FaissIndexes:
    def __init__(self) -> None:
        self._of: dict[IndexKey, faiss.IndexIDMap2] = {}
        self._lock = threading.Lock()

    def add(self, key: IndexKey, ids: Ids, vectors: Floats) -> None:
        with self._lock:
            index = self._of.get(key)
            if index is None:
                index = self._of[key] = faiss.IndexIDMap2(faiss.IndexFlatIP(vectors.shape[1]))
            index.add_with_ids(vectors, ids)

    def remove(self, key: IndexKey, ids: Ids) -> None:
        with self._lock:
            if key in self._of:
                self._of[key].remove_ids(ids)

    def search(self, key: IndexKey, vector: Floats, k: int, allowed: Ids | None = None) -> tuple[Ids, Floats]:
        with self._lock:
            index = self._of.get(key)
            if index is None:
                return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.float32)
            params = None
            if allowed is not None:
                params = faiss.SearchParameters(sel=faiss.IDSelectorBatch(allowed))
            d, i = index.search(vector.reshape(1, -1), k, params=params)
        keep = i[0] >= 0
        return i[0][keep], d[0][keep]

    def cosines(self, key: IndexKey, vector: Floats, ids: Ids) -> Floats:
        out = np.zeros(len(ids), dtype=np.float32)
        with self._lock:
            index = self._of.get(key)
            for n, one in enumerate(ids):
                try:
                    out[n] = float(index.reconstruct(int(one)) @ vector)
                except (RuntimeError, AttributeError):
                    out[n] = 0.0
        return out

    def ntotal(self, key: IndexKey) -> int:
        index = self._of.get(key)
        return 0 if index is None else index.ntotal

    def clear(self) -> None:
        self._of.clear()

    def save(self, path: Path, stamp: bytes) -> None: ...

    def load(self, path: Path, dimensions: int) -> bytes | None:
        return None
