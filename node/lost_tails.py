"""Lost tails: what links between epochs show to have existed, and nobody holds any more.

Computed from what is here each time somebody asks, and never written down or agreed on: it is gone as soon as
somebody turns up with the events.
"""

from __future__ import annotations

from collections.abc import Set
from typing import NamedTuple

import apsw

from node import database
from proto.ids import PeerId
from proto.streams import StreamId


class LostTail(NamedTuple):
    """Events `first` to `last` of a stream."""

    stream: StreamId
    first: int
    last: int


def lost_tails(db: apsw.Connection, lacking: Set[PeerId]) -> list[LostTail]:
    """Return what is missing of every stream that a later epoch names, in the order of streams.

    Args:
        lacking: peers of whose streams somebody is known to hold more than is here: that is under way, not lost.
    """
    found = database.rows(
        db,
        "SELECT l.peer, l.partition, l.ordinal, l.random, ifnull(s.head, 0) AS held, max(l.sequence) AS last"
        " FROM links l LEFT JOIN streams s ON s.peer=l.peer AND s.partition=l.partition"
        " AND s.ordinal=l.ordinal AND s.random=l.random WHERE l.peer IS NOT NULL"
        " GROUP BY l.peer, l.partition, l.ordinal, l.random HAVING last>held"
        " ORDER BY l.peer, l.partition, l.ordinal, l.random",
    )
    return [
        LostTail(StreamId(PeerId(peer), partition, ordinal, random), held + 1, last)
        for peer, partition, ordinal, random, held, last in found
        if peer not in lacking
    ]
