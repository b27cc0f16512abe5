"""What the clocks of a log say when a process begins.  Reads only."""

from __future__ import annotations

import apsw

from node import database
from proto.clock import ZERO, Hlc
from proto.errors import ProtocolError
from proto.events import parse_header
from proto.ids import PeerId


def latest_clocks(db: apsw.Connection, peer: PeerId) -> tuple[Hlc, Hlc]:
    """Return the latest HLC of a peer's own events, and of all others: they grow along a stream."""
    own = others = ZERO
    for (header_bytes,) in database.rows(
        db, "SELECT e.header FROM streams s JOIN events e ON e.stream_no=s.stream_no AND e.sequence=s.head"
    ):
        try:
            header = parse_header(header_bytes)
        except ProtocolError:
            continue  # damaged: `hyphae log verify` names it
        if header.peer == peer:
            own = max(own, header.hlc)
        else:
            others = max(others, header.hlc)
    return own, others
