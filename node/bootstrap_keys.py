"""The beginning of a mesh: its first member, and the two bootstrap keys, operator and first agent."""

from __future__ import annotations

import secrets
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from mesh.joining import joining_bytes
from node import database
from node.identity import Identity
from node.principals import AGENT_SCOPES, DEFAULT_TENANT, OPERATOR_AGENT, SCOPES
from node.private_files import make_directory, write_private
from node.replica import Draft, Replica
from node.service.keys import mint_key
from proto.ids import NO_TENANT, AgentId, tenant_id
from proto.payloads import PeerJoined

FIRST_AGENT = "agent"


def found_mesh(replica: Replica, identity: Identity, secrets_dir: Path, now_us: int) -> None:
    """Write the first events of a mesh, if this peer has created it and they are not there yet.

    The files of the keys are written before the events, so that a crash between leaves files that the next
    start replaces, and never a key whose secret nobody has.

    Raises:
        Unavailable: the files cannot be written; no event was.
    """
    if identity.inviter != identity.peer or database.row(replica.db, "SELECT 1 FROM keys LIMIT 1"):
        return
    operator, operator_issued = mint_key(
        secrets.token_bytes, tenant=DEFAULT_TENANT, owner=OPERATOR_AGENT, agent=OPERATOR_AGENT, scopes=SCOPES
    )
    agent, agent_issued = mint_key(
        secrets.token_bytes, tenant=DEFAULT_TENANT, owner=FIRST_AGENT, agent=FIRST_AGENT, scopes=AGENT_SCOPES
    )
    make_directory(secrets_dir)
    write_private(secrets_dir / "operator.key", operator + "\n")
    write_private(secrets_dir / "agent.key", agent + "\n")
    tenant, nobody = tenant_id(replica.mesh, DEFAULT_TENANT), AgentId(bytes(16))
    drafts = [
        Draft.of(NO_TENANT, nobody, _joined(identity)),
        Draft.of(tenant, nobody, operator_issued),
        Draft.of(tenant, nobody, agent_issued),
    ]
    replica.write(drafts, (), now_us)


def _joined(identity: Identity) -> PeerJoined:
    assert identity.mesh is not None
    joining = joining_bytes(identity.mesh, identity.peer, identity.public_key, identity.name)
    signature = Ed25519PrivateKey.from_private_bytes(identity.seed).sign(joining)
    return PeerJoined(
        peer=identity.peer,
        public_key=identity.public_key,
        name=identity.name,
        inviter=identity.peer,
        signature=signature,
        inviter_signature=signature,
    )
