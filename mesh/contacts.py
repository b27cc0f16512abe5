"""Who was heard, when, and since when we are known to hold all that they held.

A contact is one process (peer and boot).  Clocks of different processes are never compared: each digest
echoes the number of the newest digest heard from us, and we remember when we sent that one.  Silence is for
routing; it never changes membership.  Pure; `now` is milliseconds of our own monotonic clock.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from mesh.digests import Digest, Sender
from mesh.engine_config import EngineConfig
from mesh.head_table import HeadTable
from proto.ids import PeerId

_ANNOUNCED = 128  # own digests whose time of sending is remembered: two minutes


@dataclass(slots=True)
class Contact:
    """One process that was heard.

    Args:
        digest: the newest by its number.
        heard_at: when it arrived.
        sent_after: a moment of our clock after which it was certainly sent; None if it echoes nothing.
    """

    digest: Digest
    heard_at: int
    sent_after: int | None

    @property
    def sender(self) -> Sender:
        return self.digest.sender


class Contacts:
    """All processes heard lately, bounded per peer id.

    Args:
        me: this process.
        heads: what is held here.
    """

    def __init__(self, me: Sender, config: EngineConfig, heads: HeadTable) -> None:
        self._me = me
        self._config = config
        self._heads = heads
        self._contacts: dict[Sender, Contact] = {}
        self._announced: OrderedDict[int, int] = OrderedDict()
        self._caught_up: dict[PeerId, int] = {}
        self._drained: dict[PeerId, int] = {}
        self._retired: frozenset[PeerId] = frozenset()
        self._retired_at = -1  # when they were last seen to have changed

    def __iter__(self) -> Iterator[Contact]:
        return iter(tuple(self._contacts.values()))

    def get(self, sender: Sender) -> Contact | None:
        return self._contacts.get(sender)

    def announced(self, number: int, now: int) -> None:
        """Remember when our own digest of this number was sent."""
        self._announced[number] = now
        while len(self._announced) > _ANNOUNCED:
            self._announced.popitem(last=False)

    def heard(self, digest: Digest, now: int) -> tuple[Contact | None, bool]:
        """Take a digest.

        Returns:
            The contact, or None for a digest older than one already heard; and whether it is a new process.
        """
        known = self._contacts.get(digest.sender)
        if known is not None and digest.number <= known.digest.number:
            return None, False
        sent_after = self._announced.get(digest.heard.get(self._me, 0))
        contact = Contact(digest, now, sent_after)
        self._contacts[digest.sender] = contact
        if known is None:
            self._bound(digest.sender.peer)
        return contact, known is None

    def note_covered(self, sender: Sender, hopeless: Mapping[PeerId, bytes]) -> None:
        """Record that we caught up, if we hold all that the newest digest of this process stands for.

        Args:
            hopeless: states that a fork keeps us from reaching: what can be had of them is here.
        """
        contact = self._contacts.get(sender)
        if contact is None or contact.sent_after is None:
            return
        if contact.sent_after <= self._caught_up.get(sender.peer, -1):
            return
        unknown = {p: s for p, s in contact.digest.states.items() if not self._heads.knows(p, s)}
        if all(hopeless.get(peer) == state for peer, state in unknown.items()):
            self._drained[sender.peer] = max(contact.sent_after, self._drained.get(sender.peer, -1))
        if not unknown:
            self._caught_up[sender.peer] = contact.sent_after

    def caught_up(self, peer: PeerId) -> int | None:
        """Return the latest moment known such that all that this peer held then is held here now."""
        return self._caught_up.get(peer)

    def behind_since(
        self, peers: Iterable[PeerId], retired: frozenset[PeerId], since: int, now: int
    ) -> dict[PeerId, bool]:
        """Return those of the peers that may have held something at a moment that could be had and is not here.

        What a retired peer held and what counts of it was held by whoever retired it: so the others must be caught
        up with since that was known.  The value tells whether a process of the peer is heard; one that is silent
        may stay in doubt for ever.
        """
        if retired != self._retired:
            self._retired, self._retired_at = retired, now
        since = max(since, self._retired_at)
        heard = {sender.peer for sender in self._contacts if not self.is_silent(sender, now)}
        return {peer: peer in heard for peer in peers if self._drained.get(peer, -1) <= since}

    def echoes(self) -> dict[Sender, int]:
        """Return the number of the newest digest by process, for our own digest."""
        return {sender: contact.digest.number for sender, contact in self._contacts.items()}

    def is_silent(self, sender: Sender, now: int) -> bool:
        """Tell whether a process has not been heard for `silent_after_ms`."""
        contact = self._contacts.get(sender)
        return contact is None or now - contact.heard_at >= self._config.silent_after_ms

    def forget(self, now: int) -> list[Sender]:
        """Drop and return the processes not heard for `forget_after_ms`."""
        gone = [s for s, c in self._contacts.items() if now - c.heard_at >= self._config.forget_after_ms]
        for sender in gone:
            del self._contacts[sender]
        return gone

    def keep(self, members: Iterable[PeerId]) -> list[Sender]:
        """Drop and return the processes of peers that are no members."""
        members = frozenset(members)
        gone = [sender for sender in self._contacts if sender.peer not in members]
        for sender in gone:
            del self._contacts[sender]
        return gone

    def next_forget(self) -> int | None:
        """Return when the next process will be forgotten if it stays silent."""
        heard = min((c.heard_at for c in self._contacts.values()), default=None)
        return None if heard is None else heard + self._config.forget_after_ms

    def _bound(self, peer: PeerId) -> None:
        of_peer = [c for s, c in self._contacts.items() if s.peer == peer]
        if len(of_peer) > self._config.boots_per_peer:
            oldest = min(of_peer, key=lambda c: c.heard_at)
            del self._contacts[oldest.sender]
