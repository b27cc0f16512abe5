"""Inside a peer under test: it ends itself with SIGKILL at a named instant, and its clock is off, as files tell it.

Runs in the peer's process only, put in place by `hash_peer`; the product knows nothing of it.  The injector's side
of the files is `Control`.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from time import time_ns
from typing import Any, Final

from mesh import wall_clock
from node import peer, peer_core
from node.faiss_index import FaissIndexes
from node.heads_file import HeadsFile
from node.peer_core import PeerCore
from node.replica import Replica
from node.sqlite_log import SqliteLog
from node.writer import Writer

CONTROL_VARIABLE: Final = "CHAOS_CONTROL"
COMMIT_INSTANTS: Final = ("before_fsync", "after_fsync", "after_heads", "after_publish")
SNAPSHOT_INSTANTS: Final = ("before_snapshot", "in_snapshot", "before_rename", "after_rename")


class Control:
    """The files of one peer: `kill` names an instant, `died` the one it was killed at, `clock` how many ms it is off.

    Args:
        directory: created when the injector first writes.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def arm(self, instant: str) -> None:
        """Have the peer kill itself when it next comes to the instant."""
        self._write("died", "")
        self._write("kill", instant)

    def disarm(self) -> str:
        """Return at which instant it died, empty for none; it dies no more."""
        self._write("kill", "")
        return self._read("died")

    def set_clock(self, off_ms: int) -> None:
        self._write("clock", str(off_ms))

    def off_ms(self) -> int:
        return int(self._read("clock") or 0)

    def aims_at(self) -> str:
        """Return the instant that is armed, or nothing."""
        return self._read("kill")

    def reached(self, instant: str) -> None:
        """Die, if this is the instant; the note of it is written before, and outlives the process."""
        if self.aims_at() == instant:
            self._write("kill", "")
            self._write("died", instant)
            os.kill(os.getpid(), signal.SIGKILL)
            threading.Event().wait()  # nothing more happens on this thread

    def _write(self, name: str, text: str) -> None:
        self._directory.mkdir(exist_ok=True)
        new = self._directory / f"{name}.new"
        new.write_text(text)
        os.replace(new, self._directory / name)  # not `Path.replace`, which is watched

    def _read(self, name: str) -> str:
        try:
            return (self._directory / name).read_text()
        except FileNotFoundError:
            return ""


def install(control: Control) -> None:
    """Put the control in the way of the clock, of commits that hold own events, and of snapshots."""
    _replace(wall_clock, "time_ns", lambda: time_ns() + control.off_ms() * 1_000_000)
    _aim_at_commits(control)
    _aim_at_snapshots(control)


def _aim_at_commits(control: Control) -> None:
    own = threading.local()  # the batch under way holds own events: somebody waits for its acknowledgement

    def reached(instant: str) -> None:
        if getattr(own, "here", False):
            control.reached(instant)

    write, answer = Replica.write, Writer._answer

    def writing(self: Replica, drafts: Any, segments: Any, now_us: int) -> Any:
        own.here = bool(drafts)
        written = write(self, drafts, segments, now_us)
        reached("after_fsync")
        return written

    def answering(self: Writer, batch: Any, written: Any) -> None:
        reached("after_publish")
        own.here = False
        answer(self, batch, written)

    _replace(Replica, "write", writing)
    _replace(Writer, "_answer", answering)
    _then(SqliteLog, "write_heads", lambda: reached("before_fsync"))
    _then(HeadsFile, "record", lambda: reached("after_heads"))


def _aim_at_snapshots(control: Control) -> None:
    peer.HOUSEKEEPING_S, usual = 1.0, peer_core.SNAPSHOT_AFTER_CELLS
    housekeeping = PeerCore.housekeeping
    save, parts, replace = FaissIndexes.save, FaissIndexes._parts, Path.replace

    def saving(self: FaissIndexes, path: Path, stamp: bytes) -> None:
        control.reached("before_snapshot")
        save(self, path, stamp)

    def writing(self: FaissIndexes, stamp: bytes) -> Iterator[bytes | memoryview]:
        for part in parts(self, stamp):
            yield part
            control.reached("in_snapshot")

    def renaming(self: Path, target: Path) -> Path:
        if not self.name.startswith("vectors"):
            return replace(self, target)
        control.reached("before_rename")
        renamed = replace(self, target)
        control.reached("after_rename")
        return renamed

    async def keeping_house(self: PeerCore) -> None:
        """Save whatever there is, once somebody aims at it."""
        peer_core.SNAPSHOT_AFTER_CELLS = 1 if control.aims_at() in SNAPSHOT_INSTANTS else usual
        await housekeeping(self)

    _replace(PeerCore, "housekeeping", keeping_house)
    _replace(FaissIndexes, "save", saving)
    _replace(FaissIndexes, "_parts", writing)
    _replace(Path, "replace", renaming)


def _then(owner: type, name: str, next_step: Callable[[], None]) -> None:
    """Have a method followed by a step."""
    usual = getattr(owner, name)

    def both(*arguments: Any) -> Any:
        result = usual(*arguments)
        next_step()
        return result

    _replace(owner, name, both)


def _replace(owner: object, name: str, function: Callable[..., Any]) -> None:
    setattr(owner, name, function)
