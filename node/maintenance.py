"""Care of a log that no process has open: verify the chain, fold everything anew."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw

from node import ballast, database
from node.data_directory import PeerDirectory
from node.directory_lock import DirectoryLock
from node.embedders import choose_embedder
from node.identity import load_identity
from node.peer_config import PeerConfig
from node.private_files import remove
from node.replica import Replica
from node.service.observing import verify as verify_streams
from node.sqlite_log import SqliteLog
from node.version import version
from proto.errors import Corrupted, NotFound

Progress = Callable[[int, int], None]
"""Told (done, of how many)."""


def verify(data_dir: Path, progress: Progress) -> dict[str, Any]:
    """Walk the chain of every stream over the stored bytes; see `ObservingOperations.verify_log`.

    A database that cannot be opened at all is a result, too: not ok, with `unreadable` saying why.
    """
    directory = _existing(data_dir)
    with DirectoryLock.acquire(directory.lock, "hyphae log verify"):
        peer = load_identity(directory, "").peer
        try:
            db = database.open_writer(directory.log)
        except Corrupted as error:
            return {"ok": False, "events": 0, "streams": [], "unreadable": error.message}
        try:
            return verify_streams(db, list(SqliteLog(db, peer).heads()), progress)
        except apsw.CorruptError as error:
            unreadable = database.damaged(directory.log, error).message
            return {"ok": False, "events": 0, "streams": [], "unreadable": unreadable}
        finally:
            db.close()


def rebuild(data_dir: Path, progress: Progress) -> dict[str, Any]:
    """Fold the whole log into empty projections and drop the snapshots of derived indexes.

    Raises:
        Corrupted: an event's bytes do not fit its header; the projections are as before.
    """
    directory = _existing(data_dir)
    lock = DirectoryLock.acquire(directory.lock, "hyphae node rebuild")
    with lock, ballast.released(directory.ballast):
        identity = load_identity(directory, "")
        if identity.mesh is None:
            raise NotFound(f"{data_dir} belongs to no mesh yet; there is nothing to rebuild.")
        space = choose_embedder(PeerConfig(data_dir, embedder="none")).space
        db = database.open_writer(directory.log)
        try:
            replica = Replica(db, identity.peer, identity.mesh, space, secrets.token_bytes, version())
            total = replica.log.last_local
            began = time.monotonic()
            done = replica.rebuild(lambda n: progress(n, total))
            seconds = time.monotonic() - began
            remove(directory.index / "vectors.snapshot")
            return {
                "events": done,
                "seconds": round(seconds, 3),
                "events_per_s": round(done / seconds) if seconds else done,
                "state_hash": replica.state_hash().hex(),
            }
        finally:
            db.close()


def _existing(data_dir: Path) -> PeerDirectory:
    directory = PeerDirectory(data_dir)
    if not directory.log.exists():
        raise NotFound(f"{data_dir} holds no log.")
    return directory
