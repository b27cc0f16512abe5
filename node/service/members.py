"""peers, invite_peer, join_peer: who is a member of the mesh, and how one becomes a member."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from mesh.joining import JoinToken, check_proof, invitation_secret, joining_bytes
from node import database
from node.lost_tails import lost_tails
from node.replica import Draft
from node.service.context import Call, PeerContext
from node.service.retirement import late_events
from node.service.views import format_ms, shown_tails
from proto.errors import Conflict, Forbidden, HyphaeError, Unavailable
from proto.ids import NO_TENANT, AgentId, PeerId, format_base32
from proto.messages import Request
from proto.payloads import PeerJoined

INVITE_TTL_S = 3_600
CLOCK_OFF_MS = 2_000  # less is the age of a digest, and harms nobody


class MemberOperations:
    """Methods take a `Call` and return the result of the operation."""

    def __init__(self, context: PeerContext) -> None:
        self._context = context

    async def peers(self, call: Call) -> Mapping[str, Any]:
        """List the members, and what was last heard of each."""
        call.principal.require("admin")
        context = self._context
        heard = {} if context.cluster is None else context.cluster.heard()
        lacking = frozenset[PeerId]() if context.cluster is None else context.cluster.lacking()
        members, late, lost = await context.pool.read(
            lambda db: (
                database.rows(
                    db, "SELECT peer, name, joined_ms, retired_ms FROM members ORDER BY name, joined_ms, peer"
                ),
                late_events(db),
                lost_tails(db, lacking),
            )
        )
        return {
            "peers": [
                {
                    **self._peer(r[0], r[1], r[2], r[3], heard.get(r[0])),
                    **({"late_events": late[r[0]]} if r[0] in late else {}),
                    **shown_tails([tail for tail in lost if tail.stream.peer == r[0]]),
                }
                for r in members
            ]
        }

    def _peer(
        self, peer: bytes, name: str, joined_ms: int, retired_ms: int | None, heard: Mapping[str, Any] | None
    ) -> dict[str, Any]:
        me = peer == self._context.peer
        out: dict[str, Any] = {
            "peer_id": format_base32(peer),
            "name": name,
            "state": "up" if me or (heard is not None and heard["state"] == "up") else "silent",
            "joined_at": format_ms(joined_ms),
        }
        if me:
            out.update({"me": True, "version": self._context.version})
            if self._context.cluster is not None:
                out["urls"] = list(self._context.cluster.urls())
        if retired_ms is not None:
            out.update({"state": "retired", "retired_at": format_ms(retired_ms)})
        if heard is not None:
            out.update({k: heard[k] for k in ("urls", "version", "heard_ms_ago", "missing_events")})
            if out["state"] != "silent" and abs(heard["clock_off_ms"]) > CLOCK_OFF_MS:
                out["clock_off_ms"] = heard["clock_off_ms"]
        return out

    async def invite_peer(self, call: Call) -> Mapping[str, Any]:
        """Return a token with which other machines join until it expires."""
        call.principal.require("operator")
        context = self._context
        if context.nats_url is None:
            raise Unavailable(
                "this peer runs without NATS, so others cannot join it. Start it with --nats-url."
            )
        expires_ms = context.now_ms + call.args.get("ttl_seconds", INVITE_TTL_S) * 1000
        secret = invitation_secret(context.seed, context.mesh, expires_ms)
        token = JoinToken(context.mesh, context.peer, expires_ms, context.nats_url, secret)
        return {"token": token.format(), "expires_at": format_ms(expires_ms)}

    async def join_peer(self, request: Request) -> Mapping[str, Any]:
        """Record a peer as a member.  Authenticated by the invitation that it proves, not by a key.

        Raises:
            Forbidden: no valid invitation; Conflict: its id belongs to another key.
        """
        context = self._context
        peer, public_key, name, signature = check_proof(
            request.args, context.seed, context.mesh, context.now_ms
        )
        joining = joining_bytes(context.mesh, peer, public_key, name)
        try:
            Ed25519PublicKey.from_public_bytes(public_key).verify(signature, joining)
        except (InvalidSignature, ValueError):
            raise Forbidden("a request to join is not signed by the key that it names.") from None
        held = await context.pool.read(
            lambda db: database.value(db, "SELECT public_key FROM members WHERE peer=?", peer)
        )
        if held is not None and held != public_key:
            raise Conflict("this peer id is a member with another key. Nothing was changed.")
        if held is None:
            (outcome,) = await context.writer.append(
                [joined_draft(context, peer, public_key, name, signature)]
            )
            if isinstance(outcome, HyphaeError):
                raise outcome
        return {"mesh": context.mesh, "inviter_key": _public(context.seed)}


def joined_draft(context: PeerContext, peer: bytes, public_key: bytes, name: str, signature: bytes) -> Draft:
    """Return the event that makes a peer a member, signed by this one."""
    joining = joining_bytes(context.mesh, PeerId(peer), public_key, name)
    payload = PeerJoined(
        peer=peer,
        public_key=public_key,
        name=name,
        inviter=context.peer,
        signature=signature,
        inviter_signature=Ed25519PrivateKey.from_private_bytes(context.seed).sign(joining),
    )
    return Draft.of(NO_TENANT, AgentId(bytes(16)), payload)


def _public(seed: bytes) -> bytes:
    return Ed25519PrivateKey.from_private_bytes(seed).public_key().public_bytes_raw()
