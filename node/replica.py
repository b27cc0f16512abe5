"""The synchronous heart of a peer: one transaction takes own drafts and foreign segments in, and folds them.

No thread, clock, socket or randomness of its own: time and random bytes are arguments, so that the same code
runs under the writer thread of a peer and in the simulation.  After a failed transaction nothing of it is
kept, in the database or in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import apsw

from mcp_gateway.moments import format_time_us
from mesh.ports import Segment
from node.folding import Changes, Folding
from node.membership import Retired
from node.sqlite_log import Logged
from proto.clock import ZERO, observe, tick
from proto.errors import HyphaeError, ProtocolError, Unavailable
from proto.events import SALT_BYTES
from proto.ids import NO_TENANT, AgentId, MeshId, PeerId, TenantId
from proto.payloads import EpochOpened, Payload, WireFrontier, encode_payload, pack_frontier
from proto.streams import Position, StreamId

__all__ = ["Changes", "Draft", "Replica", "Written", "retired_text"]


@dataclass(frozen=True, slots=True)
class Draft:
    """An own event before it has a place.

    Args:
        build: given the frontier of what this peer holds at that moment, returns the payload.
    """

    tenant: TenantId
    actor: AgentId
    build: Callable[[WireFrontier], Payload]

    @classmethod
    def of(cls, tenant: TenantId, actor: AgentId, payload: Payload) -> Draft:
        """Return the draft of a payload that does not depend on the frontier."""
        return cls(tenant, actor, lambda _frontier: payload)


@dataclass(slots=True)
class Written:
    """The outcome of one transaction.

    Args:
        own: per draft, in order, its event or the error that kept it out.
        forks: places where a received segment contradicts the log.
    """

    own: list[Logged | HyphaeError]
    opened: list[Logged]
    changes: Changes
    forks: list[tuple[StreamId, int]]
    refused: int = 0


class Replica(Folding):
    """One data directory's log, everything folded from it, and the writing of it.

    Args:
        db: the writer's connection.
        peer: this peer; mesh: its mesh.
        space: its embedding space.
        random_bytes: source of epochs and salts.
    """

    def __init__(
        self,
        db: apsw.Connection,
        peer: PeerId,
        mesh: MeshId,
        space: str,
        random_bytes: Callable[[int], bytes],
        version: str = "",
    ) -> None:
        self._random, self._version = random_bytes, version
        self._epoch_random = random_bytes(8)
        super().__init__(db, peer, mesh, space)

    # -- writing

    def write(self, drafts: Sequence[Draft], segments: Sequence[Segment], now_us: int) -> Written:
        """Append own drafts and keep what extends foreign streams, in one durable transaction.

        Raises:
            apsw.Error: the database refused; nothing was kept and memory was rebuilt.
        """
        written = Written([], [], Changes(), [])
        self.hlc = observe(self.hlc, self._unseen_hlc, now_us // 1000)  # seen in an earlier process life
        self._unseen_hlc = ZERO
        try:
            with self.db:
                for segment in segments:
                    self._receive(segment, now_us, written)
                for draft in drafts:
                    self._append(draft, now_us, written)
                self._settle(written.changes)
                self.log.write_heads({e.event.header.stream for e in written.changes.events})
        except BaseException:
            self.reload()
            raise
        return written

    def _receive(self, segment: Segment, now_us: int, written: Written) -> None:
        try:
            kept, fork = self.log.extend(segment, now_us)
        except ProtocolError:
            written.refused += 1
            return
        if fork is not None:
            written.forks.append(fork)
            self._set_apart(*fork, b"", now_us)
        for logged in kept:
            self.hlc = observe(self.hlc, logged.event.header.hlc, now_us // 1000)
            self._take(logged, written.changes)

    def quarantine(self, stream: StreamId, sequence: int, other: bytes, now_us: int) -> None:
        """Remember, durably, that a stream has two histories; see `SqliteLog.quarantine`."""
        with self.db:
            self._set_apart(stream, sequence, other, now_us)

    def _set_apart(self, stream: StreamId, sequence: int, other: bytes, now_us: int) -> None:
        if stream == self.log.current:
            self._epoch_random = self._random(8)  # this process life goes on in a stream of its own
        self.log.quarantine(stream, sequence, other, now_us)

    def _append(self, draft: Draft, now_us: int, written: Written) -> None:
        ended = self.retired(self.peer)
        if ended is not None:
            written.own.append(Unavailable(f"{retired_text(ended)} Nothing was stored."))
            return
        stream = self.log.current or self._open_epoch(now_us, written)
        try:
            payload = draft.build(pack_frontier(self.frontier()))
            data = encode_payload(payload)
            logged = self._put(stream, type(payload).__name__, draft.tenant, draft.actor, data, now_us)
        except HyphaeError as error:
            written.own.append(error)
            return
        written.own.append(logged)
        self._take(logged, written.changes)

    def _open_epoch(self, now_us: int, written: Written) -> StreamId:
        """Mint the epoch of this process life with its first event."""
        newest = self.log.newest_own()
        ordinal = 0 if newest is None else newest.ordinal + 1
        stream = StreamId(self.peer, 0, ordinal, self._epoch_random)
        previous, previous_hash = None, b""
        if newest is not None:
            head = self.log.heads()[newest]
            previous = pack_frontier((Position(newest, head.sequence),))[0]
            previous_hash = head.hash
        payload = EpochOpened(previous=previous, previous_hash=previous_hash, version=self._version)
        data = encode_payload(payload)
        logged = self._put(stream, "EpochOpened", NO_TENANT, AgentId(bytes(16)), data, now_us)
        written.opened.append(logged)
        self._take(logged, written.changes)
        return stream

    def _put(
        self, stream: StreamId, kind: str, tenant: TenantId, actor: AgentId, data: bytes, now_us: int
    ) -> Logged:
        hlc = tick(self.hlc, now_us // 1000)
        salt = self._random(SALT_BYTES)
        logged = self.log.append(stream, hlc, kind, tenant, actor, data, salt, now_us)
        self.hlc = hlc
        return logged


def retired_text(ended: Retired) -> str:
    """Return what a retired peer says of itself, and what to do."""
    why = f" ({ended.why})" if ended.why else ""
    when = format_time_us(ended.at_ms * 1000)
    return (
        f"this peer was retired on {when}{why}: it reads on and stores nothing."
        " Use another peer; to join anew, start it with an empty directory and an invitation."
    )
