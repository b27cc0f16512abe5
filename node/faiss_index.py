"""Vectors in FAISS, searched exactly.  The only importer of faiss.

One OpenMP thread (`node/__init__.py`): two pools fight over two cores.
A lock per index, because FAISS does not allow a search beside an addition; FAISS releases the interpreter
meanwhile.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import structlog

from node.private_files import make_directory
from node.vector_index import Floats, Ids, IndexKey
from proto.codec import decode, encode
from proto.errors import HyphaeError
from proto.ids import TenantId

_log = structlog.get_logger(__name__)

MAGIC = b"HYVX0001"
_SUM_BYTES = 32
HEADER_BYTES_MAX = 1024 * 1024

if faiss.omp_get_max_threads() != 1:  # `node` sets OMP_NUM_THREADS, unless faiss was loaded before it
    faiss.omp_set_num_threads(1)


class _Index:
    def __init__(self, index: Any) -> None:
        self.index = index
        self.lock = threading.Lock()


class FaissIndexes:
    """See `node.vector_index.VectorIndexes`."""

    def __init__(self) -> None:
        self._of: dict[IndexKey, _Index] = {}

    def add(self, key: IndexKey, ids: Ids, vectors: Floats) -> None:
        held = self._of.get(key)
        if held is None:
            held = self._of.setdefault(key, _Index(faiss.IndexIDMap2(faiss.IndexFlatIP(vectors.shape[1]))))
        with held.lock:
            held.index.add_with_ids(np.ascontiguousarray(vectors, dtype=np.float32), ids)

    def remove(self, key: IndexKey, ids: Ids) -> None:
        held = self._of.get(key)
        if held is not None and len(ids):
            with held.lock:
                held.index.remove_ids(ids)

    def search(self, key: IndexKey, vector: Floats, k: int, allowed: Ids | None = None) -> tuple[Ids, Floats]:
        held = self._of.get(key)
        if held is None or k < 1 or (allowed is not None and len(allowed) == 0):
            return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.float32)
        parameters = None
        if allowed is not None:
            bits = np.zeros(int(allowed.max()) + 1, dtype=np.bool_)
            bits[allowed] = True
            packed = np.packbits(bits, bitorder="little")
            selector = faiss.IDSelectorBitmap(len(packed), faiss.swig_ptr(packed))  # its size in bytes
            parameters = faiss.SearchParameters(sel=selector)  # type: ignore[call-arg]
        with held.lock:
            k = min(k, held.index.ntotal)
            if k == 0:
                return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.float32)
            cosines, ids = held.index.search(vector.reshape(1, -1), k, params=parameters)
        found = ids[0] >= 0
        return ids[0][found], cosines[0][found]

    def cosines(self, key: IndexKey, vector: Floats, ids: Ids) -> Floats:
        held = self._of.get(key)
        out = np.zeros(len(ids), dtype=np.float32)
        if held is None or len(ids) == 0:
            return out
        with held.lock:
            try:
                return np.asarray(held.index.reconstruct_batch(ids) @ vector, dtype=np.float32)
            except RuntimeError:  # one of them is not in the index: a cell of another embedding space
                for n, one in enumerate(ids.tolist()):
                    out[n] = _cosine(held.index, one, vector)
        return out

    def ntotal(self, key: IndexKey) -> int:
        held = self._of.get(key)
        return 0 if held is None else int(held.index.ntotal)

    def total(self) -> int:
        """Return the vectors of all indexes."""
        return sum(int(held.index.ntotal) for held in list(self._of.values()))

    def clear(self) -> None:
        self._of = {}

    # -- snapshots

    def save(self, path: Path, stamp: bytes) -> None:
        make_directory(path.parent)
        temporary = path.with_suffix(".new")
        checksum = hashlib.sha256()
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(MAGIC + bytes(_SUM_BYTES))
            for part in self._parts(stamp):
                checksum.update(part)
                file.write(part)
            file.seek(len(MAGIC))
            file.write(checksum.digest())
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        directory = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)

    def _parts(self, stamp: bytes) -> Iterator[bytes | memoryview]:
        blobs: list[tuple[IndexKey, Any]] = []
        for key, held in sorted(self._of.items()):
            with held.lock:
                blobs.append((key, faiss.serialize_index(held.index)))
        header = encode((stamp, tuple((key[0], key[1], len(blob)) for key, blob in blobs)))
        yield len(header).to_bytes(4, "big") + header
        for _, blob in blobs:
            yield memoryview(blob)  # a copy would cost as much memory again

    def load(self, path: Path, dimensions: int) -> bytes | None:
        self._of = {}
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            _log.warning("index_snapshot_unreadable", reason=str(error), rebuilt_from="the log")
            return None
        try:
            stamp, found = _parse(data, dimensions)
        except (ValueError, RuntimeError, HyphaeError) as error:
            _log.warning("index_snapshot_damaged", reason=str(error), rebuilt_from="the log")
            return None
        self._of = found
        return stamp


def _parse(data: bytes, dimensions: int) -> tuple[bytes, dict[IndexKey, _Index]]:
    start = len(MAGIC) + _SUM_BYTES
    if data[: len(MAGIC)] != MAGIC or len(data) < start + 4:
        raise ValueError(f"{len(data)} bytes are no snapshot of this version")
    body = memoryview(data)[start:]
    if hashlib.sha256(body).digest() != data[len(MAGIC) : start]:
        raise ValueError("its checksum does not fit")
    size = int.from_bytes(body[:4], "big")
    stamp, entries = decode(bytes(body[4 : 4 + size]), max_bytes=HEADER_BYTES_MAX)
    out: dict[IndexKey, _Index] = {}
    at = 4 + size
    for tenant, layer, length in entries:
        index = faiss.deserialize_index(np.frombuffer(body[at : at + length], dtype=np.uint8))
        at += length
        if index.d != dimensions:
            raise ValueError(f"it has {index.d} dimensions, the model has {dimensions}")
        out[TenantId(tenant), layer] = _Index(index)
    return stamp, out


def _cosine(index: Any, one: int, vector: Floats) -> float:
    try:
        return float(index.reconstruct(one) @ vector)
    except RuntimeError:
        return 0.0
