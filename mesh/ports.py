"""What the mesh needs of others, and what it offers to gateways, as Protocols.  No I/O here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from proto.messages import Reply, Request
from proto.streams import StreamId


class Requester(Protocol):
    """The one door from a gateway to a peer: in-process, the peer's socket or URL, or NATS."""

    async def request(self, request: Request) -> Reply:
        """Return the reply of a peer.  Never raises for a failure of the call: it is in `Reply.error`.

        A lost connection or a passed deadline is `Uncertain` for a call that may have been executed, and
        `Unavailable` (definite) where it certainly was not.  Cancelling the caller frees the work.
        """
        ...

    def written(self, page: str) -> None:
        """Say that the reply which carried this page has been written out completely."""
        ...

    async def close(self) -> None:
        """Release connections.  Calls in flight fail with `Unavailable`."""
        ...


@dataclass(frozen=True, slots=True)
class Head:
    """Where a stream ends at a peer: the last contiguous sequence and its chain hash."""

    sequence: int
    hash: bytes


@dataclass(frozen=True, slots=True)
class Segment:
    """Contiguous events of one stream, as they travel: `previous` is the hash before the first of them.

    Each event is (header bytes, salt or None, payload or None), exactly as stored.
    """

    stream: StreamId
    first: int
    previous: bytes
    events: tuple[tuple[bytes, bytes | None, bytes | None], ...]


@dataclass(frozen=True, slots=True)
class Applied:
    """What became of received segments: new heads; forks seen as (stream, sequence)."""

    heads: dict[StreamId, Head]
    forks: tuple[tuple[StreamId, int], ...] = ()


class EventLog(Protocol):
    """What replication needs of the log of a peer.

    Everything returned is durable: a group commit that returned from fsync holds it.
    """

    def heads(self) -> dict[StreamId, Head]:
        """Return the heads of all streams held, own ones included.  Cheap: kept in memory."""
        ...

    async def read(self, stream: StreamId, first: int, max_bytes: int) -> Segment | None:
        """Return contiguous stored events from `first` on: at least one, about `max_bytes`; None if none."""
        ...

    async def apply(self, segments: Sequence[Segment]) -> Applied:
        """Keep what extends a contiguous prefix, durably, before returning.

        Idempotent.  A segment that begins beyond the head, or whose chain does not join the head, keeps
        nothing of that stream.  The stream that this process life writes is never extended from outside
        (that would be a fork); older epochs of the own peer are, so that a restored directory gets back
        what others hold of it.
        """
        ...
