"""Who is asked for what, when: range pulls towards the processes that are ahead of us.

A difference in a digest, or a gap in live events, makes a *want*: one peer's streams from one process.  Wants
become pulls under these rules: one pull per process at a time, one peer's streams from one process at a time,
a bounded number in all, backing off from who failed or was busy.  A pull goes on page by page while it makes
progress.  Pure; `now` is milliseconds of the engine's clock.

Source: range anti-entropy after Demers et al., "Epidemic Algorithms for Replicated Database Maintenance"
(1987), with digests per peer instead of a version vector per message.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from mesh.contacts import Contact, Contacts
from mesh.digests import POSITIONS_MAX, PULL_ID_BYTES, PullReply, PullRequest, Sender, encode_pull
from mesh.effects import Channel, Publish
from mesh.engine_config import EngineConfig
from mesh.head_table import HeadTable
from mesh.ports import Head
from proto.ids import PeerId
from proto.streams import StreamId


@dataclass(slots=True)
class Flight:
    """A pull under way.

    Args:
        states: of the peers asked for, the hash that the digest showed (absent: asked for a gap).
        held: events held of these peers when the page was asked for.
        deadline: when the page is given up; None while it is being applied.
        heads: what the last page said of the server.
    """

    id: bytes
    sender: Sender
    peers: tuple[PeerId, ...]
    states: dict[PeerId, bytes]
    held: int
    deadline: int | None
    heads: dict[StreamId, Head]
    more: bool = False


@dataclass(frozen=True, slots=True)
class _BackOff:
    until: int
    failures: int


class Pulls:
    """Wants, pulls under way, and who is left alone for a while.

    Args:
        me: this process.
        heads: what is held here.
        contacts: who was heard.
        rng: for ids and jitter.
        counters: counts `pulls`, `pages`, `pull_time_outs`, `pull_failures`, `busy_heard`, `stalled`.
    """

    def __init__(
        self,
        me: Sender,
        config: EngineConfig,
        heads: HeadTable,
        contacts: Contacts,
        rng: random.Random,
        counters: Counter[str],
    ) -> None:
        self.forked: set[StreamId] = set()
        self._me = me
        self._config = config
        self._heads = heads
        self._contacts = contacts
        self._rng = rng
        self._counters = counters
        self._wants: dict[Sender, dict[PeerId, int]] = {}  # from when on it may be pulled
        self._hopeless: dict[Sender, dict[PeerId, bytes]] = {}  # states that a fork keeps us from reaching
        self._flights: dict[bytes, Flight] = {}
        self._back_off: dict[Sender, _BackOff] = {}

    # -- wants

    def compare(self, contact: Contact, now: int) -> None:
        """Want what the newest digest of a process shows and we do not know."""
        digest, old = contact.digest, self._wants.get(contact.sender, {})
        hopeless = self._hopeless.get(contact.sender, {})
        wants = {
            peer: old.get(peer, now + self._config.settle_ms)
            for peer, state in sorted(digest.states.items())
            if not self._heads.knows(peer, state) and hopeless.get(peer) != state
        }
        self._set_wants(contact.sender, wants)
        if not wants:
            self._contacts.note_covered(contact.sender, hopeless)

    def want(self, sender: Sender, peer: PeerId, now: int) -> None:
        """Want one peer's streams at once: something of it was seen to be missing."""
        self._wants.setdefault(sender, {})[peer] = now

    def moved(self, peers: Iterable[PeerId]) -> None:
        """Drop the wants that heads which have just moved have made needless."""
        changed = set(peers)
        for sender, wants in list(self._wants.items()):
            contact = self._contacts.get(sender)
            for peer in sorted(changed & wants.keys()) if contact is not None else ():
                if self._is_known(contact, peer):
                    del wants[peer]
            if not wants:
                del self._wants[sender]
                self._contacts.note_covered(sender, self._hopeless.get(sender, {}))

    def forget(self, senders: Iterable[Sender]) -> None:
        """Forget processes that are gone or no members; their pulls run into their time-out."""
        for sender in senders:
            self._wants.pop(sender, None)
            self._hopeless.pop(sender, None)
            self._back_off.pop(sender, None)

    def clear(self) -> None:
        """Give up everything: the connection is gone, and digests will tell again.

        Pages that have landed and wait for the log still count, or a connection that comes and goes while the
        disk hangs would let them pile up.
        """
        self._wants.clear()
        self._flights = {id_: flight for id_, flight in self._flights.items() if flight.deadline is None}
        self._back_off.clear()

    # -- pulls

    def start(self, now: int) -> list[Publish]:
        """Return the requests that may go out now."""
        out: list[Publish] = []
        for sender in list(self._wants):
            if len(self._flights) >= self._config.outbound_pulls:
                break
            if self._ready_at(sender, now) > now:
                continue
            wants = self._wants[sender]
            peers = [p for p in sorted(wants) if wants[p] <= now and p not in self._claimed()]
            out += self._take_off(sender, peers, now)
        return out

    def owner(self, reply: PullReply) -> Flight | None:
        """Return the pull that a reply belongs to, if it is awaited."""
        flight = self._flights.get(reply.id)
        return flight if flight is not None and flight.deadline is not None else None

    def landed(self, flight: Flight, reply: PullReply) -> None:
        """Take what a page says of the server; its segments are about to be applied."""
        flight.deadline = None
        flight.heads = {s: h for s, h in (reply.heads or {}).items() if s.peer in flight.peers}
        flight.more = reply.more
        self._counters["pages"] += 1

    def conclude(self, id_: bytes, now: int) -> list[Publish]:
        """Go on after a page is durable: ask for the next one, or end the pull."""
        flight = self._flights.pop(id_, None)
        if flight is None:
            return []
        withheld = {  # the server is ahead; where its page is complete all the same, it hands on no more
            stream.peer
            for stream, head in flight.heads.items()
            if self._heads.get(stream).sequence < head.sequence and stream not in self.forked
        }
        if (flight.more or withheld) and self._held(flight.peers) > flight.held:
            return [self._request(flight.sender, flight.peers, flight.states, now)]
        self._counters["stalled"] += flight.more or bool(withheld)
        if flight.more:
            self._leave_alone(flight.sender, now)
            return []
        self._back_off.pop(flight.sender, None)
        stuck = {stream.peer for stream in self.forked} | withheld
        for peer, state in flight.states.items():
            if peer in stuck:
                self._hopeless.setdefault(flight.sender, {})[peer] = state
            else:
                self._heads.cover(peer, state)
        self.moved(flight.peers)
        self._contacts.note_covered(flight.sender, self._hopeless.get(flight.sender, {}))
        return []

    def refused(self, flight: Flight, now: int) -> None:
        """The server is busy: ask again later."""
        self._counters["busy_heard"] += 1
        self._abandon(flight, now)

    def failed(self, id_: bytes, now: int) -> None:
        """A pull could not be sent or applied."""
        flight = self._flights.get(id_)
        if flight is not None:
            self._counters["pull_failures"] += 1
            self._abandon(flight, now)

    def expire(self, now: int) -> None:
        """Give up the pages that did not come in time."""
        for flight in list(self._flights.values()):
            if flight.deadline is not None and flight.deadline <= now:
                self._counters["pull_time_outs"] += 1
                self._abandon(flight, now)

    def deadline(self, now: int) -> int | None:
        """Return when `expire` or `start` next has something to do by time alone."""
        times = [f.deadline for f in self._flights.values() if f.deadline is not None]
        if len(self._flights) < self._config.outbound_pulls:
            claimed = self._claimed()
            for sender, wants in self._wants.items():
                free = [at for peer, at in wants.items() if peer not in claimed]
                if free and not self._is_flying(sender) and not self._contacts.is_silent(sender, now):
                    times.append(max(min(free), self._ready_at(sender, now)))
        return min(times, default=None)

    @property
    def under_way(self) -> int:
        return len(self._flights)

    def lacking(self, now: int) -> frozenset[PeerId]:
        """Return the peers of whose streams a process that is not silent shows more than is held here.

        Without what is never taken or handed on, because a stream is forked.
        """
        forked = {stream.peer for stream in self.forked}
        return frozenset(
            peer
            for contact in self._contacts
            if not self._contacts.is_silent(contact.sender, now)
            for peer, state in contact.digest.states.items()
            if peer not in forked
            and not self._heads.knows(peer, state)
            and self._hopeless.get(contact.sender, {}).get(peer) != state
        )

    def missing_from(self, sender: Sender) -> int:
        """Return how many events a process is known to hold beyond ours; 0 unless a pull is under way."""
        flights = [f for f in self._flights.values() if f.sender == sender]
        return sum(
            max(0, head.sequence - self._heads.get(stream).sequence)
            for flight in flights
            for stream, head in flight.heads.items()
        )

    # -- inside

    def _take_off(self, sender: Sender, peers: list[PeerId], now: int) -> list[Publish]:
        contact = self._contacts.get(sender)
        wants = self._wants[sender]
        for peer in peers:
            del wants[peer]
        if not wants:
            del self._wants[sender]
        peers = self._bounded(peers)
        if not peers:
            return []
        shown = contact.digest.states if contact is not None else {}
        self._counters["pulls"] += 1
        states = {peer: shown[peer] for peer in peers if peer in shown}
        return [self._request(sender, tuple(peers), states, now)]

    def _request(
        self, sender: Sender, peers: tuple[PeerId, ...], states: dict[PeerId, bytes], now: int
    ) -> Publish:
        id_ = self._rng.randbytes(PULL_ID_BYTES)
        deadline = now + self._config.pull_timeout_ms
        self._flights[id_] = Flight(id_, sender, peers, states, self._held(peers), deadline, {})
        positions = {peer: dict(self._heads.of_peer(peer)) for peer in peers}
        request = PullRequest(id_, self._me, sender.boot, positions)
        return Publish(Channel.PULL, encode_pull(request), peer=sender.peer, pull=id_)

    def _bounded(self, peers: list[PeerId]) -> list[PeerId]:
        """Return as many of the peers as one request can hold; the others are wanted again by a digest."""
        out: list[PeerId] = []
        room = POSITIONS_MAX
        for peer in peers:
            room -= len(self._heads.of_peer(peer))
            if room < 0:
                break
            out.append(peer)
        return out

    def _abandon(self, flight: Flight, now: int) -> None:
        del self._flights[flight.id]
        wants = self._wants.setdefault(flight.sender, {})
        for peer in flight.peers:
            wants.setdefault(peer, now)
        self._leave_alone(flight.sender, now)

    def _leave_alone(self, sender: Sender, now: int) -> None:
        before = self._back_off.get(sender)
        failures = 0 if before is None else before.failures
        wait = min(self._config.back_off_max_ms, self._config.back_off_ms * 2 ** min(failures, 16))
        self._back_off[sender] = _BackOff(now + int(wait * self._rng.uniform(0.5, 1.0)), failures + 1)

    def _ready_at(self, sender: Sender, now: int) -> int:
        """Return when a process may be asked again; far off while it is being asked or silent."""
        if self._is_flying(sender) or self._contacts.is_silent(sender, now):
            return now + self._config.forget_after_ms
        back_off = self._back_off.get(sender)
        return now if back_off is None else back_off.until

    def _is_known(self, contact: Contact | None, peer: PeerId) -> bool:
        state = None if contact is None else contact.digest.states.get(peer)
        return state is not None and self._heads.knows(peer, state)

    def _is_flying(self, sender: Sender) -> bool:
        return any(flight.sender == sender for flight in self._flights.values())

    def _claimed(self) -> set[PeerId]:
        return {peer for flight in self._flights.values() for peer in flight.peers}

    def _held(self, peers: Iterable[PeerId]) -> int:
        return sum(map(self._heads.events_of, peers))

    def _set_wants(self, sender: Sender, wants: dict[PeerId, int]) -> None:
        if wants:
            self._wants[sender] = wants
        else:
            self._wants.pop(sender, None)
