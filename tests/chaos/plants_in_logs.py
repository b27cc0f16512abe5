"""Plants in logs and in whole peers: epochs, bytes on disk, deafness, sleep."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from tests.chaos.breaking import age_s, is_one, replace_in

DEAF_AFTER_S: Final = 15.0
SLEEPS_S: Final = (3.0, 105.0)  # after the first store; in between a peer refuses everything


def reuses_its_epoch() -> None:
    from node import replica
    from proto.streams import StreamId

    def wrap(usual: Callable[..., Any]) -> Callable[..., Any]:
        def same(peer: Any, partition: int, _ordinal: int, _random: bytes) -> StreamId:
            return StreamId(peer, partition, 0, bytes(8))

        del usual
        return same

    replace_in(replica, "StreamId", wrap)


def _after_writing(statement: str) -> Callable[[], None]:
    """Spoil, at one peer, one in twenty memories of others after it was committed."""

    def install() -> None:
        from node.replica import Replica

        def wrap(usual: Callable[..., Any]) -> Callable[..., Any]:
            def write(self: Any, *arguments: Any) -> Any:
                written = usual(self, *arguments)
                for logged in written.changes.events:
                    header = logged.event.header
                    foreign = header.peer != self.peer and header.kind == "CellStored"
                    if foreign and logged.local % 20 == 0:
                        self.db.execute(statement, (logged.local,))
                return written

            return write

        if is_one():
            replace_in(Replica, "write", wrap)

    return install


rots = _after_writing("UPDATE events SET payload=zeroblob(length(payload)) WHERE local=?")
loses_one = _after_writing("DELETE FROM events WHERE local=?")
writes_another_header = _after_writing(
    "UPDATE events SET header=CAST(substr(header, 1, length(header)-8) || x'00' || substr(header, -7) AS BLOB)"
    " WHERE local=?"
)


def forgets_at_start() -> None:
    """Each start loses the last events of every stream, wherever they came from."""
    import apsw

    given = sys.argv[sys.argv.index("--data-dir") + 1] if "--data-dir" in sys.argv else ""
    path = Path(given) / "log.db"
    if not path.exists():
        return
    db = apsw.Connection(str(path))
    long: list[Any] = db.execute("SELECT stream_no, head FROM streams WHERE head>20").fetchall()
    for number, head in long:
        kept = head - 10
        db.execute("DELETE FROM events WHERE stream_no=? AND sequence>?", (number, kept))
        db.execute(
            "UPDATE streams SET head=?2, head_hash=(SELECT hash FROM events WHERE stream_no=?1 AND sequence=?2)"
            " WHERE stream_no=?1",
            (number, kept),
        )
    db.close()
    rebuild = [sys.executable, "-m", "node", "node", "rebuild", "--data-dir", given]
    subprocess.run(rebuild, stdout=subprocess.DEVNULL, check=True)


def goes_deaf() -> None:
    from mesh.engine import Engine

    def wrap(usual: Callable[..., Any]) -> Callable[..., Any]:
        def receive(self: Any, *arguments: Any) -> Any:
            return [] if age_s() > DEAF_AFTER_S else usual(self, *arguments)

        return receive

    if is_one():
        for name in ("receive_live", "receive_digest"):
            replace_in(Engine, name, wrap)


def sleeps() -> None:
    from node.service.core import MemoryService
    from proto.errors import Overloaded
    from proto.messages import Reply

    first_store_s: list[float] = []

    def wrap(usual: Callable[..., Any]) -> Callable[..., Any]:
        async def reply(self: Any, request: Any, *more: Any) -> Any:
            if request.method == "store" and not first_store_s:
                first_store_s.append(age_s())
            if first_store_s and SLEEPS_S[0] < age_s() - first_store_s[0] < SLEEPS_S[1]:
                return Reply(error=Overloaded("it sleeps."))
            return await usual(self, request, *more)

        return reply

    replace_in(MemoryService, "_reply", wrap)
