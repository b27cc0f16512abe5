"""A disk that is full, in two ways: a small file system of its own, and a limit on the size of files.

The second needs no privilege and makes every write fail for real; the first is what a full disk is.
"""

from __future__ import annotations

import contextlib
import os
import resource
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import psutil

from tests.support.places import short_directory

SIZE_MB = 96


class SmallDisk(Protocol):
    """A directory on a disk that can be filled while a process works on it."""

    root: Path

    def fill(self, pid: int) -> None:
        """Let nothing more be written by a process."""
        ...

    def free(self, pid: int) -> None:
        """Let it write again."""
        ...


class FileSystem:
    """A tmpfs of 96 MB, filled by a file.

    Args:
        leave_bytes: what stays free when it is filled.
    """

    def __init__(self, root: Path, leave_bytes: int = 0) -> None:
        self.root, self._leave_bytes = root, leave_bytes

    def fill(self, pid: int) -> None:
        del pid
        room = os.statvfs(self.root).f_bavail * os.statvfs(self.root).f_frsize - self._leave_bytes
        with (self.root / "ballast").open("wb") as file, contextlib.suppress(OSError):
            while room > 0:
                room -= file.write(bytes(min(room, 1 << 20)))
                file.flush()

    def free(self, pid: int) -> None:
        del pid
        (self.root / "ballast").unlink()


class Quota:
    """No write of the process goes through, at whatever place of whatever file (`RLIMIT_FSIZE`)."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def fill(self, pid: int) -> None:
        psutil.Process(pid).rlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))

    def free(self, pid: int) -> None:
        psutil.Process(pid).rlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


def can_mount() -> bool:
    """Tell whether a file system can be mounted here, by doing it."""
    with short_directory() as path:
        return mounted(path) and unmounted(path)


@contextlib.contextmanager
def file_system(leave_bytes: int = 0) -> Iterator[FileSystem]:
    """Yield a small file system, mounted for the block."""
    with short_directory() as path:
        assert mounted(path)
        try:
            yield FileSystem(path, leave_bytes)
        finally:
            assert unmounted(path)


@contextlib.contextmanager
def quota() -> Iterator[Quota]:
    """Yield a directory whose writers can be stopped one by one."""
    with short_directory() as path:
        yield Quota(path)


def remount(path: Path, how: str) -> None:
    """Make a mounted file system read-only ("ro") or writable ("rw")."""
    subprocess.run(["mount", "-o", f"remount,{how}", str(path)], check=True, timeout=20)


def mounted(path: Path, size_mb: int = SIZE_MB) -> bool:
    """Mount a small file system at a directory; return whether that was possible."""
    return _run("mount", "-t", "tmpfs", "-o", f"size={size_mb}m,mode=700", "hyphae-test", str(path))


def unmounted(path: Path) -> bool:
    """Unmount it; return whether that was possible."""
    return _run("umount", str(path)) or _run("umount", "--lazy", str(path))


def _run(*command: str) -> bool:
    try:
        return subprocess.run(command, capture_output=True, check=False, timeout=20).returncode == 0
    except OSError:
        return False
