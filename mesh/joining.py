"""How a peer becomes a member: a token from a member, a request with proof of it, an event signed by both.

The token's secret is derived from the inviter's own key, so an inviter remembers nothing; it admits any number
of peers until it expires.  The secret does not travel in the request: the joiner proves that it has it.
"""

from __future__ import annotations

import base64
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from mesh.sealing import ReplyKey
from mesh.transport import Transport
from proto.codec import decode, encode
from proto.errors import Forbidden, HyphaeError, Invalid, ProtocolError
from proto.ids import ID_BYTES, MeshId, PeerId, digest
from proto.messages import Request, decode_reply, encode_request
from proto.subjects import Subjects

PREFIX: Final = "hyj_"
METHOD: Final = "join_peer"
TOKEN_BYTES_MAX: Final = 4096


@dataclass(frozen=True, slots=True)
class JoinToken:
    """An invitation.

    Args:
        nats_url: with the credentials of a peer.
        expires_ms: wall clock of the inviter, ms since 1970.
        secret: 32 bytes.
    """

    mesh: MeshId
    inviter: PeerId
    expires_ms: int
    nats_url: str = field(repr=False)
    secret: bytes = field(repr=False)

    def format(self) -> str:
        """Return the token as people pass it on: a secret."""
        packed = encode((1, self.mesh, self.inviter, self.expires_ms, self.nats_url, self.secret))
        return PREFIX + base64.urlsafe_b64encode(packed).decode("ascii").rstrip("=")


def parse_token(text: str) -> JoinToken:
    """Return the parts of a token.

    Raises:
        Invalid: it is none; it is not shown.
    """
    refusal = Invalid(
        f"what was given is no join token: {len(text)} characters, not hyj_<text>. `hyphae peer invite` makes one."
    )
    if not text.startswith(PREFIX) or len(text) > TOKEN_BYTES_MAX:
        raise refusal
    body = text[len(PREFIX) :]
    try:
        fields = decode(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
        version, mesh, inviter, expires_ms, nats_url, secret = fields
    except (ValueError, TypeError, HyphaeError):
        raise refusal from None
    right = isinstance(expires_ms, int) and isinstance(nats_url, str) and isinstance(secret, bytes)
    if (
        version != 1
        or not right
        or any(not isinstance(i, bytes) or len(i) != ID_BYTES for i in (mesh, inviter))
    ):
        raise refusal
    return JoinToken(MeshId(mesh), PeerId(inviter), expires_ms, nats_url, secret)


def invitation_secret(inviter_seed: bytes, mesh: MeshId, expires_ms: int) -> bytes:
    """Return the secret of the invitation that an inviter gives until a time."""
    return digest("invitation", inviter_seed, mesh, expires_ms.to_bytes(8, "big"))


def joining_bytes(mesh: MeshId, peer: PeerId, public_key: bytes, name: str) -> bytes:
    """Return what the joiner and its inviter sign."""
    return digest("join", mesh, peer, public_key, name.encode())


def proof_of(secret: bytes, joining: bytes) -> bytes:
    """Return the proof that a joiner holds the secret, bound to what it joins as."""
    return hmac.digest(secret, joining, "sha256")


def check_proof(
    args: Mapping[str, Any], seed: bytes, mesh: MeshId, now_ms: int
) -> tuple[PeerId, bytes, str, bytes]:
    """Return (peer, public key, name, its signature) of a request to join that proves an invitation.

    Raises:
        Forbidden: no proof, or the invitation has expired; nothing changed.
    """
    types = {
        "peer": bytes,
        "public_key": bytes,
        "name": str,
        "expires_ms": int,
        "proof": bytes,
        "signature": bytes,
    }
    if any(not isinstance(args.get(name), kind) for name, kind in types.items()):
        raise Forbidden("a request to join is malformed. Nothing was changed.")
    peer, public_key, name, expires_ms = (args[n] for n in ("peer", "public_key", "name", "expires_ms"))
    if (
        len(peer) != ID_BYTES
        or len(public_key) != 32
        or not 1 <= len(name) <= 128
        or not 0 <= expires_ms < 2**62
    ):
        raise Forbidden("a request to join is malformed. Nothing was changed.")
    if now_ms > expires_ms:
        raise Forbidden(
            "this invitation has expired. Nothing was changed. Ask for another: hyphae peer invite."
        )
    joining = joining_bytes(mesh, PeerId(peer), public_key, name)
    if not hmac.compare_digest(proof_of(invitation_secret(seed, mesh, expires_ms), joining), args["proof"]):
        raise Forbidden("this invitation is not of this peer, or was altered. Nothing was changed.")
    return PeerId(peer), public_key, name, args["signature"]


async def ask_to_join(
    transport: Transport, token: JoinToken, args: Mapping[str, Any], deadline_ms: int, timeout_s: float
) -> Mapping[str, Any]:
    """Ask the inviter to record this peer as a member; asking twice changes nothing.

    Raises:
        Forbidden: the invitation is not accepted.
        Unavailable, Uncertain: the inviter was not reached, or did not answer in time; ask again.
    """
    reply_key = ReplyKey()
    encoded = encode_request(Request(METHOD, args, deadline_ms))
    subject = Subjects(token.mesh).requests(token.inviter)
    message = await transport.request(subject, reply_key.wrap(encoded), timeout_s)
    try:
        reply = decode_reply(reply_key.open(message, encoded))
    except ProtocolError as error:
        raise Forbidden(f"the inviter's answer cannot be read: {error.message}") from error
    return reply.unwrap()
