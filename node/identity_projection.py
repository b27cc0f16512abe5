"""Keys and agents: who may speak here.  Runs on the writer's connection inside its transaction."""

from __future__ import annotations

import json

import apsw

from node.principals import RESERVED
from node.sqlite_log import Logged
from proto.ids import MeshId, TenantId, agent_id, tenant_id
from proto.payloads import KeyIssued, KeyRevoked


class IdentityProjection:
    """Writes `keys`, `revocations` and `agents`."""

    def __init__(self, db: apsw.Connection, mesh: MeshId) -> None:
        self._db = db
        self._mesh = mesh
        self._known: set[bytes] = (
            set()
        )  # agents whose row was written; dropped with this object on a rollback

    def issue(self, logged: Logged, payload: KeyIssued) -> None:
        tenant = tenant_id(self._mesh, payload.tenant)
        self._db.execute(
            "INSERT OR IGNORE INTO keys VALUES(?,?,?,?,?,?,?,?,?,?)",
            (
                payload.key_id,
                payload.public_key,
                tenant,
                payload.tenant,
                payload.owner,
                payload.agent,
                json.dumps(payload.scopes),
                None if payload.projects is None else json.dumps(dict(payload.projects)),
                payload.default_project,
                logged.event.header.wall_ms,
            ),
        )
        self.know_agent(tenant, payload.agent)

    def revoke(self, logged: Logged, payload: KeyRevoked) -> None:
        self._db.execute(
            "INSERT INTO revocations VALUES(?1,?2)"
            " ON CONFLICT(key_id) DO UPDATE SET revoked_ms=min(revoked_ms, ?2)",
            (payload.key_id, logged.event.header.wall_ms),
        )

    def know_agent(self, tenant: TenantId, name: str) -> None:
        agent = agent_id(tenant, name)
        if agent not in self._known and not name.startswith(RESERVED):
            self._known.add(agent)
            self._db.execute("INSERT OR IGNORE INTO agents VALUES(?,?,?)", (agent, tenant, name))
