"""What events say: one strict, frozen model per kind, and the table from kind to model.

A field is never removed or given another meaning; a new shape is a new kind, and old ones are upcast on
read.  A kind that is not in the table is kept, forwarded, counted and folded after the upgrade.  Whole
numbers stand for fractions (salience in ten-thousandths), so that every peer decides alike.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from proto import limits
from proto.codec import decode, encode
from proto.errors import ProtocolError
from proto.ids import PeerId
from proto.streams import Frontier, Position, StreamId

Id16 = Annotated[bytes, Field(min_length=16, max_length=16)]
Ids = Annotated[tuple[Id16, ...], Field(max_length=limits.PAGE * 4)]
Name = Annotated[str, Field(min_length=1, max_length=128)]
Names = Annotated[tuple[Name, ...], Field(max_length=limits.FILTER_ITEMS)]
Whole = Annotated[int, Field(ge=0, le=2**53)]
Score = Annotated[int, Field(ge=-20_000, le=20_000)]  # ten-thousandths
Unit = Annotated[int, Field(ge=0, le=10_000)]  # ten-thousandths
WirePosition = tuple[Id16, Whole, Whole, Annotated[bytes, Field(min_length=8, max_length=8)], Whole]
WireFrontier = Annotated[tuple[WirePosition, ...], Field(max_length=4096)]

CELL_TYPES = ("Decision", "Constraint", "Risk", "Pattern", "Lesson", "Fact", "Preference", "Context", "Task")
CellType = Literal[
    "Decision", "Constraint", "Risk", "Pattern", "Lesson", "Fact", "Preference", "Context", "Task"
]
PRIVATE = "private"


class Payload(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True, extra="forbid", hide_input_in_errors=True)


class EpochOpened(Payload):
    """First event of a stream: the link to what this directory wrote before, as far as it knows."""

    previous: WirePosition | None = None
    previous_hash: bytes = b""
    version: str = ""


class PeerJoined(Payload):
    """A member of the mesh, signed by itself and by the member that invited it."""

    peer: Id16
    public_key: Annotated[bytes, Field(min_length=32, max_length=32)]
    name: Name
    inviter: Id16
    signature: bytes
    inviter_signature: bytes


class PeerRetired(Payload):
    """The end of a membership: streams of this peer count up to the frontier named, each by itself.

    No link is followed, and a stream that is not named does not count.  Several about one peer add up.
    """

    peer: Id16
    frontier: WireFrontier
    why: str = ""


class KeyIssued(Payload):
    """A key as all peers know it: the public half, and whom it authenticates."""

    key_id: Annotated[str, Field(min_length=4, max_length=40)]
    public_key: Annotated[bytes, Field(min_length=32, max_length=32)]
    tenant: Name
    owner: Name
    agent: Name
    scopes: Names
    projects: tuple[tuple[Name, Literal["r", "rw"]], ...] | None = None
    default_project: Name | None = None


class KeyRevoked(Payload):
    key_id: Annotated[str, Field(min_length=4, max_length=40)]


class Vector(Payload):
    """A direction, quantised once at its origin: int8 values, the sum of their squares, their space."""

    space: Annotated[str, Field(min_length=1, max_length=200)]
    values: Annotated[bytes, Field(min_length=1, max_length=4096)]
    norm: Whole


class CellStored(Payload):
    cell: Id16
    content: Annotated[str, Field(min_length=1, max_length=limits.CONTENT_BYTES)]
    cell_type: CellType
    salience: Unit
    project: Name
    owner: Name
    agent: Name
    layer: Annotated[int, Field(ge=0, le=2)] = 0
    session: Id16 | None = None
    tags: Names = ()
    supersedes: Id16 | None = None
    derived_from: Annotated[tuple[Id16, ...], Field(max_length=limits.DERIVED_FROM)] = ()
    vector: Vector | None = None
    embedded_chars: Whole = 0  # how much of the content the vector stands for
    match_bonus: Score = 0
    request_digest: bytes = b""  # of the arguments, so that a key used for another payload is seen


class BeaconPlaced(Payload):
    beacon: Id16
    interest: Annotated[str, Field(min_length=1, max_length=limits.INTEREST_BYTES)]
    vector: Vector | None = None  # None for "*"
    threshold: Score
    agent: Name
    owner: Name
    project: Name | None = None
    readable: Names | None = None  # projects that the key could read when it placed; None: all of the tenant
    cell_types: Names = ()
    layers: Annotated[tuple[int, ...], Field(max_length=3)] = ()
    min_salience: Unit = 0
    include_own: bool = False
    strict: bool = False
    ttl_s: Whole
    expires_ms: Whole
    frontier: WireFrontier


class BeaconWithdrawn(Payload):
    beacon: Id16
    frontier: WireFrontier


class BeaconsRenewed(Payload):
    """Draining keeps an agent's beacons alive: those named expire at the time given, if that is later."""

    beacons: Ids
    expires_ms: Whole


