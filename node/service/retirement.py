"""retire_peer: ending the membership of a peer that is gone for good, and letting in what it wrote after all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import apsw

from node import database
from node.membership_projection import LATE
from node.retiring import retiring_drafts
from node.service.context import Call, PeerContext
from node.service.views import format_ms
from proto.errors import Conflict, HyphaeError, NotFound, Unavailable
from proto.ids import ID_BYTES, PeerId, format_base32, parse_base32

RETRY_MS = 1_000


class RetirementOperations:
    """Methods take a `Call` and return the result of the operation."""

    def __init__(self, context: PeerContext) -> None:
        self._context = context

    async def retire_peer(self, call: Call) -> Mapping[str, Any]:
        """Retire a member as far as it is known here; one that has retired already is left as it is.

        With `let_in`, what has arrived of a retired peer since then counts from now on.
        """
        call.principal.require("operator")
        context = self._context
        peer = await context.pool.read(lambda db: _member(db, call.args["peer"]))
        ended = context.writer.replica.retired(peer)
        if peer == context.peer:
            raise Conflict(
                "a peer does not retire itself, so that the mesh keeps a member. Nothing was changed."
                " Ask another peer: hyphae peer retire PEER --data-dir DIR."
            )
        if ended is None or call.args.get("let_in", False):
            self._need_all_of(peer)
            why = call.args.get("why", "") if ended is None else ended.why
            outcomes = await context.writer.append(retiring_drafts(context.writer.replica.log, peer, why))
            for outcome in outcomes:
                if isinstance(outcome, HyphaeError):
                    raise outcome
        return await context.pool.read(lambda db: _retired(db, peer))

    def _need_all_of(self, peer: PeerId) -> None:
        """Refuse while a peer that is heard holds more: what is not here would not count."""
        cluster = self._context.cluster
        if cluster is not None and peer in cluster.lacking():
            raise Unavailable(
                "another peer holds events of this one that are not here yet and would not count."
                " Nothing was changed. Try again in a second.",
                retry_after_ms=RETRY_MS,
            )


def late_events(db: apsw.Connection) -> dict[PeerId, int]:
    """Return by peer how many of its events are kept aside because it had retired."""
    found = database.rows(
        db,
        "SELECT s.peer, count(*) FROM unfolded u JOIN events e ON e.local=u.local"
        " JOIN streams s ON s.stream_no=e.stream_no WHERE u.why=? GROUP BY s.peer",
        LATE,
    )
    return {PeerId(peer): count for peer, count in found}


def _member(db: apsw.Connection, text: str) -> PeerId:
    """Return the member that a name or an id means.

    Raises:
        NotFound: none; Conflict: several have this name.
    """
    found = [PeerId(peer) for (peer,) in database.rows(db, "SELECT peer FROM members WHERE name=?", text)]
    if len(found) == 1:
        return found[0]
    if found:
        ids = ", ".join(sorted(map(format_base32, found)))
        raise Conflict(
            f'{len(found)} peers are called "{text}": {ids}. Nothing was changed. Give one of the ids.'
        )
    try:
        peer = PeerId(parse_base32(text, "peer"))
    except HyphaeError:
        peer = PeerId(b"")
    if len(peer) != ID_BYTES or not database.row(db, "SELECT 1 FROM members WHERE peer=?", peer):
        raise NotFound(f'no member is "{text}". Nothing was changed. See hyphae peer list.')
    return peer


def _retired(db: apsw.Connection, peer: PeerId) -> dict[str, Any]:
    name, retired_ms = database.rows(db, "SELECT name, retired_ms FROM members WHERE peer=?", peer)[0]
    if retired_ms is None:
        raise Conflict("another peer had retired this one before: what it says of members says nothing.")
    return {
        "peer_id": format_base32(peer),
        "name": name,
        "retired_at": format_ms(retired_ms),
        "late_events": late_events(db).get(peer, 0),
    }
