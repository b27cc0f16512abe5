"""Who this peer is: its id and key, the mesh it belongs to, and the address of NATS that it remembers."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field, replace
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from node.data_directory import PeerDirectory
from node.directory_lock import now_text
from node.private_files import make_directory, read_record, write_private, write_record
from proto.errors import Corrupted, HyphaeError
from proto.ids import MeshId, PeerId, format_base32, parse_base32

FORMAT = 1


@dataclass(frozen=True, slots=True)
class Identity:
    """What stays the same over all lives of a data directory.

    Args:
        mesh: None until the peer has created or joined one.
        inviter: the member that admitted it; itself for the first.
        seed: of its Ed25519 key.
        nats_url: with credentials, as last used; None without NATS.
    """

    peer: PeerId
    name: str
    mesh: MeshId | None
    inviter: PeerId | None
    created_at: str
    seed: bytes = field(repr=False)
    nats_url: str | None = field(default=None, repr=False)

    @property
    def public_key(self) -> bytes:
        return Ed25519PrivateKey.from_private_bytes(self.seed).public_key().public_bytes_raw()

    def sign(self, message: bytes) -> bytes:
        return Ed25519PrivateKey.from_private_bytes(self.seed).sign(message)

    def in_mesh(self, mesh: MeshId, inviter: PeerId) -> Identity:
        return replace(self, mesh=mesh, inviter=inviter)


def load_identity(directory: PeerDirectory, name: str) -> Identity:
    """Return the identity of a directory, or a new one that `save_identity` has yet to write.

    Raises:
        Corrupted: the files are there and cannot be read; unchanged.
    """
    record = read_record(directory.identity)
    if record is None:
        if directory.identity.exists() or directory.log.exists():
            raise Corrupted(
                f"{directory.identity} cannot be read, and the directory holds a log."
                " Restore it, or move the directory aside and join anew. Nothing was changed."
            )
        peer = PeerId(secrets.token_bytes(16))
        return Identity(peer, name, None, None, now_text(), secrets.token_bytes(32))
    try:
        seed = bytes.fromhex(_secret(directory, "peer.key") or "")
        mesh = record.get("mesh_id")
        inviter = record.get("inviter")
        identity = Identity(
            PeerId(parse_base32(record["peer_id"], "peer_id")),
            str(record["name"]),
            None if mesh is None else MeshId(parse_base32(mesh, "mesh_id")),
            None if inviter is None else PeerId(parse_base32(inviter, "inviter")),
            str(record["created_at"]),
            seed,
            _secret(directory, "nats-url"),
        )
    except (KeyError, ValueError, AttributeError, HyphaeError) as error:
        raise Corrupted(
            f"{directory.identity} is damaged ({type(error).__name__}). Nothing was changed."
        ) from error
    if len(seed) != 32 or len(identity.peer) != 16:
        raise Corrupted(f"{directory.secrets / 'peer.key'} is missing or damaged. Nothing was changed.")
    return identity


def save_identity(directory: PeerDirectory, identity: Identity) -> None:
    """Write the identity; secrets apart, each file whole or not at all."""
    make_directory(directory.secrets)
    write_private(directory.secrets / "peer.key", identity.seed.hex() + "\n")
    if identity.nats_url is not None:
        write_private(directory.secrets / "nats-url", identity.nats_url + "\n")
    record = {
        "peer_id": format_base32(identity.peer),
        "name": identity.name,
        "mesh_id": None if identity.mesh is None else format_base32(identity.mesh),
        "inviter": None if identity.inviter is None else format_base32(identity.inviter),
        "created_at": identity.created_at,
        "format": FORMAT,
    }
    write_record(directory.identity, record)


def _secret(directory: PeerDirectory, name: str) -> str | None:
    path: Path = directory.secrets / name
    try:
        return path.read_text(encoding="utf-8").strip() or None
    except OSError:
        return None
