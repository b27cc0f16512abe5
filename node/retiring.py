"""The events by which a peer ends the membership of another one, as far as it holds that one's streams.

What they mean is decided by `node.membership`; this only writes down what is held, in as many events as it
takes.
"""

from __future__ import annotations

from node.replica import Draft
from node.sqlite_log import SqliteLog
from proto.ids import NO_TENANT, AgentId, PeerId
from proto.payloads import PeerRetired, WireFrontier, pack_frontier
from proto.streams import Position

STREAMS_PER_EVENT = 1_000  # 58 bytes each: far below the bound of one event


def retiring_drafts(log: SqliteLog, peer: PeerId, why: str) -> list[Draft]:
    """Return the drafts of a retirement: every stream of the peer counts as far as it is held when they are written.

    Links between epochs are not needed to read them: each stream is named by itself.

    Args:
        log: read again on the writer's thread, when the drafts are built.
    """
    count = sum(stream.peer == peer for stream in log.heads())
    starts = range(0, max(1, count), STREAMS_PER_EVENT)
    return [_draft(log, peer, why, start, start == starts[-1]) for start in starts]


def _draft(log: SqliteLog, peer: PeerId, why: str, start: int, is_last: bool) -> Draft:
    def build(_frontier: WireFrontier) -> PeerRetired:
        held = sorted(Position(s, n) for s, n in log.vector().items() if s.peer == peer)
        part = held[start:] if is_last else held[start : start + STREAMS_PER_EVENT]
        return PeerRetired(peer=peer, frontier=pack_frontier(tuple(part)), why=why)

    return Draft(NO_TENANT, AgentId(bytes(16)), build)