class SessionOpened(Payload):
    session: Id16
    agent: Name
    owner: Name
    project: Name
    title: Annotated[str, Field(max_length=limits.TITLE_CHARS)] = ""
    frontier: WireFrontier


class SessionClosed(Payload):
    session: Id16
    commits: Ids = ()


class PageListed(Payload):
    """A page that a reader was given (`refs`), and earlier pages that it has certainly read (`commits`)."""

    page: Id16
    session: Id16 | None = None
    mark: bytes = b""
    refs: Ids = ()
    commits: Ids = ()


class Scene(Payload):
    """A group of related memories, or in a further event those of its members that found no room before."""

    scene: Id16
    title: Annotated[str, Field(min_length=1, max_length=limits.TITLE_CHARS)]
    medoid: Id16  # the member that the others were compared with
    summary: Id16  # a cell on layer 1
    from_ms: Whole  # when its first and last members were stored, as the peer that made it knew them
    to_ms: Whole
    members: tuple[Id16, ...]


class SceneConsolidated(Payload):
    """All scenes of a project as one run found them, in one event or several; the newest whole run counts.

    `retired` names summaries that no scene has any more; it holds whether or not the run counts.
    """

    run: Id16
    project: Name
    owner: Name | None = None  # whose, in the project that is each owner's own
    part: Annotated[int, Field(ge=1, le=limits.SCENE_PARTS)] = 1
    parts: Annotated[int, Field(ge=1, le=limits.SCENE_PARTS)] = 1
    scenes: tuple[Scene, ...] = ()
    retired: tuple[Id16, ...] = ()


MODELS: dict[str, type[Payload]] = {
    model.__name__: model
    for model in (
        EpochOpened,
        PeerJoined,
        PeerRetired,
        KeyIssued,
        KeyRevoked,
        CellStored,
        BeaconPlaced,
        BeaconWithdrawn,
        BeaconsRenewed,
        SessionOpened,
        SessionClosed,
        PageListed,
        SceneConsolidated,
    )
}
RESERVED = (
    "CellErased",
    "CellRevectored",
    "CellAffirmed",
    "ContradictionFound",
    "ContradictionDismissed",
    "CellPromoted",
    "CellDemoted",
    "TenantCreated",
    "StreamQuarantined",
    "RangeDamaged",
    "LedgerRecorded",
)


def encode_payload(payload: Payload) -> bytes:
    """Return the msgpack map of a payload; fields at their default are left out."""
    return encode(payload.model_dump(exclude_defaults=True))


def decode_payload(kind: str, data: bytes) -> Payload | None:
    """Return the payload of a kind, or None for a kind that this version does not know.

    Raises:
        ProtocolError: the bytes do not say what the kind requires.
    """
    model = MODELS.get(kind)
    if model is None:
        return None
    value: Any = decode(data, max_bytes=limits.EVENT_BYTES)
    try:
        return model.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ProtocolError(
            f"a {kind} event is malformed at {where or 'its root'}: {first['type']}"
        ) from None


def pack_frontier(frontier: Frontier) -> WireFrontier:
    """Return a frontier as plain tuples."""
    return tuple((s.peer, s.partition, s.ordinal, s.random, n) for s, n in frontier)


def unpack_position(wire: WirePosition) -> Position:
    """Return the position that plain tuples stand for."""

    peer, partition, ordinal, random, sequence = wire
    return Position(StreamId(PeerId(peer), partition, ordinal, random), sequence)


def unpack_frontier(wire: WireFrontier) -> Frontier:
    """Return the frontier that plain tuples stand for."""
    return tuple(unpack_position(position) for position in wire)
