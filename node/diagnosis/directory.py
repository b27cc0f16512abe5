"""The data directory from outside: is it there, whose is it, who may read it, who holds it, is there room."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from node import disk
from node.data_directory import MeshDirectory, PeerDirectory
from node.diagnosis.findings import Finding, problem, warning, well
from node.diagnosis.surroundings import Surroundings
from node.directory_checks import check_usable
from node.directory_lock import holder_of
from node.private_files import read_record
from proto.errors import HyphaeError

SCARCE_BYTES = 4 * disk.LOW_BYTES


def data_directory(s: Surroundings) -> Sequence[Finding]:
    """Look whether the directory can be used, and by nobody else."""
    try:
        check_usable(s.data)
    except HyphaeError as error:
        return [
            problem(
                error.message.replace(" Nothing was changed.", ""), f"chmod u+rwx {s.data}, or --data-dir DIR"
            )
        ]
    if not s.data.exists():
        return [well(f"{s.data} is not there yet; the first start makes it.")]
    try:
        found = [*_rights(s), *_secrets(s)]
    except OSError as error:
        where = error.filename or s.data
        return [problem(f"{where} cannot be looked at: {error.strerror}.", f"chmod -R u+rwX {s.data}")]
    return found or [well(f"{s.data} is this user's alone, with {_count(len(s.peers), 'peer')}.")]


def _rights(s: Surroundings) -> Iterator[Finding]:
    os.listdir(s.data)
    for path in dict.fromkeys((s.data, *(peer.path for peer in s.peers))):
        status = path.stat()
        if status.st_uid != os.geteuid():
            yield problem(f"{path} belongs to user {status.st_uid}.", f"sudo chown -R $(id -u) {path}")
        elif status.st_mode & 0o077:
            yield warning(
                f"{path} can be read by others (mode {status.st_mode & 0o777:o}, 700 is wanted).",
                f"chmod 700 {path}",
            )


def _secrets(s: Surroundings) -> Iterator[Finding]:
    directories = (MeshDirectory(s.data).secrets, *(peer.secrets for peer in s.peers))
    for directory in dict.fromkeys(d for d in directories if d.is_dir()):
        for path in sorted(directory.iterdir()):
            mode = path.stat().st_mode & 0o777
            if path.is_file() and mode & 0o077:
                yield problem(f"{path} can be read by others (mode {mode:o}).", f"chmod 600 {path}")


def room(s: Surroundings) -> Sequence[Finding]:
    """Look at the free space of the disk, against the watermark below which nothing more is stored."""
    path = s.data
    while not path.exists() and path != path.parent:
        path = path.parent
    return [judge_room(path, disk.free_bytes(str(path)))]


def judge_room(path: Path, free: int) -> Finding:
    """Return the verdict on free bytes."""
    shown = f"{free / 1e9:.1f} GB free at {path}"
    wanted = f"below {disk.LOW_BYTES // 2**20} MiB nothing more is stored"
    if free < disk.LOW_BYTES:
        return problem(f"{free // 2**20} MiB free at {path}: {wanted}.", "Free some space on that disk.")
    if free < SCARCE_BYTES:
        return warning(f"{free // 2**20} MiB free at {path}; {wanted}.", "Free some space on that disk.")
    return well(f"{shown}.")


def lock(s: Surroundings) -> Sequence[Finding]:
    """Look who holds the directory, and whether a former holder was killed."""
    locks = (MeshDirectory(s.data).lock, *(peer.lock for peer in s.peers))
    found = [f for path in dict.fromkeys(locks) for f in _judge_lock(s, path)]
    told = [f for f in found if f.verdict != "ok"]
    return told or found[:1] or [well("Nobody holds the directory.")]


def _judge_lock(s: Surroundings, path: Path) -> Iterator[Finding]:
    holder = holder_of(path)
    if holder is not None:
        who = f"{path.parent} is held by process {holder.pid} ({holder.role}, since {holder.started_at})"
        peer = PeerDirectory(path.parent)
        starting = holder.role == "peer" and peer.running() is None
        if starting:
            yield warning(f"{who}, which is not ready: it is starting, or hangs.", s.command("hyphae down"))
        else:
            yield well(f"{who}.")
        return
    left = read_record(path)
    if left is not None:
        yield well(
            f"{path.parent} is free; process {left.get('pid')} ({left.get('role')}) was killed, and the next "
            "start takes over."
        )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
