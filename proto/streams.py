"""Streams, version vectors, epoch links and frontiers: positions in the log of the whole mesh.

A stream is what one peer writes in one process life (epoch) and partition; sequences start at 1 and 0 means
none.  A *frontier* names, per peer and partition, the newest epoch known and what is held of it; older epochs
are reached by the links that each epoch's first event carries.  A position that neither an entry nor a link
covers is *beyond*, whatever its ordinal: that is what keeps restored and cloned directories from hiding
anything.  Pure; the caller owns all state.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from proto.ids import PeerId, digest


class StreamId(NamedTuple):
    """One append-only sequence of events.  Ordered by peer, partition, then epoch."""

    peer: PeerId
    partition: int
    ordinal: int
    random: bytes  # 8 bytes, minted at process start


class Position(NamedTuple):
    """An event's place."""

    stream: StreamId
    sequence: int


VersionVector = Mapping[StreamId, int]
Links = Mapping[StreamId, Position | None]  # epoch -> what its EpochOpened names (None: a first epoch)
Frontier = tuple[Position, ...]  # usually one per (peer, partition), sorted


def merge(a: VersionVector, b: VersionVector) -> dict[StreamId, int]:
    """Return the element-wise maximum; what is zero in both is left out."""
    out = {stream: sequence for stream, sequence in a.items() if sequence > 0}
    for stream, sequence in b.items():
        if sequence > out.get(stream, 0):
            out[stream] = sequence
    return out


def descends(a: VersionVector, b: VersionVector) -> bool:
    """Tell whether `a` holds all that `b` holds."""
    return all(a.get(stream, 0) >= sequence for stream, sequence in b.items())


def coverage(frontier: Frontier, links: Links) -> dict[StreamId, int]:
    """Return per stream the last sequence that counts as *before* the frontier.

    From each entry the links are followed back; an epoch reached counts up to the sequence that the link
    into it names.  A link that leaves its peer or partition is not followed: nobody's event can hide
    anybody else's.  A stream that is absent is wholly beyond.
    """
    covered: dict[StreamId, int] = {}
    for entry in frontier:
        position: Position | None = entry
        while position is not None:
            stream, sequence = position
            if covered.get(stream, -1) >= sequence:
                break  # this path was walked with at least as much
            covered[stream] = sequence
            position = links.get(stream)
            if position is not None and position.stream[:2] != stream[:2]:
                break
    return covered


def is_before(frontier: Frontier, links: Links, position: Position) -> bool:
    """Tell whether a position lies before the frontier; what is not known to be before is beyond."""
    return position.sequence <= coverage(frontier, links).get(position.stream, 0)


def frontier_of(held: VersionVector, links: Links) -> Frontier:
    """Return the frontier of what a peer holds.

    Newest epoch first per (peer, partition); a further entry for an epoch of which more is held than the
    links of the entries so far cover (only after a restore or a clone).
    """
    out: list[Position] = []
    groups: dict[tuple[PeerId, int], list[StreamId]] = {}
    for stream, sequence in held.items():
        if sequence > 0:
            groups.setdefault((stream.peer, stream.partition), []).append(stream)
    for group in sorted(groups):
        entries: list[Position] = []
        covered: dict[StreamId, int] = {}
        for stream in sorted(groups[group], reverse=True):
            if not entries or held[stream] > covered.get(stream, 0):
                entries.append(Position(stream, held[stream]))
                covered = coverage(tuple(entries), links)
        out.extend(entries)
    return tuple(out)


def digest_by_peer(heads: Iterable[tuple[StreamId, int, bytes]]) -> dict[PeerId, bytes]:
    """Return one 16-byte hash per peer over its streams' (id, sequence, head hash), order-free."""
    groups: dict[PeerId, list[tuple[StreamId, int, bytes]]] = {}
    for head in heads:
        groups.setdefault(head[0].peer, []).append(head)
    out: dict[PeerId, bytes] = {}
    for peer, rows in groups.items():
        parts: list[bytes] = []
        for stream, sequence, head_hash in sorted(rows):
            parts += [
                stream.partition.to_bytes(4, "big"),
                stream.ordinal.to_bytes(8, "big"),
                stream.random,
                sequence.to_bytes(8, "big"),
                head_hash,
            ]
        out[peer] = digest("heads", *parts)[:16]
    return out
