"""How a directory comes to belong to a mesh: it creates one, joins one by a token, or remembers one."""

from __future__ import annotations

import secrets
import time
from dataclasses import replace

import structlog

from mesh import wall_clock
from mesh.joining import JoinToken, ask_to_join, joining_bytes, parse_token, proof_of
from mesh.nats_address import parse_nats_url
from mesh.nats_connections import peer_transport
from mesh.nats_transport import NatsTransport
from node.data_directory import PeerDirectory
from node.identity import Identity, save_identity
from node.peer_config import PeerConfig
from proto.errors import HyphaeError, Invalid, Unavailable
from proto.ids import MeshId

_log = structlog.get_logger(__name__)

JOIN_DEADLINE_S = 30.0
ATTEMPT_S = 3.0


async def create_or_join(config: PeerConfig, directory: PeerDirectory, identity: Identity) -> Identity:
    """Return the identity with its mesh, written to the directory.

    A token given to a peer that is a member already is ignored, but for its address of NATS.  A newcomer that was
    given an address, or a directory with one, joins by that: servers may refuse what it says as its inviter's user.

    Raises:
        HyphaeError: the address or the token is none, or the inviter did not admit this peer in 30 s.
    """
    token = None if config.join_token is None else parse_token(config.join_token)
    prepared = identity.nats_url if identity.mesh is None else None  # it logs in there as itself
    nats_url = config.nats_url or prepared or (token.nats_url if token else None) or identity.nats_url
    if nats_url is not None:
        parse_nats_url(nats_url)
    fresh = replace(identity, nats_url=nats_url if config.use_nats else identity.nats_url)
    if fresh.mesh is None and token is not None:
        fresh = await _join(fresh, token, nats_url or token.nats_url)
    elif fresh.mesh is None:
        fresh = fresh.in_mesh(MeshId(secrets.token_bytes(16)), fresh.peer)
    elif token is not None and token.mesh != fresh.mesh:
        raise Invalid(
            f"{directory.path} belongs to another mesh than this token. Nothing was changed."
            " Give another --data-dir to join with."
        )
    if fresh != identity or not directory.identity.exists():
        save_identity(directory, fresh)
    return fresh


async def _join(identity: Identity, token: JoinToken, nats_url: str) -> Identity:
    joining = joining_bytes(token.mesh, identity.peer, identity.public_key, identity.name)
    args = {
        "peer": identity.peer,
        "public_key": identity.public_key,
        "name": identity.name,
        "expires_ms": token.expires_ms,
        "proof": proof_of(token.secret, joining),
        "signature": identity.sign(joining),
    }
    transport = peer_transport(nats_url, token.mesh, identity.peer, "join")
    await transport.start()
    until = time.monotonic() + JOIN_DEADLINE_S
    try:
        await _ask_until(transport, token, args, until)
    finally:
        await transport.close()
    return identity.in_mesh(token.mesh, token.inviter)


async def _ask_until(
    transport: NatsTransport, token: JoinToken, args: dict[str, object], until: float
) -> None:
    failure: HyphaeError = Unavailable("NATS was not reached")
    while time.monotonic() < until:
        if not await transport.wait_connected(ATTEMPT_S):
            failure = Unavailable(f"NATS was not reached: {transport.last_error}")
            continue
        deadline_ms = wall_clock.now_ms() + int(ATTEMPT_S * 1000)
        try:
            await ask_to_join(transport, token, args, deadline_ms, ATTEMPT_S)
        except Unavailable as error:
            failure = error
            _log.info("join_again", reason=error.message)
            await transport.wait_connected(ATTEMPT_S)
            continue
        return
    raise Unavailable(
        f"this peer was not admitted within {JOIN_DEADLINE_S:.0f} s: {failure.message}."
        " Does the inviting peer run, and do the clocks of both machines agree? Nothing was changed."
    )
