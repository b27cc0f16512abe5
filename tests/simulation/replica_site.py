"""A simulated directory on the product's own core: `node.replica.Replica` over SQLite in memory.

Own events are drafts until `sync`, which is one transaction of the replica, as the writer's group commit is.
What a transaction that returned has written is durable; a crash drops drafts and everything in memory.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import apsw

from mesh.ports import Applied, Head, Segment
from mesh.segments import segment_of
from node import database
from node.lexical_index import LexicalIndex
from node.replica import Draft, Replica, Written
from node.sqlite_log import Logged, read_segment
from proto.errors import HyphaeError
from proto.events import NO_HASH
from proto.ids import NO_TENANT, AgentId, MeshId, PeerId
from proto.payloads import BeaconPlaced, KeyRevoked
from proto.streams import Frontier, StreamId

MESH = MeshId(bytes(range(16)))
SPACE = "simulated"

Done = Callable[[list[Logged | HyphaeError]], None]
"""Told what became of drafts, once they are durable."""


class _NoWords:
    """Words play no part in what the simulation checks, and indexing them costs time."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_args: None


class SimulatedReplica(Replica):
    """The replica, without a lexical index; it counts what was judged again."""

    def retired_peers(self) -> Iterable[PeerId]:
        """Return who has retired, as far as the log says."""
        return self._membership.retired

    def reload(self) -> None:
        if not hasattr(self, "counts"):
            self.counts: Counter[str] = Counter()
        self.lexical = cast(LexicalIndex, _NoWords())
        super().reload()
        judge_again, judge_covered = self._inbox.judge_again, self._beacons._judge_covered

        def counted(cell_nos: Iterable[int]) -> None:
            cells = list(cell_nos)
            self.counts["cells judged again"] += len(cells)
            judge_again(cells)

        def covered(known: Mapping[Frontier, Mapping[StreamId, int]]) -> None:
            self.counts["late links"] += 1
            judge_covered(known)

        place = self._beacons.place

        def placed(logged: Logged, payload: BeaconPlaced) -> None:
            before = self.counts["cells judged again"]
            place(logged, payload)
            self.counts["beacons that came after their cells"] += self.counts["cells judged again"] > before

        self._beacons.place = placed  # type: ignore[method-assign]
        settle = self._membership.settle

        def settled() -> bool:
            taken_back = settle()
            self.counts["taken back"] += taken_back
            return taken_back

        self._membership.settle = settled  # type: ignore[method-assign]
        self._inbox.judge_again = counted  # type: ignore[method-assign]
        self._beacons._judge_covered = covered  # type: ignore[method-assign]


@dataclass(frozen=True, slots=True)
class Backup:
    """The content of a database; None of an empty one."""

    content: bytes | None


class ReplicaSite:
    """See `tests.simulation.site.Site`.

    Args:
        replica_class: a planted bug may put another one here.
        content: of the database; None for an empty one.
        space: embedding space of the peer.
    """

    def __init__(
        self,
        peer: PeerId,
        *,
        replica_class: type[SimulatedReplica] = SimulatedReplica,
        content: bytes | None = None,
        space: str = SPACE,
    ) -> None:
        self.peer, self.space = peer, space
        self.counts: Counter[str] = Counter()
        self.wall_us: Callable[[], int] = lambda: 0  # set by whoever runs the process
        self._replica_class = replica_class
        self._drafts: list[tuple[Sequence[Draft], Done]] = []
        self._outcomes: list[tuple[Done, list[Logged | HyphaeError]]] = []
        self._replica: SimulatedReplica | None = None
        self.db = _open(content)
        self._heads = self._heads_on_disk()

    @property
    def replica(self) -> SimulatedReplica:
        assert self._replica is not None, "the process is not running"
        return self._replica

    # -- life

    def start(self, seed: int) -> None:
        self._drafts = []
        rng = random.Random(seed)
        self._replica = self._replica_class(self.db, self.peer, MESH, self.space, rng.randbytes)
        self._replica.counts = self.counts
        self._heads = self._replica.log.heads()

    def crash(self) -> None:
        self._replica, self._drafts = None, []

    # -- the log

    def heads(self) -> dict[StreamId, Head]:
        return self._heads

    def read(self, stream: StreamId, first: int, max_bytes: int) -> Segment | None:
        number = database.value(
            self.db,
            "SELECT stream_no FROM streams WHERE peer=? AND partition=? AND ordinal=? AND random=?",
            *stream,
        )
        return None if number is None else read_segment(self.db, number, stream, first, max_bytes)

    def apply(self, segments: Sequence[Segment]) -> Applied:
        written = self.replica.write((), segments, self.wall_us())
        self._heads = self.replica.log.heads()
        concerned = {s.stream for s in segments} & self._heads.keys()
        return Applied({s: self._heads[s] for s in concerned}, tuple(written.forks))

    # -- own events

    def append(self) -> None:
        """Stage an event that concerns nobody."""
        nobody = Draft.of(NO_TENANT, AgentId(bytes(16)), KeyRevoked(key_id="simulated"))
        self.stage([nobody], lambda _outcomes: None)

    def stage(self, drafts: Sequence[Draft], done: Done) -> None:
        """Stage own events of one call; `settle` tells what became of them."""
        self._drafts.append((drafts, done))

    def staged(self) -> tuple[Segment, ...]:
        raise NotImplementedError("drafts have no bytes before they are written")

    def sync(self) -> tuple[Segment, ...]:
        """Write all drafts in one transaction; `take_outcomes` must follow before the next."""
        calls, self._drafts = self._drafts, []
        before = self._heads
        written = self.replica.write([d for drafts, _ in calls for d in drafts], (), self.wall_us())
        self._heads = self.replica.log.heads()
        outcomes = iter(written.own)
        self._outcomes = [(done, [next(outcomes) for _ in drafts]) for drafts, done in calls]
        return _segments(written, before)

    @property
    def has_drafts(self) -> bool:
        """Whether a crash now would lose something."""
        return bool(self._drafts)

    def take_outcomes(self) -> list[tuple[Done, list[Logged | HyphaeError]]]:
        """Return, per call of the last `sync`, whom to tell what."""
        out, self._outcomes = self._outcomes, []
        return out

    # -- copies

    def backup(self) -> Backup:
        return Backup(self.db.serialize("main"))

    def blank(self) -> Backup:
        return Backup(None)

    def restore(self, backup: Backup) -> None:
        self.db.close()
        self.db = _open(backup.content)
        self._heads = self._heads_on_disk()

    def clone(self, backup: Backup) -> ReplicaSite:
        return ReplicaSite(
            self.peer, replica_class=self._replica_class, content=backup.content, space=self.space
        )

    def _heads_on_disk(self) -> dict[StreamId, Head]:
        return {
            StreamId(PeerId(peer), partition, ordinal, random_bytes): Head(head, head_hash)
            for peer, partition, ordinal, random_bytes, head, head_hash in database.rows(
                self.db, "SELECT peer, partition, ordinal, random, head, head_hash FROM streams"
            )
        }


def _open(content: bytes | None) -> apsw.Connection:
    db = database.open_writer(":memory:")
    if content is not None:
        db.deserialize("main", content)
    db.execute("PRAGMA journal_mode=MEMORY")
    return db


def _segments(written: Written, before: dict[StreamId, Head]) -> tuple[Segment, ...]:
    own = written.opened + [e for e in written.own if isinstance(e, Logged)]
    if not own:
        return ()
    held = before.get(own[0].event.header.stream)
    return (segment_of([logged.event for logged in own], held.hash if held else NO_HASH),)
