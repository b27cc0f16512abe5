"""Which members are known to hold an event durably: counted for write concern, never guessed.

Evidence is what a member says of its own disk: an acknowledgement after its group commit, the positions in a
pull request, a digest that shows what we hold, and, of a stream's own peer, that it published the event.  A
member counts once whatever runs under its id, and only by its present process: one that was heard under
another boot may have lost its disk, and counts again when a process of it has proven to live after that.
Pure; `now` is milliseconds of the engine's clock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from mesh.contacts import Contact, Contacts
from mesh.digests import Ack, Sender, encode_ack
from mesh.effects import Channel, Confirmed, Publish
from mesh.head_table import HeadTable
from mesh.ports import Head, Segment
from mesh.segments import last_of
from proto.events import chain_hash
from proto.ids import PeerId
from proto.streams import StreamId

_REMEMBERED = 4_096  # own events whose hash is kept: some seconds of a busy peer; digests prove what is older


@dataclass(slots=True)
class _Holder:
    """One member.

    Args:
        boot: of the process that speaks for it; None while two were heard and none has proven to be the later.
        since: when that came to be.
        held: the sequence up to which it is known to hold a stream.
    """

    boot: bytes | None
    since: int
    held: dict[StreamId, int] = field(default_factory=dict)


class Confirmations:
    """Evidence by member.

    Args:
        me: this process.
        heads: what is durable here.
        contacts: who was heard.
    """

    def __init__(self, me: Sender, heads: HeadTable, contacts: Contacts) -> None:
        self._me = me
        self._heads = heads
        self._contacts = contacts
        self._holders: dict[PeerId, _Holder] = {}
        self._stream: StreamId | None = None  # that this process writes
        self._hashes: deque[tuple[int, bytes]] = deque(maxlen=_REMEMBERED)

    # -- evidence

    def committed(self, segments: Iterable[Segment]) -> None:
        """Take own durable events: only a confirmation that names the hash of one counts."""
        for segment in segments:
            if segment.stream != self._stream:
                self._stream = segment.stream
                self._hashes.clear()
            tail = segment.previous
            for sequence, (header, _, _) in enumerate(segment.events, segment.first):
                tail = chain_hash(tail, header)
                self._hashes.append((sequence, tail))

    def heard(self, contact: Contact, now: int) -> None:
        """Take the newest digest of a process."""
        sender, sent_after = contact.sender, contact.sent_after
        holder = self._holders.get(sender.peer)
        if holder is None:
            self._holders[sender.peer] = _Holder(sender.boot, now)
        elif holder.boot != sender.boot:
            if sent_after is not None and sent_after >= holder.since:
                self._holders[sender.peer] = _Holder(sender.boot, now)
            elif holder.boot is not None:
                self._holders[sender.peer] = _Holder(None, now)
        if self._stream is not None and self._shows_what_we_hold(contact, self._me.peer):
            self._note(sender, self._stream, self._heads.get(self._stream).sequence)

    def confirm(self, sender: Sender, heads: Mapping[StreamId, Head]) -> list[Confirmed]:
        """Take durable heads that a process names; only of the stream that this process writes do they count."""
        head = None if self._stream is None else heads.get(self._stream)
        if self._stream is None or head is None or self._hash_at(head.sequence) != head.hash:
            return []
        return [Confirmed()] if self._note(sender, self._stream, head.sequence) else []

    def originated(self, sender: Sender, segments: Sequence[Segment]) -> None:
        """Take live events: what a peer publishes of its own is durable there."""
        for segment in segments:
            if segment.stream.peer == sender.peer:
                self._note(sender, segment.stream, last_of(segment))

    def keep(self, members: Collection[PeerId]) -> None:
        """Forget who is no member."""
        self._holders = {peer: holder for peer, holder in self._holders.items() if peer in members}

    # -- what follows

    def acknowledge(self, moved: Iterable[StreamId]) -> list[Publish]:
        """Return, per peer that is heard, one message that says how far its newest stream is durable here.

        Args:
            moved: streams that one commit has extended.
        """
        newest = {(stream.peer, stream.partition): stream for stream in sorted(moved)}
        named: dict[PeerId, dict[StreamId, Head]] = {}
        for stream in newest.values():
            if stream.peer in self._holders and stream.peer != self._me.peer:
                named.setdefault(stream.peer, {})[stream] = self._heads.get(stream)
        return [
            Publish(Channel.ACK, encode_ack(Ack(self._me, heads)), peer=peer) for peer, heads in named.items()
        ]

    def count(self, stream: StreamId, sequence: int, members: Collection[PeerId]) -> int:
        """Return how many members are known to hold an event durably, this peer included; 0: not even it."""
        if self._heads.get(stream).sequence < sequence:
            return 0
        return 1 + sum(
            peer in members and peer != self._me.peer and self._holds(peer, holder, stream, sequence)
            for peer, holder in self._holders.items()
        )

    # -- inside

    def _holds(self, peer: PeerId, holder: _Holder, stream: StreamId, sequence: int) -> bool:
        if holder.boot is None:
            return False
        if holder.held.get(stream, 0) >= sequence:
            return True
        contact = self._contacts.get(Sender(peer, holder.boot))
        return contact is not None and self._shows_what_we_hold(contact, stream.peer)

    def _shows_what_we_hold(self, contact: Contact, peer: PeerId) -> bool:
        """Tell whether a digest shows the very heads that we have of a peer's streams."""
        state = contact.digest.states.get(peer)
        return state is not None and state == self._heads.state_of(peer)

    def _note(self, sender: Sender, stream: StreamId, sequence: int) -> bool:
        holder = self._holders.get(sender.peer)
        if holder is None or holder.boot != sender.boot or sender.peer == self._me.peer:
            return False
        if sequence <= holder.held.get(stream, 0):
            return False
        if stream not in holder.held:  # its stream or ours: one of each is enough
            holder.held = {s: n for s, n in holder.held.items() if s.peer != stream.peer}
        holder.held[stream] = sequence
        return True

    def _hash_at(self, sequence: int) -> bytes | None:
        if not self._hashes or not self._hashes[0][0] <= sequence <= self._hashes[-1][0]:
            return None
        return self._hashes[sequence - self._hashes[0][0]][1]
