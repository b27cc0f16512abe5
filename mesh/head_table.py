"""The durable heads of all streams held here, and the hash of each peer's streams as digests name it.

A hash is computed when somebody asks and remembered until a head of that peer moves.  Hashes once true here,
or once covered by a pull, stay *known*: whoever shows one of them has nothing that is missing here.  Pure.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from mesh.ports import Head
from mesh.segments import NOTHING
from proto.ids import PeerId
from proto.streams import StreamId, digest_by_peer

_KNOWN_STATES = 64  # per peer; one a digest at most, so about a minute


class HeadTable:
    """Heads by stream.  Only `load` moves one back."""

    def __init__(self) -> None:
        self._by_peer: dict[PeerId, dict[StreamId, Head]] = {}
        self._hashes: dict[PeerId, bytes] = {}
        self._known: dict[PeerId, deque[bytes]] = {}

    def load(self, heads: Mapping[StreamId, Head]) -> None:
        """Replace everything, and forget what was known."""
        self._by_peer.clear()
        self._hashes.clear()
        self._known.clear()
        for stream, head in heads.items():
            if head.sequence > 0:
                self._by_peer.setdefault(stream.peer, {})[stream] = head

    def advance(self, stream: StreamId, head: Head) -> bool:
        """Take a new head if it is further on; tell whether it was."""
        streams = self._by_peer.setdefault(stream.peer, {})
        if head.sequence <= streams.get(stream, NOTHING).sequence:
            return False
        streams[stream] = head
        self._hashes.pop(stream.peer, None)
        return True

    def get(self, stream: StreamId) -> Head:
        """Return the head of a stream; sequence 0 when nothing is held."""
        return self._by_peer.get(stream.peer, {}).get(stream, NOTHING)

    def of_peer(self, peer: PeerId) -> Mapping[StreamId, Head]:
        """Return the heads of one peer's streams, not to be changed."""
        return self._by_peer.get(peer, {})

    def events_of(self, peer: PeerId) -> int:
        """Return how many events of a peer are held."""
        return sum(head.sequence for head in self.of_peer(peer).values())

    def states(self) -> dict[PeerId, bytes]:
        """Return the 16-byte hash of every peer's streams, as a digest carries them."""
        return {peer: self.state_of(peer) for peer, streams in self._by_peer.items() if streams}

    def state_of(self, peer: PeerId) -> bytes:
        """Return the hash of what is held of a peer, 16 bytes; b"" if nothing is."""
        streams = self._by_peer.get(peer)
        if not streams:
            return b""
        state = self._hashes.get(peer)
        if state is None:
            state = digest_by_peer((s, h.sequence, h.hash) for s, h in streams.items())[peer]
            self._hashes[peer] = state
            self.cover(peer, state)
        return state

    def cover(self, peer: PeerId, state: bytes) -> None:
        """Note that all that this hash stands for is held here."""
        known = self._known.setdefault(peer, deque(maxlen=_KNOWN_STATES))
        if state not in known:
            known.append(state)

    def doubt(self, peer: PeerId) -> None:
        """Take back what was known of a peer: one of its streams is forked, so hashes no longer tell."""
        self._known.pop(peer, None)

    def knows(self, peer: PeerId, state: bytes) -> bool:
        """Tell whether all that a hash stands for is certainly held here."""
        return state == self.state_of(peer) or state in self._known.get(peer, ())
