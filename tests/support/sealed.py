"""Real sealed events for tests: streams of any peer, made from a seed."""

from __future__ import annotations

import random
from collections.abc import Sequence

from mesh.ports import Segment
from mesh.segments import segment_of
from proto.clock import Hlc
from proto.events import NO_HASH, SALT_BYTES, Event, seal
from proto.ids import NO_TENANT, AgentId, PeerId
from proto.payloads import EpochOpened, encode_payload
from proto.streams import Position, StreamId

NOTED = "TestNoted"  # a kind that no version knows: kept and forwarded, never folded
NOBODY = AgentId(bytes(16))


def peer(number: int) -> PeerId:
    """Return a recognisable peer id."""
    return PeerId(number.to_bytes(16, "big"))


def stream(number: int, ordinal: int = 0, random_bytes: bytes | None = None) -> StreamId:
    """Return a stream of peer `number`; its random bytes follow from its ordinal unless given."""
    return StreamId(peer(number), 0, ordinal, random_bytes or ordinal.to_bytes(8, "big"))


def opened(at: StreamId, previous: Position | None, rng: random.Random, wall_ms: int = 1) -> Event:
    """Return the first event of a stream."""
    link = None if previous is None else (*previous.stream, previous.sequence)
    payload = encode_payload(EpochOpened(previous=link))
    salt = rng.randbytes(SALT_BYTES)
    return seal(at, 1, Hlc(wall_ms, 0), "EpochOpened", NO_TENANT, NOBODY, payload, salt, NO_HASH)


def noted(at: StreamId, sequence: int, previous: bytes, payload: bytes, rng: random.Random) -> Event:
    """Return a further event of a stream."""
    salt = rng.randbytes(SALT_BYTES)
    return seal(at, sequence, Hlc(sequence, 0), NOTED, NO_TENANT, NOBODY, payload, salt, previous)


def events(at: StreamId, count: int, *, seed: int = 0, size: int = 20, shared: int = 0) -> list[Event]:
    """Return the first `count` events of a stream.

    Args:
        seed: streams of different seeds differ after their first `shared` events.
        size: of each payload in bytes.
    """
    common = random.Random(f"{at} common")
    own = random.Random(f"{at} {seed}")
    out = [opened(at, None, common if shared else own)]
    for sequence in range(2, count + 1):
        rng = common if sequence <= shared else own
        out.append(noted(at, sequence, out[-1].hash, rng.randbytes(size), rng))
    return out


def segment(all_events: Sequence[Event], first: int = 1, last: int | None = None) -> Segment:
    """Return events `first` to `last` (inclusive) of a stream that is given from its beginning."""
    chosen = all_events[first - 1 : last]
    return segment_of(chosen, all_events[first - 2].hash if first > 1 else NO_HASH)
