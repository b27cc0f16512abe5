"""Events that are kept and forwarded but not folded: why, and when an upgrade lets them be folded after all."""

from __future__ import annotations

import apsw

from node import beacons_projection, database, scenes_projection
from node.sqlite_log import Logged
from proto.payloads import MODELS, BeaconPlaced, EpochOpened, Payload, SceneConsolidated

UNKNOWN = "unknown kind"


def flaw_of(logged: Logged, payload: Payload | None) -> str | None:
    """Return why an event is not folded, or None.

    Args:
        payload: what it says, or None when it is erased or of a kind that this version does not know.
    """
    if payload is None:
        return "erased" if logged.event.payload is None else UNKNOWN
    if isinstance(payload, EpochOpened) and logged.event.header.sequence != 1:
        return "not the first event of its stream"
    if isinstance(payload, SceneConsolidated):
        return scenes_projection.flaw_of(payload)
    return beacons_projection.flaw_of(payload) if isinstance(payload, BeaconPlaced) else None


def set_aside(db: apsw.Connection, local: int, kind: str, why: str) -> None:
    """Note that an event is not folded."""
    db.execute("INSERT INTO unfolded VALUES(?,?,?)", (local, kind, why))


def take_known(db: apsw.Connection) -> list[int]:
    """Take out the places of events that an older version did not know and this one does, in order of arrival."""
    marks = ",".join("?" * len(MODELS))
    condition = f"WHERE why=? AND kind IN ({marks})"
    found = database.rows(db, f"SELECT local FROM unfolded {condition} ORDER BY local", UNKNOWN, *MODELS)  # noqa: S608
    db.execute(f"DELETE FROM unfolded {condition}", (UNKNOWN, *MODELS))  # noqa: S608
    return [int(local) for (local,) in found]
