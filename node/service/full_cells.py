"""A whole cell as `get_node` and `export` show it: its content, its links and the event that holds it.

Reads only.  Links to cells that the caller may not read are left out: their author could read more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import apsw

from mcp_gateway.moments import format_time_us
from node import database
from node.principals import Principal
from node.service.views import StoredCell, details
from node.sqlite_log import read_logged
from proto.ids import format_base32, format_uuid


def full_cell(db: apsw.Connection, principal: Principal, cell: StoredCell) -> dict[str, Any]:
    """Return all of a cell that a principal may read.

    Raises:
        Corrupted: its event is damaged.
    """
    p = cell.payload
    out: dict[str, Any] = {
        "node_id": format_uuid(p.cell),
        "content": p.content,
        "cell_type": p.cell_type,
        "project": p.project,
        "source_agent": p.agent,
        "owner": p.owner,
        "created_at": cell.created_at,
        "salience": p.salience / 10_000,
        "layer": p.layer,
        **details(cell),
        "content_bytes": len(p.content.encode()),
    }
    if p.supersedes is not None:
        out["supersedes"] = format_uuid(p.supersedes)
    derived_from = [format_uuid(c) for c in visible_of(db, principal, p.derived_from)]
    if derived_from:
        out["derived_from"] = derived_from
    if p.embedded_chars < len(p.content):
        out["embedded_chars"] = p.embedded_chars
        out["note"] = (
            f"the text was cut for vector search: its first {p.embedded_chars} of {len(p.content)} characters"
            " are embedded, the rest is found by its words only"
        )
    out["provenance"] = provenance(db, cell)
    return out


def provenance(db: apsw.Connection, cell: StoredCell) -> dict[str, Any]:
    """Return the place of a cell's event in the log, and when it came to this peer.

    Raises:
        Corrupted: the event is damaged.
    """
    logged, vector = read_logged(db, cell.local), cell.payload.vector
    header = logged.event.header
    return {
        "peer_id": format_base32(header.peer),
        "epoch": header.ordinal,
        "sequence": header.sequence,
        "hash": logged.event.hash.hex(),
        **({} if vector is None else {"space": vector.space}),
        "received_at": format_time_us(logged.arrived_us),
    }


def visible_of(db: apsw.Connection, principal: Principal, cells: Sequence[bytes]) -> list[bytes]:
    """Return those cells that a principal may read."""
    condition, parameters = principal.scope(None).condition("c")
    query = f"SELECT 1 FROM cells c WHERE c.cell=? AND c.tenant_id=? AND {condition}"  # noqa: S608
    return [c for c in cells if database.row(db, query, c, principal.tenant, *parameters)]
