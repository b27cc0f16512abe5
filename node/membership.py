"""Who belongs to the mesh, and how far the streams of who left it count: rules over sets of events.

Pure, and whatever the order in which the events came: the whole set is judged anew each time, in the order of
(HLC, position).  Clocks decide only between peers that retire each other.  Knows no database and no keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from proto.clock import Hlc
from proto.ids import PeerId
from proto.payloads import PeerJoined, PeerRetired, unpack_frontier
from proto.streams import Position, StreamId

UNSIGNED = "a joining that the peer which it names has not signed"
UNINVITED = "a joining that no known member has signed"
OTHER_KEY = "a joining under another key than that of the member"


class Retirement(NamedTuple):
    """One `PeerRetired` event."""

    hlc: Hlc
    position: Position
    payload: PeerRetired


class Joining(NamedTuple):
    """One `PeerJoined` event."""

    hlc: Hlc
    position: Position
    payload: PeerJoined


@dataclass(frozen=True, slots=True)
class Retired:
    """The end of a membership.

    Args:
        at_ms: wall clock of the first event that says so.
        upto: the last sequence that counts, by stream; a stream that is absent does not count at all.
    """

    at_ms: int
    why: str
    by: PeerId
    upto: Mapping[StreamId, int]

    def counts(self, position: Position) -> bool:
        """Tell whether an event of the retired peer counts."""
        return position.sequence <= self.upto.get(position.stream, 0)


def retired_peers(events: Iterable[Retirement]) -> dict[PeerId, Retired]:
    """Return who has retired.

    Several events about one peer add up: what any of them lets count, counts.  An event that its own author
    wrote beyond the end of its membership, as the earlier events have it, says nothing; and nobody retires
    itself.
    """
    found: dict[PeerId, Retired] = {}
    for hlc, position, payload in sorted(events, key=lambda e: e[:2]):
        author, peer = position.stream.peer, PeerId(payload.peer)
        ended = found.get(author)
        if author == peer or (ended is not None and not ended.counts(position)):
            continue
        known = found.get(peer)
        upto = {} if known is None else dict(known.upto)
        for stream, sequence in unpack_frontier(payload.frontier):
            if stream.peer == peer:
                upto[stream] = max(sequence, upto.get(stream, 0))
        found[peer] = (
            Retired(hlc.wall_ms, payload.why, author, upto)
            if known is None
            else Retired(known.at_ms, known.why, known.by, upto)
        )
    return found


def flaws_of_joinings(
    events: Iterable[Joining], is_signed: Callable[[PeerJoined, bytes, bytes], bool]
) -> dict[Position, str | None]:
    """Return per joining why it makes nobody a member, or None.

    Whoever founded the mesh has invited itself; everybody else was invited by a member.  Of two joinings of
    one peer under different keys the first that can be believed holds.

    Args:
        is_signed: tells whether a signature over a joining is by a public key.
    """
    waiting = sorted(events, key=lambda e: e[:2])
    flaws: dict[Position, str | None] = {}
    keys: dict[bytes, bytes] = {}
    for joining in waiting:
        payload = joining.payload
        if not is_signed(payload, payload.signature, payload.public_key):
            flaws[joining.position] = UNSIGNED
    waiting = [j for j in waiting if j.position not in flaws]
    found = True
    while found:
        found, rest = False, []
        for joining in waiting:
            payload = joining.payload
            key = payload.public_key if payload.inviter == payload.peer else keys.get(payload.inviter)
            if key is None or not is_signed(payload, payload.inviter_signature, key):
                rest.append(joining)
                continue
            found = True
            held = keys.setdefault(payload.peer, payload.public_key)
            flaws[joining.position] = None if held == payload.public_key else OTHER_KEY
        waiting = rest
    flaws.update((joining.position, UNINVITED) for joining in waiting)
    return flaws
