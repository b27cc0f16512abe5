"""The raw limits that the product is compared with, measured in the same run on the same texts."""

from __future__ import annotations

import os
import time
from pathlib import Path

import apsw
import faiss
import numpy as np

from node.cpus import available_cpus
from node.onnx_embedder import THREADS
from node.onnx_model import OnnxModel, find_files


class RawLimits:
    """The bare model, one bare durable commit, the bare index.

    Args:
        directory: on the disk that the peers use.
    """

    def __init__(self, directory: Path) -> None:
        self.model = OnnxModel(find_files(None), min(THREADS, available_cpus()))
        self._db = apsw.Connection(str(directory / "raw.db"))
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=FULL")
        self._db.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, payload BLOB)")
        faiss.omp_set_num_threads(1)
        self._index = faiss.IndexFlatIP(self.model.dimensions)

    def store_ms(self, text: str) -> float:
        """Embed one text and commit one row of its size."""
        began = time.perf_counter()
        self.model.run([self.model.tokenise(text).ids])
        self._db.execute("INSERT INTO t(payload) VALUES(?)", (os.urandom(1_200),))
        return (time.perf_counter() - began) * 1000

    def fill_index(self, count: int) -> None:
        rng = np.random.default_rng(0)
        vectors = rng.standard_normal((count, self.model.dimensions)).astype(np.float32)
        faiss.normalize_L2(vectors)
        self._index.add(vectors)

    def recall_ms(self, question: str) -> float:
        """Embed one question and search the exact index for ten."""
        began = time.perf_counter()
        vector = self.model.run([self.model.tokenise(question).ids])
        self._index.search(vector, 10)
        return (time.perf_counter() - began) * 1000

    def texts_per_s(self, texts: list[str], batch: int) -> float:
        """Embed texts sorted by length, in batches."""
        began = time.perf_counter()
        tokens = sorted((self.model.tokenise(t).ids for t in texts), key=len)
        for start in range(0, len(tokens), batch):
            self.model.run(tokens[start : start + batch])
        return len(texts) / (time.perf_counter() - began)
