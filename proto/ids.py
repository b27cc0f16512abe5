"""Ids and how they are derived: what must be equal everywhere is a hash, what must be unique is random.

All ids are bytes inside and text on the surfaces.  Randomness comes from the caller, so that a simulation
can be replayed.
"""

from __future__ import annotations

import base64
import hashlib
import re
import uuid
from functools import lru_cache
from typing import NewType

from proto.errors import Invalid

PeerId = NewType("PeerId", bytes)  # 16 bytes, random, once per data directory
MeshId = NewType("MeshId", bytes)  # 16 bytes, random, once per mesh
TenantId = NewType("TenantId", bytes)  # 16 bytes, derived from mesh and name
AgentId = NewType("AgentId", bytes)  # 16 bytes, derived from tenant and name
CellId = NewType("CellId", bytes)  # 16 bytes
DiffId = NewType("DiffId", bytes)  # 16 bytes, derived from kind and subjects
BeaconId = NewType("BeaconId", bytes)  # 16 bytes, derived from owner, interest and filters
SessionId = NewType("SessionId", bytes)  # 16 bytes, random
PageId = NewType("PageId", bytes)  # 16 bytes, random

ID_BYTES = 16
NO_TENANT = TenantId(bytes(ID_BYTES))  # events of the mesh itself

_UUID_PREFIX = re.compile(r"[0-9a-fA-F]{8}(?:-?[0-9a-fA-F]{1,4})*-?[0-9a-fA-F]*")


def digest(kind: str, *parts: bytes) -> bytes:
    """Return SHA-256 over the kind and the length-prefixed parts, so that no two inputs run together."""
    h = hashlib.sha256(b"hyphae/" + kind.encode("ascii"))
    for part in parts:
        h.update(len(part).to_bytes(4, "big"))
        h.update(part)
    return h.digest()


def derive(kind: str, *parts: bytes) -> bytes:
    """Return the first 16 bytes of `digest(kind, *parts)`."""
    return digest(kind, *parts)[:ID_BYTES]


@lru_cache(4096)
def tenant_id(mesh: MeshId, name: str) -> TenantId:
    """Return the id of a tenant of this mesh."""
    return TenantId(derive("tenant", mesh, name.encode()))


@lru_cache(65_536)
def agent_id(tenant: TenantId, name: str) -> AgentId:
    """Return the id of an agent of this tenant."""
    return AgentId(derive("agent", tenant, name.encode()))


def cell_id(mesh: MeshId, tenant: TenantId, agent: AgentId, idempotency_key: str) -> CellId:
    """Return the id of a cell: the same key of the same agent names the same cell on every peer."""
    return CellId(derive("cell", mesh, tenant, agent, idempotency_key.encode()))


def diff_id(kind: str, *subjects: bytes) -> DiffId:
    """Return the id of a diff, the same for every event that says the same."""
    return DiffId(derive("diff", kind.encode("ascii"), *subjects))


def format_uuid(value: bytes) -> str:
    """Return 16 bytes in the usual dashed form."""
    return str(uuid.UUID(bytes=value))


def parse_uuid(text: str, field: str) -> bytes:
    """Return the 16 bytes of a dashed or plain hexadecimal id.

    Raises:
        Invalid: the text is no such id; nothing changed.
    """
    try:
        return uuid.UUID(text).bytes
    except (ValueError, AttributeError, TypeError):
        shown = text if len(text) <= 60 else f"{text[:60]}... ({len(text)} characters)"
        raise Invalid(
            f'{field} is "{shown}", which is no id. Nothing was changed. Give the id as it was returned, such as'
            " 6f9619ff-8b86-d011-b42d-00cf4fc964ff."
        ) from None


def uuid_prefix(text: str) -> str | None:
    """Return the hexadecimal digits of a text that reads like a node id or its first 8 or more characters."""
    if len(text) > 36 or not _UUID_PREFIX.fullmatch(text):
        return None
    digits = text.replace("-", "").lower()
    return digits if len(digits) <= 2 * ID_BYTES else None


def format_base32(value: bytes) -> str:
    """Return lower-case base32 without padding: fit for a NATS subject token."""
    return base64.b32encode(value).decode("ascii").rstrip("=").lower()


def parse_base32(text: str, field: str) -> bytes:
    """Return the bytes of `format_base32`.

    Raises:
        Invalid: not base32; nothing changed.
    """
    try:
        return base64.b32decode(text.upper() + "=" * (-len(text) % 8))
    except ValueError:
        raise Invalid(f"{field} is not base32 text ({len(text)} characters).") from None
