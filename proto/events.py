"""An event as bytes: header, salt, payload, and the hash that chains it to the one before.

The header is an array of ids and numbers, never a user's text, so the chain can be verified after payloads
are erased.  Hashes are taken over the bytes as stored, never over a re-encoding.  What the payloads say is
in `payloads`.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import NamedTuple

from proto.clock import Hlc
from proto.codec import decode, encode
from proto.errors import ProtocolError
from proto.ids import AgentId, PeerId, TenantId
from proto.limits import EVENT_BYTES
from proto.streams import Position, StreamId

HEADER_VERSION = 1
HASH_TAG = b"hyphae/event/1"
SALT_BYTES = 16
NO_HASH = bytes(32)  # before the first event of a stream
SEQUENCE_MAX = 2**53
PARTITION_MAX = 2**16

_FIELDS = 13


class Header(NamedTuple):
    """The thirteen fields of a header, in wire order."""

    version: int
    peer: PeerId
    ordinal: int
    random: bytes
    partition: int
    sequence: int
    wall_ms: int
    counter: int
    kind: str
    tenant: TenantId
    actor: AgentId
    payload_digest: bytes
    payload_bytes: int

    @property
    def stream(self) -> StreamId:
        return StreamId(self.peer, self.partition, self.ordinal, self.random)

    @property
    def position(self) -> Position:
        return Position(self.stream, self.sequence)

    @property
    def hlc(self) -> Hlc:
        return Hlc(self.wall_ms, self.counter)


@dataclass(frozen=True, slots=True)
class Event:
    """One event with its stored bytes.

    Args:
        header: the decoded header.
        header_bytes: exactly as written by its origin.
        salt: 16 bytes, or None once erased.
        payload: exactly as written by its origin, or None once erased.
        hash: SHA-256 over tag, previous hash and header bytes.
    """

    header: Header
    header_bytes: bytes
    salt: bytes | None
    payload: bytes | None
    hash: bytes


def payload_digest(salt: bytes, payload: bytes) -> bytes:
    """Return SHA-256(salt | payload): the salt keeps the digest from confirming a guess of the text."""
    return hashlib.sha256(salt + payload).digest()


def chain_hash(previous: bytes, header_bytes: bytes) -> bytes:
    """Return the hash of an event from that of the event before it (32 zero bytes for the first)."""
    return hashlib.sha256(HASH_TAG + previous + header_bytes).digest()


def seal(
    stream: StreamId,
    sequence: int,
    hlc: Hlc,
    kind: str,
    tenant: TenantId,
    actor: AgentId,
    payload: bytes,
    salt: bytes,
    previous: bytes,
) -> Event:
    """Make an event at its place in a stream.

    Raises:
        ProtocolError: header and payload exceed the size of one event; nothing was made.
    """
    header = Header(
        HEADER_VERSION,
        stream.peer,
        stream.ordinal,
        stream.random,
        stream.partition,
        sequence,
        hlc.wall_ms,
        hlc.counter,
        kind,
        tenant,
        actor,
        payload_digest(salt, payload),
        len(payload),
    )
    data = encode(header)
    if len(data) + len(payload) > EVENT_BYTES:
        raise ProtocolError(f"an event of kind {kind} has {len(payload)} bytes, limit {EVENT_BYTES}")
    return Event(header, data, salt, payload, chain_hash(previous, data))


def parse_header(data: bytes) -> Header:
    """Return the header of stored or received bytes.

    Raises:
        ProtocolError: not an array of thirteen fields of the right types and sizes, or another version.
    """
    fields = decode(data, max_bytes=4096)
    if not isinstance(fields, tuple) or len(fields) < 1:
        raise ProtocolError("an event header is not an array")
    if type(fields[0]) is not int:
        raise ProtocolError("an event header has no version")
    if fields[0] != HEADER_VERSION:
        raise ProtocolError(f"an event header has version {fields[0]}; this peer knows {HEADER_VERSION}")
    if len(fields) != _FIELDS:
        raise ProtocolError(f"an event header has {len(fields)} fields, expected {_FIELDS}")
    header = Header(*fields)
    sizes = (
        (header.peer, 16),
        (header.random, 8),
        (header.tenant, 16),
        (header.actor, 16),
        (header.payload_digest, 32),
    )
    numbers = (
        header.ordinal,
        header.partition,
        header.sequence,
        header.wall_ms,
        header.counter,
        header.payload_bytes,
    )
    if any(type(value) is not bytes or len(value) != size for value, size in sizes):
        raise ProtocolError("an event header holds an id of the wrong size")
    if any(type(n) is not int or not 0 <= n <= SEQUENCE_MAX for n in numbers) or header.sequence < 1:
        raise ProtocolError("an event header holds a number out of range")
    if header.partition > PARTITION_MAX:
        raise ProtocolError("an event header holds a partition out of range")
    if type(header.kind) is not str or not 1 <= len(header.kind) <= 40 or not header.kind.isascii():
        raise ProtocolError("an event header holds no kind")
    return header


def restore(header_bytes: bytes, salt: bytes | None, payload: bytes | None, previous: bytes) -> Event:
    """Return an event from stored or received bytes, checked against its own digest.

    Raises:
        ProtocolError: the header is malformed, or the payload is not the one that the header names.
    """
    header = parse_header(header_bytes)
    if payload is None and salt is not None:
        raise ProtocolError(f"event {header.sequence} has a salt without its payload")
    if payload is not None:
        if type(salt) is not bytes or len(salt) != SALT_BYTES or type(payload) is not bytes:
            raise ProtocolError(f"event {header.sequence} has a payload without its salt")
        if len(header_bytes) + len(payload) > EVENT_BYTES:
            raise ProtocolError(f"event {header.sequence} has {len(payload)} bytes, limit {EVENT_BYTES}")
        if len(payload) != header.payload_bytes or payload_digest(salt, payload) != header.payload_digest:
            raise ProtocolError(f"event {header.sequence} has a payload that its header does not name")
    return Event(header, header_bytes, salt, payload, chain_hash(previous, header_bytes))
