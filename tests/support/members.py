"""Members with keys: signed joinings and retirements, for tests of who belongs to a mesh."""

from __future__ import annotations

from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from mesh.joining import joining_bytes
from node.replica import Draft
from node.retiring import retiring_drafts
from proto.payloads import PeerJoined
from tests.support.replicas import MESH, Peer
from tests.support.sealed import peer


def key_of(number: int) -> Ed25519PrivateKey:
    """Return the key of a peer."""
    return Ed25519PrivateKey.from_private_bytes(number.to_bytes(32, "big"))


def joined(number: int, by: int, **fields: Any) -> PeerJoined:
    """Return the joining of a peer that another one invited; both have signed it unless told otherwise."""
    public_key = key_of(number).public_key().public_bytes_raw()
    joining = joining_bytes(MESH, peer(number), public_key, f"peer {number}")
    given: dict[str, Any] = {
        "peer": peer(number),
        "public_key": public_key,
        "name": f"peer {number}",
        "inviter": peer(by),
        "signature": key_of(number).sign(joining),
        "inviter_signature": key_of(by).sign(joining),
    }
    return PeerJoined(**{**given, **fields})


def retire(by: Peer, number: int, why: str = "") -> None:
    """Let a peer retire another one, as far as it knows it."""
    drafts: list[Draft] = retiring_drafts(by.replica.log, peer(number), why)
    by.write(*drafts)
