"""What a bad disk does to the files of a peer that does not run: cut, flipped, overwritten.

Each kind returns what it did, in words, or nothing where there was nothing to damage.  It knows file names, and of
their inside only that texts of memories begin with their key in brackets.
"""

from __future__ import annotations

import os
import random
import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

PAGE: Final = 4_096
SLOT: Final = 512
_TEXT: Final = re.compile(rb"\[[a-z]+-[0-9]+\] [a-z ]+;")

Damage = Callable[[Path, random.Random], str]


def log_flipped(directory: Path, rng: random.Random) -> str:
    """One bit of one memory: wherever the file holds it, for SQLite leaves copies behind where it splits pages."""
    path = directory / "log.db"
    data = path.read_bytes()
    found = sorted(set(_TEXT.findall(data)))
    if not found:
        return ""
    text = rng.choice(found)
    at = rng.randrange(len(text))
    path.write_bytes(
        data.replace(text, text[:at] + bytes([text[at] ^ 1 << rng.randrange(8)]) + text[at + 1 :])
    )
    return f"flipped a bit of {text.decode()!r} in log.db"


def log_overwritten(directory: Path, rng: random.Random) -> str:
    """Eight pages of garbage, anywhere behind the first."""
    path = directory / "log.db"
    pages = path.stat().st_size // PAGE
    first = rng.randrange(1, max(2, pages - 8))
    with path.open("r+b") as file:
        file.seek(first * PAGE)
        file.write(rng.randbytes(8 * PAGE))
    return f"overwrote 8 of {pages} pages of log.db from page {first + 1}"


def log_torn(directory: Path, rng: random.Random) -> str:
    return _cut(directory / "log.db", rng, 0.3)


def wal_torn(directory: Path, rng: random.Random) -> str:
    return _cut(directory / "log.db-wal", rng, rng.choice((0.0, 0.0, 0.95)))


def wal_flipped(directory: Path, rng: random.Random) -> str:
    return _flip(directory / "log.db-wal", rng)


def heads_slot_torn(directory: Path, rng: random.Random) -> str:
    """One slot of the two: as a write that a power cut stopped half-way."""
    return _overwrite(directory / "heads", rng, rng.choice((0, SLOT)) + SLOT // 8, SLOT // 4)


def heads_lost(directory: Path, rng: random.Random) -> str:
    """Both slots."""
    return _overwrite(directory / "heads", rng, 0, 2 * SLOT)


def heads_cut(directory: Path, rng: random.Random) -> str:
    return _cut(directory / "heads", rng, 0.0)


def index_torn(directory: Path, rng: random.Random) -> str:
    return _cut(directory / "index" / "vectors.snapshot", rng, 0.0)


def index_flipped(directory: Path, rng: random.Random) -> str:
    return _flip(directory / "index" / "vectors.snapshot", rng)


KINDS: Final[Mapping[str, tuple[Damage, ...]]] = {
    "log": (log_flipped, log_overwritten, log_torn),
    "wal": (wal_torn, wal_flipped),
    "heads": (heads_slot_torn, heads_lost, heads_cut),
    "index": (index_torn, index_flipped),
}


def set_log_aside(directory: Path) -> None:
    """Do what the product asks for where its log is damaged: move it aside, with what belongs to it."""
    aside = directory / "damaged"
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(mode=0o700)
    for name in ("log.db", "log.db-wal", "log.db-shm"):
        if (directory / name).exists():
            shutil.move(directory / name, aside / name)


def empty(directory: Path) -> None:
    """Remove everything below; the directory itself may be the root of a file system."""
    for found in directory.iterdir():
        shutil.rmtree(found) if found.is_dir() and not found.is_symlink() else found.unlink()


def replace_by(directory: Path, copy: Path) -> None:
    """Put a copy in the place of everything below."""
    empty(directory)
    copy_to(copy, directory)


def copy_to(directory: Path, copy: Path) -> None:
    """Copy files and directories with their modes and owners; sockets are left out."""
    shutil.copytree(directory, copy, dirs_exist_ok=True, ignore=_sockets)
    for path in (directory, *directory.rglob("*")):
        there = copy / path.relative_to(directory)
        if there.exists():
            os.chown(there, path.stat().st_uid, path.stat().st_gid)


def _sockets(parent: str, names: list[str]) -> list[str]:
    return [name for name in names if (Path(parent) / name).is_socket()]


def _cut(path: Path, rng: random.Random, keep: float) -> str:
    size = _size(path)
    if size == 0:
        return ""
    left = rng.randrange(int(size * keep), size)
    os.truncate(path, left)
    return f"cut {path.name} from {size} to {left} bytes"


def _flip(path: Path, rng: random.Random) -> str:
    size = _size(path)
    if size == 0:
        return ""
    at, bit = int(size * rng.random() ** 2), 1 << rng.randrange(8)  # the end of a log may be left from before
    with path.open("r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ bit]))
    return f"flipped a bit of {path.name} at {at} of {size}"


def _overwrite(path: Path, rng: random.Random, at: int, count: int) -> str:
    if _size(path) == 0:
        return ""
    with path.open("r+b") as file:
        file.seek(at)
        file.write(rng.randbytes(count))
    return f"overwrote {count} bytes of {path.name} at {at}"


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
