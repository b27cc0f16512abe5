"""What an event in the log says, read back where a damaged one must not stop the work on the others.

A damaged event is never believed and never silent: it is logged here, and `hyphae log verify` names it.
"""

from __future__ import annotations

from typing import NamedTuple

import apsw
import structlog

from node.sqlite_log import Logged, read_logged
from proto.errors import Corrupted, ProtocolError
from proto.payloads import Payload, decode_payload

_log = structlog.get_logger(__name__)


class Stored(NamedTuple):
    """An event and what it says."""

    logged: Logged
    payload: Payload


def read_stored(db: apsw.Connection, local: int) -> Stored | None:
    """Return an event by its place of arrival, or None when it is damaged, erased or of an unknown kind."""
    try:
        logged = read_logged(db, local)
        data = logged.event.payload
        payload = None if data is None else decode_payload(logged.event.header.kind, data)
    except (Corrupted, ProtocolError) as error:
        _log.error("event_unreadable", local=local, reason=error.message)
        return None
    return None if payload is None else Stored(logged, payload)
