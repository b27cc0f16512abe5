"""Members: the fold of joinings and retirements, and which events of a retired peer are kept aside.

What counts is a function of the set of events (`node.membership`).  When an event changes it, `settle` says
what has to be folded now, or that something which no longer counts was folded before, so that everything has
to be folded anew.  Runs on the writer's connection inside its transaction.
"""

from __future__ import annotations

from collections.abc import Mapping

import apsw
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from mesh.joining import joining_bytes
from node import database
from node.membership import Joining, Retired, Retirement, flaws_of_joinings, retired_peers
from node.sqlite_log import Logged, SqliteLog
from node.stored_events import read_stored
from node.unfolded import set_aside
from proto.ids import MeshId, PeerId
from proto.payloads import PeerJoined, PeerRetired
from proto.streams import Position

LATE = "beyond the end of its peer's membership"


class MembershipProjection:
    """Writes `joinings`, `members`, `retiring_events`, `retirements`, and `unfolded` for what is late.

    Args:
        log: for positions.
    """

    def __init__(self, db: apsw.Connection, log: SqliteLog, mesh: MeshId) -> None:
        self._db, self._log, self._mesh = db, log, mesh
        self.retired: Mapping[PeerId, Retired] = {}
        self._retirements: dict[int, Retirement] = {}
        self._moved = False
        self.unbelieved = 0  # joinings that make nobody a member

    def reload(self) -> None:
        """Build the state in memory from the database."""
        for (local,) in database.rows(self._db, "SELECT local FROM retiring_events"):
            stored = read_stored(self._db, local)
            if stored is not None and isinstance(stored.payload, PeerRetired):
                self._note(stored.logged, stored.payload)
        self.retired = retired_peers(self._retirements.values())
        self._count_unbelieved()

    def counts(self, position: Position) -> bool:
        """Tell whether an event is to be folded; a retirement always is, and judged by its own rule."""
        ended = self.retired.get(position.stream.peer)
        return ended is None or ended.counts(position)

    # -- folding

    def expect(self, logged: Logged, payload: PeerRetired) -> None:
        """Know of a retirement before it is folded: while the whole log is, nothing is folded in vain."""
        self._note(logged, payload)
        self.retired = retired_peers(self._retirements.values())

    def retire(self, logged: Logged, payload: PeerRetired) -> None:
        """Fold a retirement; that of a peer whose joining is not known yet is kept for it."""
        self._db.execute("INSERT OR IGNORE INTO retiring_events VALUES(?)", (logged.local,))
        self._note(logged, payload)
        before, self.retired = self.retired, retired_peers(self._retirements.values())
        self._moved |= before != self.retired
        self._db.execute("DELETE FROM retirements")
        self._db.executemany(
            "INSERT INTO retirements VALUES(?,?)", [(p, r.at_ms) for p, r in sorted(self.retired.items())]
        )
        self._db.execute(
            "UPDATE members SET retired_ms=(SELECT r.retired_ms FROM retirements r WHERE r.peer=members.peer)"
        )

    def join(self, logged: Logged, payload: PeerJoined) -> None:
        """Fold a joining: who has joined is judged anew, for it may show that another one can be believed."""
        self._db.execute("INSERT INTO joinings VALUES(?)", (logged.local,))
        joinings: list[tuple[Logged, Joining]] = []
        for (local,) in database.rows(self._db, "SELECT local FROM joinings ORDER BY local"):
            stored = read_stored(self._db, local)
            if stored is not None and isinstance(stored.payload, PeerJoined):
                header = stored.logged.event.header
                joinings.append((stored.logged, Joining(header.hlc, header.position, stored.payload)))
        flaws = flaws_of_joinings([joining for _, joining in joinings], self._is_signed)
        self._db.execute("DELETE FROM members")
        for at, joining in sorted(joinings, key=lambda pair: pair[1][:2]):
            flaw = flaws[joining.position]
            self._db.execute("DELETE FROM unfolded WHERE local=?", (at.local,))
            if flaw is not None:
                set_aside(self._db, at.local, PeerJoined.__name__, flaw)
                continue
            told = joining.payload
            self._db.execute(
                "INSERT OR IGNORE INTO members"
                " VALUES(?1,?2,?3,?4,(SELECT retired_ms FROM retirements WHERE peer=?1))",
                (told.peer, told.name, told.public_key, joining.hlc.wall_ms),
            )

        self._count_unbelieved()

    def _count_unbelieved(self) -> None:
        self.unbelieved = database.value(
            self._db, "SELECT count(*) FROM unfolded u JOIN joinings j ON j.local=u.local"
        )

    # -- at the end of a transaction

    def settle(self) -> bool:
        """Tell whether something was folded that does not count now, so that all must be folded anew."""
        moved, self._moved = self._moved, False
        return moved and any(
            database.row(
                self._db,
                "SELECT 1 FROM events e WHERE stream_no=? AND sequence>?"
                " AND local NOT IN (SELECT local FROM retiring_events)"
                " AND local NOT IN (SELECT local FROM unfolded WHERE why=? OR kind=?) LIMIT 1",
                number,
                self.retired[stream.peer].upto.get(stream, 0),
                LATE,  # what was set aside for another reason may yet be believed, and says so in `why`
                PeerRetired.__name__,
            )
            for stream, (number, _) in self._log.numbered().items()
            if stream.peer in self.retired
        )

    def take_counting(self) -> list[int]:
        """Take out the places of late events that count now, in order of arrival."""
        late = database.rows(
            self._db,
            "SELECT u.local, e.stream_no, e.sequence FROM unfolded u JOIN events e ON e.local=u.local"
            " WHERE u.why=? ORDER BY u.local",
            LATE,
        )
        found = [local for local, number, n in late if self.counts(Position(self._log.stream_of(number), n))]
        self._db.executemany("DELETE FROM unfolded WHERE local=?", [(local,) for local in found])
        return found

    # -- inside

    def _note(self, logged: Logged, payload: PeerRetired) -> None:
        header = logged.event.header
        self._retirements[logged.local] = Retirement(header.hlc, header.position, payload)

    def _is_signed(self, payload: PeerJoined, signature: bytes, key: bytes) -> bool:
        joining = joining_bytes(self._mesh, PeerId(payload.peer), payload.public_key, payload.name)
        try:
            Ed25519PublicKey.from_public_bytes(key).verify(signature, joining)
        except (InvalidSignature, ValueError):
            return False
        return True
