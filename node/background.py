"""The local peer that editors start in the background: exactly one, however many start together.

Whoever holds `start.lock` may start it; the others wait and then find it running.  The lock on the peer's
own directory is the last word, so even two starters that do not see each other end up with one peer.
The peer is detached, keeps its own log, and ends by itself after idle minutes or by `hyphae down`.
Light to import: the stdio gateway uses it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from node.child_process import PeerProcess
from node.data_directory import MeshDirectory, PeerDirectory, RunFile, peers_of
from node.directory_checks import check_usable
from node.directory_lock import DirectoryLock, Holder, boot_id, holder_of
from node.private_files import make_directory, read_record, write_record
from proto.errors import Conflict, HyphaeError, Unavailable

START_DEADLINE_S = 45.0  # a cold start with the model on two busy cores, with room
STOP_DEADLINE_S = 12.0  # a peer stops within 10 s
POLL_S = 0.03


def local_peer(path: Path) -> PeerDirectory:
    """Return the peer that a gateway of this data directory talks to: the first, or the directory itself."""
    peers = peers_of(path)
    return peers[0] if peers else MeshDirectory(path).peer(1)


def local_secrets(path: Path) -> Path:
    """Return the directory of the bootstrap keys of that peer."""
    peer = local_peer(path)
    return peer.secrets if peer.path == path else MeshDirectory(path).secrets


def first_agent_key(path: Path) -> Path:
    """Return the file with the key of the first agent; there once a peer has been started."""
    return local_secrets(path) / MeshDirectory(path).agent_key.name


def find_local_peer(path: Path) -> RunFile | None:
    """Return a running peer of the data directory, the first one first, or None."""
    return next((run for run in (p.running() for p in peers_of(path)) if run is not None), None)


def ensure_local_peer(path: Path, deadline_s: float = START_DEADLINE_S) -> RunFile:
    """Return the running local peer, started in the background when none is up.

    Blocks; safe to call from many processes at once.

    Args:
        path: data directory of `up` or of one peer; created when absent.
        deadline_s: seconds to wait for readiness.

    Raises:
        HyphaeError: the directory is not usable, or the peer did not get ready: the message says why.
    """
    found = find_local_peer(path)
    if found is not None:
        return found
    until = time.monotonic() + deadline_s
    check_usable(path)
    make_directory(path)
    with start_turn(path, deadline_s):
        return find_local_peer(path) or _start(path, until)


def stop_background_peer(path: Path) -> bool:
    """Stop the background peer of this data directory if one runs, and wait for it.

    Returns:
        Whether there was one.

    Raises:
        Unavailable: it did not end within `STOP_DEADLINE_S`.
    """
    peer = local_peer(path)
    holder = peer.holder()
    if holder is None or not _is_background(path, holder):
        return False
    stop_holder(peer.lock, holder)
    return True


def stop_holder(lock: Path, holder: Holder) -> None:
    """Ask the process that holds a lock file to stop, and wait until the lock is free.

    Raises:
        Unavailable: it did not end within `STOP_DEADLINE_S`, or this user may not stop it.
    """
    if holder.pid <= 0:  # to the system 0 and less mean whole groups of processes
        raise Unavailable(f"whoever holds {lock.parent} has not said so yet. Try again.")
    try:
        os.kill(holder.pid, signal.SIGTERM)
    except ProcessLookupError:
        pass
    except PermissionError as e:
        raise Unavailable(f"process {holder.pid} ({holder.role}) belongs to another user.") from e
    until = time.monotonic() + STOP_DEADLINE_S
    if not _wait(lambda: (h := holder_of(lock)) is None or h.pid != holder.pid, until):
        raise Unavailable(
            f"process {holder.pid} ({holder.role}) did not stop within {STOP_DEADLINE_S:.0f} s. "
            f"End it with `kill -9 {holder.pid}`; nothing acknowledged is lost."
        )


@contextlib.contextmanager
def start_turn(path: Path, deadline_s: float) -> Iterator[None]:
    """Hold `start.lock` of an existing data directory: nobody else starts a background peer meanwhile.

    Raises:
        Unavailable: somebody else held it for all of `deadline_s`.
    """
    try:
        lock = DirectoryLock.acquire(MeshDirectory(path).start_lock, "starting the local peer", deadline_s)
    except Conflict:
        raise Unavailable(
            f"another process is still starting the peer of {path}. Try again in a few seconds.",
            retry_after_ms=3000,
        ) from None
    with lock:
        yield


def _start(path: Path, until: float) -> RunFile:
    """Start the peer and wait; with `start.lock` held."""
    mesh, peer = MeshDirectory(path), local_peer(path)
    _wait(lambda: find_local_peer(path) is not None or not _somebody_has(mesh, peer), until)
    found = find_local_peer(path)
    if found is not None or _somebody_has(mesh, peer):
        return found or _await(peer, None, until)
    make_directory(mesh.logs)
    log = mesh.logs / "background.log"
    secrets = str(local_secrets(path))
    arguments = (
        *("node", "--background", "--no-nats", "--http-port", "0"),
        *("--data-dir", str(peer.path), "--secrets-dir", secrets, "--log-file", str(log)),
    )
    child = PeerProcess(
        "the local peer",
        arguments,
        mesh.logs / "background.stderr",
        parent_fd=None,
    )
    child.start()
    record = {"pid": child.pid, "boot_id": boot_id()}
    write_record(mesh.background_file, record)
    try:
        return _await(peer, child, until)
    finally:
        child.close()


def _somebody_has(mesh: MeshDirectory, peer: PeerDirectory) -> bool:
    """Return whether `hyphae up`, or a peer, has this directory: running, on its way up, or on its way out."""
    return mesh.holder() is not None or peer.holder() is not None


def _await(peer: PeerDirectory, child: PeerProcess | None, until: float) -> RunFile:
    run: RunFile | None = None

    def settled() -> bool:
        nonlocal run, child
        run = peer.running()
        ended = child is not None and child.poll() is not None
        if run is None and ended and peer.holder() is not None:
            child = None  # it lost the race for the directory: wait for the one that has it
            return False
        return run is not None or ended

    _wait(settled, until)
    if run is not None:
        return run
    if child is not None and child.poll() is not None:
        raise _as_unavailable(child.failure())
    raise Unavailable(
        f"the local peer in {peer.path} is still starting. Nothing was stored. Try again in a few seconds.",
        retry_after_ms=3000,
    )


def _as_unavailable(error: HyphaeError) -> HyphaeError:
    return Unavailable(f"{error.message} Nothing was stored. `hyphae up` shows more.")


def _is_background(path: Path, holder: Holder) -> bool:
    record = read_record(MeshDirectory(path).background_file) or {}
    return record.get("pid") == holder.pid and record.get("boot_id") == holder.boot_id


def _wait(condition: Callable[[], bool], until: float) -> bool:
    """Return whether the condition came true before `until` (monotonic seconds); looked at least once."""
    while True:
        if condition():
            return True
        if time.monotonic() >= until:
            return False
        time.sleep(POLL_S)
