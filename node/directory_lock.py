"""One process owns a directory: an OS lock on a file that also says who holds it.

The lock is `flock`, which the kernel drops with the process, so a lock left by a dead process is simply
free; the record beside it (pid, boot id) only serves the message and `hyphae down`.
Light to import: the stdio gateway uses it.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import time
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any

from proto.errors import Conflict, Unavailable

PATIENCE_S = 0.4  # `holder_of` takes a shared lock for an instant; a start must not fail on that
_BOOT_ID_FILE = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds a directory: process id, the boot that the id belongs to, role, since when (RFC 3339)."""

    pid: int
    boot_id: str
    role: str
    started_at: str


def boot_id() -> str:
    """Return a text that differs between boots of the machine, as far as the system tells."""
    try:
        return _BOOT_ID_FILE.read_text(encoding="ascii").strip()
    except OSError:
        from node.processes import boot_time_s

        return str(boot_time_s())


def now_text() -> str:
    """Return the present time, RFC 3339 UTC to the second."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class DirectoryLock:
    """A held lock.  Made by `acquire`; ends with `release`, the `with` block or the process.

    Args:
        stale: the record of a former holder that ended without releasing, for the log; usually None.
    """

    def __init__(self, handle: int, path: Path, stale: Holder | None) -> None:
        self._handle = handle
        self._path = path
        self.stale = stale

    @classmethod
    def acquire(cls, path: Path, role: str, patience_s: float = PATIENCE_S) -> DirectoryLock:
        """Take the lock file `path` for this process.

        Args:
            path: the lock file, created with mode 0600 when absent; its directory must exist.
            role: what this process is, for the message of the next who tries, such as "hyphae up".
            patience_s: seconds to wait while another process holds it.

        Raises:
            Conflict: another process holds it; the message names its pid.  Nothing changed.
            Unavailable: the file cannot be opened.  Nothing changed.
        """
        handle = _open(path)
        try:
            _lock_patiently(handle, patience_s)
        except OSError as e:
            holder = _read_holder(handle)
            os.close(handle)
            if e.errno not in {errno.EWOULDBLOCK, errno.EACCES}:
                raise Unavailable(f"{path} cannot be locked: {e.strerror}.") from e
            raise Conflict(in_use(path.parent, holder)) from None
        stale = _read_holder(handle)
        record = json.dumps(asdict(Holder(os.getpid(), boot_id(), role, now_text()))).encode()
        os.ftruncate(handle, 0)
        os.pwrite(handle, record, 0)
        return cls(handle, path, stale)

    def release(self) -> None:
        """Give the lock back.  A second call does nothing."""
        if self._handle >= 0:
            os.ftruncate(self._handle, 0)
            os.close(self._handle)
            self._handle = -1

    def __enter__(self) -> DirectoryLock:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def holder_of(path: Path) -> Holder | None:
    """Return who holds the lock file now, or None when it is free or absent.

    A holder that has not written its record yet is given as pid 0.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return _read_holder(handle) or Holder(0, "", "a process", "")
    finally:
        os.close(handle)
    return None


def _open(path: Path) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as e:
        raise Unavailable(f"{path} cannot be opened: {e.strerror}. Nothing was changed.") from e


def _lock_patiently(handle: int, patience_s: float) -> None:
    until = time.monotonic() + patience_s
    while True:
        try:
            return fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= until:
                raise
            time.sleep(0.01)


def _read_holder(handle: int) -> Holder | None:
    try:
        record: Any = json.loads(os.pread(handle, 4096, 0))
        return Holder(
            int(record["pid"]), str(record["boot_id"]), str(record["role"]), str(record["started_at"])
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def in_use(directory: Path, holder: Holder | None) -> str:
    """Return the sentence that a directory is held, by whom, and what to do."""
    who = (
        "another process"
        if holder is None
        else f"process {holder.pid} ({holder.role}, since {holder.started_at})"
    )
    above = directory.parent  # a peer of `hyphae up` would be started again: all of it has to be stopped
    stop = above if holder_of(above / "lock") is not None else directory
    return (
        f"{directory} is in use by {who}. Nothing was changed. "
        f"Stop it with `hyphae down --data-dir {stop}`, or use another directory."
    )
