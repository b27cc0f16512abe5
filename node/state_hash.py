"""One hash over everything folded, to compare peers and to prove that a rebuild gives the same.

It covers sorted cells, beacons, entries, listed references, readers, keys, members and scenes, without order of
arrival, index bytes and values computed when read.
"""

from __future__ import annotations

import hashlib

import apsw

STATE_QUERIES = (
    "SELECT c.cell, e.hash, c.superseded FROM cells c JOIN events e ON e.local=c.local ORDER BY c.cell",
    "SELECT old, new FROM supersessions ORDER BY old, new",
    "SELECT p.beacon, e.hash FROM placements p JOIN events e ON e.local=p.local ORDER BY p.beacon, e.hash",
    "SELECT w.beacon, e.hash FROM withdrawals w JOIN events e ON e.local=w.local ORDER BY w.beacon, e.hash",
    "SELECT beacon, expires_ms FROM renewals ORDER BY beacon",
    "SELECT agent_id, diff, kind, matched, own_session, wall_ms, counter, read_local IS NOT NULL FROM entries"
    " ORDER BY agent_id, diff",
    "SELECT agent_id, diff, page FROM refs ORDER BY agent_id, diff, page",
    "SELECT c.page, e.hash FROM commits c JOIN events e ON e.local=c.local ORDER BY c.page, e.hash",
    "SELECT session, agent_id, project, title FROM sessions ORDER BY session",
    "SELECT x.session, e.hash FROM closings x JOIN events e ON e.local=x.local ORDER BY x.session, e.hash",
    "SELECT key_id, public_key FROM keys ORDER BY key_id",
    "SELECT key_id FROM revocations ORDER BY key_id",
    "SELECT peer, public_key, retired_ms FROM members ORDER BY peer",
    "SELECT peer, retired_ms FROM retirements ORDER BY peer",
    "SELECT r.tenant_id, r.project, r.owner, e.hash FROM scene_runs r JOIN events e ON e.local=r.local"
    " ORDER BY r.tenant_id, r.project, r.owner",
    "SELECT tenant_id, project, owner, scene, title, medoid, summary, from_ms, to_ms FROM scenes"
    " ORDER BY tenant_id, project, owner, scene",
    "SELECT s.tenant_id, s.project, s.owner, s.scene, m.cell FROM scenes s JOIN scene_members m"
    " ON m.scene_no=s.scene_no ORDER BY s.tenant_id, s.project, s.owner, s.scene, m.cell",
)


def state_hash(db: apsw.Connection) -> bytes:
    """Return the hash, 32 bytes: equal on all peers that hold equal streams."""
    h = hashlib.sha256()
    for query in STATE_QUERIES:
        h.update(query.encode())
        for found in db.execute(query):
            h.update(repr(found).encode())
    return h.digest()
