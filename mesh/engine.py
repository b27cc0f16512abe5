"""The replication engine: what a peer does with its log and with what it hears.

No clock, sockets, files, tasks or logging: time and bytes come in, effects go out, and the shell reports back
what became of them.  Randomness comes from the constructor, so a seed replays a history.  The log decides
what a stream holds; the engine knows heads only, and only durable ones.

`now` is whole milliseconds of one monotonic clock of this process, never going back.  Every input returns the
effects that follow; none of them raises for anything that a peer sent.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from mesh.anti_entropy import Pulls
from mesh.confirmations import Confirmations
from mesh.contacts import Contact, Contacts
from mesh.digests import (
    BOOT_BYTES,
    Digest,
    PullReply,
    PullRequest,
    Sender,
    Vitals,
    decode_ack,
    decode_digest,
    decode_live,
    decode_pull,
    encode_digest,
)
from mesh.effects import Apply, Channel, Confirmed, Effect, Fork, Publish, Serve
from mesh.engine_config import EngineConfig
from mesh.head_table import HeadTable
from mesh.heartbeat import Heartbeat
from mesh.live_feed import Intake, LiveFeed
from mesh.ports import Applied, Head, Segment
from mesh.segments import NOTHING, head_of, last_of
from mesh.serving import Page
from mesh.servings import Servings
from proto.errors import ProtocolError
from proto.ids import PeerId
from proto.streams import StreamId

M = TypeVar("M")


class Engine:
    """Replication of one process.

    Call `started` first, then `set_members` and `connected`.  Whatever is returned must be executed in order
    and reported as `mesh.effects` says.  Call `tick` no later than `next_deadline`.

    Args:
        me: id of this peer.
        config: see `EngineConfig`.
        rng: source of all randomness; seeded in simulations, from the system in a peer.
    """

    def __init__(self, me: PeerId, config: EngineConfig, rng: random.Random) -> None:
        self.me = Sender(me, rng.randbytes(BOOT_BYTES))
        self.counters: Counter[str] = Counter()
        self._config = config
        self._heads = HeadTable()
        self._contacts = Contacts(self.me, config, self._heads)
        self._confirmations = Confirmations(self.me, self._heads, self._contacts)
        self._pulls = Pulls(self.me, config, self._heads, self._contacts, rng, self.counters)
        self._feed = LiveFeed(self.me, config)
        self._intake = Intake(config, self._heads)
        self._servings = Servings(config, self.counters)
        self._members: frozenset[PeerId] = frozenset((me,))
        self._heard = self._members  # and who has retired
        self._agreed: dict[StreamId, Head] = {}
        self._heartbeat = Heartbeat(config, rng)

    # -- of this peer

    def started(self, heads: Mapping[StreamId, Head]) -> list[Effect]:
        """Take the durable heads of the log: at start, and when they may differ from what was reported."""
        self._heads.load(heads)
        return []

    def quarantined(self, agreed: Mapping[StreamId, Head]) -> list[Effect]:
        """Take the streams that the log remembers as forked, with the last place that is agreed: at start, and
        after a `Fork`.  Nothing further of them is taken, or handed on beyond that place.
        """
        self._agreed = dict(agreed)
        self._pulls.forked |= agreed.keys()
        return []

    def set_members(self, members: Iterable[PeerId], retired: Iterable[PeerId] = ()) -> list[Effect]:
        """Take the members of the mesh; what others say is ignored.  This peer always is one.

        Args:
            retired: peers that were members: nobody waits for them, and they are heard and answered, so that they
                learn that they have retired and what was erased, and what only they hold is not lost.
        """
        self._members = frozenset(members) | {self.me.peer}
        self._heard = self._members | frozenset(retired)
        self._pulls.forget(self._contacts.keep(self._heard))
        self._confirmations.keep(self._members)
        return []

    def connected(self, now: int) -> list[Effect]:
        """The live connection is up, all subscriptions in force: speak soon."""
        self._heartbeat.connect(now)
        return []

    def disconnected(self, now: int) -> list[Effect]:
        """The live connection is down: forget what was under way."""
        self._heartbeat.disconnect()
        self._feed.clear()
        self._pulls.clear()
        return []

    def committed(self, segments: Sequence[Segment], now: int) -> list[Effect]:
        """Own events are durable.  Never call it before a group commit has returned."""
        for segment in segments:
            self._heads.advance(segment.stream, head_of(segment))
        self._confirmations.committed(segments)
        self._pulls.moved({segment.stream.peer for segment in segments})
        if not self._heartbeat.is_connected:
            self.counters["live_unsent"] += sum(len(s.events) for s in segments)
            return []
        self._feed.offer(segments)
        return [*self._feed.flush(now)]

    # -- of effects

    def published(self, now: int) -> list[Effect]:
        """A message on LIVE has left, or was given up."""
        self._feed.sent()
        return [*self._feed.flush(now)] if self._heartbeat.is_connected else []

    def pull_failed(self, pull: bytes, now: int) -> list[Effect]:
        """The request of a pull could not be sent."""
        self._pulls.failed(pull, now)
        return self._start_pulls(now)

    def applied(self, applies: Sequence[Apply], result: Applied, now: int) -> list[Effect]:
        """The log has applied these, in one call; what it kept is durable."""
        moved = [stream for stream, head in result.heads.items() if self._heads.advance(stream, head)]
        out: list[Effect] = (
            [] if not self._heartbeat.is_connected else [*self._confirmations.acknowledge(moved)]
        )
        out += self._forks((stream, sequence, b"") for stream, sequence in result.forks)
        for apply in applies:
            self._intake.settled(apply.segments)
        self._pulls.moved({stream.peer for stream in result.heads})
        for apply in applies:
            if apply.pull:
                out += self._pulls.conclude(apply.pull, now)
            else:
                self._want_behind(apply, now)
        return out + self._start_pulls(now)

    def apply_failed(
        self, applies: Sequence[Apply], heads: Mapping[StreamId, Head], now: int
    ) -> list[Effect]:
        """The log could not apply these.

        Args:
            heads: of the log now, from which the engine goes on.
        """
        self.counters["apply_failures"] += 1
        self._heads.load(heads)
        for apply in applies:
            self._intake.settled(apply.segments)
            if apply.pull:
                self._pulls.failed(apply.pull, now)
        return self._start_pulls(now)

    def served(self, page: Page, *, failed: bool = False) -> list[Effect]:
        """A page was read to its end; or reading failed, which the asker hears as `busy`."""
        forks = [] if failed else self._forks(page.forks)
        return [*forks, self._servings.end(page, failed=failed)]

    # -- of others

    def receive_live(self, data: bytes, now: int) -> list[Effect]:
        """Take a live message."""
        live = self._decoded(decode_live, data)
        if live is None or not self._is_welcome(live.sender):
            return []
        wanted = [s for s in live.segments if s.stream not in self._pulls.forked]
        self._confirmations.originated(live.sender, wanted)
        found = self._intake.sort(wanted)
        self.counters["live_dropped"] += found.dropped
        self.counters["gaps"] += len(found.gaps)
        for stream in found.gaps:
            self._pulls.want(live.sender, stream.peer, now)
        out: list[Effect] = [Apply(found.fresh, live.sender, len(data))] if found.fresh else []
        return out + self._start_pulls(now)

    def receive_digest(self, data: bytes, now: int) -> list[Effect]:
        """Take a digest."""
        digest = self._decoded(decode_digest, data)
        if digest is None or not self._is_welcome(digest.sender):
            return []
        contact, is_new = self._contacts.heard(digest, now)
        if contact is None:
            return self._ignore("digests_late")
        if is_new:
            self._heartbeat.greet(now)
        self._confirmations.heard(contact, now)
        self._pulls.compare(contact, now)
        return [Confirmed(), *self._start_pulls(now)]

    def receive_ack(self, data: bytes, now: int) -> list[Effect]:
        """Take an acknowledgement: what another peer says that it holds of ours."""
        ack = self._decoded(decode_ack, data)
        if ack is None or not self._is_welcome(ack.sender):
            return []
        return [*self._confirmations.confirm(ack.sender, ack.heads)]

    def receive_pull(self, data: bytes, now: int) -> list[Effect]:
        """Take what comes on the own pull subject: a request, or the reply to one of ours."""
        message = self._decoded(decode_pull, data)
        if isinstance(message, PullRequest):
            return self._serve(message, now)
        return [] if message is None else self._receive_reply(message, now)

    # -- of time

    def tick(self, now: int, vitals: Vitals) -> list[Effect]:
        """Do what is due: digests, live events that waited for company, time-outs, pulls."""
        self._pulls.forget(self._contacts.forget(now))
        if not self._heartbeat.is_connected:
            return []
        self._pulls.expire(now)
        number = self._heartbeat.beat(now)
        out = [] if number is None else [self._digest(number, now, vitals)]
        return [*out, *self._feed.flush(now), *self._start_pulls(now)]

    def next_deadline(self, now: int) -> int | None:
        """Return when `tick` is due next if nothing else happens; None: not at all."""
        times = [self._contacts.next_forget()]
        if self._heartbeat.is_connected:
            times += [self._heartbeat.due, self._feed.deadline(), self._pulls.deadline(now)]
        return min((t for t in times if t is not None), default=None)

    # -- questions

    def durable_on(self, stream: StreamId, sequence: int) -> int:
        """Return how many members certainly hold an event durably, this one included; 0: not even it."""
        members = () if stream in self._pulls.forked else self._members  # others may hold another event there
        return self._confirmations.count(stream, sequence, members)

    def caught_up(self, peer: PeerId) -> int | None:
        """Return the latest moment of our clock such that all that this peer held then is held here.

        Save for what it has lost since, with its disk: nobody can know of that.
        """
        return self._contacts.caught_up(peer)

    def caught_up_with_all(self, since: int) -> bool:
        """Tell whether all that every other member held at `since` (our clock) is certainly held here."""
        moments = [self._contacts.caught_up(peer) for peer in self._members - {self.me.peer}]
        return all(moment is not None and moment >= since for moment in moments)

    def behind_since(self, since: int, now: int) -> dict[PeerId, bool]:
        """Return the other members that may have held something at `since` that could be had and is not here, and
        whether they are heard.
        """
        others = sorted(self._members - {self.me.peer})
        return self._contacts.behind_since(others, self._heard - self._members, since, now)

    def is_member(self, peer: PeerId) -> bool:
        """Tell whether a peer is a member and has not retired."""
        return peer in self._members

    def lacking(self, now: int) -> frozenset[PeerId]:
        """Return the peers of whose streams a process that is heard shows something that is missing here.

        What is never taken or handed on, because a stream is forked, is left out.
        """
        return self._pulls.lacking(now)

    def twins(self, now: int) -> list[Contact]:
        """Return the other processes heard that run under this peer's id: copies of its directory."""
        return [c for c in self._contacts if c.sender.peer == self.me.peer and not self.is_silent(c, now)]

    def is_silent(self, contact: Contact, now: int) -> bool:
        """Tell whether a process has not been heard for a while; routing avoids it."""
        return self._contacts.is_silent(contact.sender, now)

    def contacts(self) -> dict[PeerId, Contact]:
        """Return, per peer, its process heard last."""
        out: dict[PeerId, Contact] = {}
        for contact in sorted(self._contacts, key=lambda c: c.heard_at):
            out[contact.sender.peer] = contact
        return out

    def missing_from(self, contact: Contact) -> int:
        """Return how many events a process is known to hold that are missing here; 0 if not known."""
        return self._pulls.missing_from(contact.sender)

    def gauges(self) -> dict[str, int]:
        """Return counters and present sizes by name."""
        return {
            **self.counters,
            "live_unsent": self.counters["live_unsent"] + self._feed.dropped,
            "pulls_under_way": self._pulls.under_way,
            "pages_being_served": self._servings.under_way,
            "forked_streams": len(self._pulls.forked),
            "twins": sum(c.sender.peer == self.me.peer for c in self._contacts),
        }

    # -- inside

    def _digest(self, number: int, now: int, vitals: Vitals) -> Publish:
        self._contacts.announced(number, now)
        digest = Digest(self.me, number, vitals, self._heads.states(), self._contacts.echoes())
        return Publish(Channel.DIGEST, encode_digest(digest))

    def _decoded(self, decode: Callable[[bytes], M], data: bytes) -> M | None:
        try:
            return decode(data)
        except ProtocolError:
            self.counters["malformed"] += 1
            return None

    def _is_welcome(self, sender: Sender) -> bool:
        if sender == self.me:
            return False
        if sender.peer not in self._heard:
            self.counters["strangers"] += 1
            return False
        return True

    def _serve(self, request: PullRequest, now: int) -> list[Effect]:
        if request.asked != self.me.boot or not self._is_welcome(request.sender):
            return []
        if self._servings.is_served(request):
            return self._ignore("pulls_repeated")
        heads = {s: h for peer in request.positions for s, h in self._heads.of_peer(peer).items()}
        agreed = {s: self._agreed.get(s, NOTHING) for s in self._pulls.forked}
        page = self._servings.begin(request, heads, agreed, now)
        if isinstance(page, Publish):
            return [page]
        held = request.positions.get(self.me.peer, {})
        return [*self._confirmations.confirm(request.sender, held), Serve(page)]

    def _receive_reply(self, reply: PullReply, now: int) -> list[Effect]:
        flight = self._pulls.owner(reply)
        if flight is None:
            return self._ignore("replies_unasked")
        if reply.busy:
            self._pulls.refused(flight, now)
            return self._start_pulls(now)
        self._pulls.landed(flight, reply)
        differing = [
            (stream, head.sequence, head.hash)
            for stream, head in flight.heads.items()
            if head.sequence == self._heads.get(stream).sequence and head.hash != self._heads.get(stream).hash
        ]
        out = self._forks(differing)
        segments = tuple(
            s for s in reply.segments if s.stream.peer in flight.peers and s.stream not in self._pulls.forked
        )
        if segments:
            self._intake.expect(segments)
            size = sum(len(h) + len(p or b"") for s in segments for h, _, p in s.events)
            return [*out, Apply(segments, flight.sender, size, flight.id)]
        return [*out, *self._pulls.conclude(flight.id, now), *self._start_pulls(now)]

    def _want_behind(self, apply: Apply, now: int) -> None:
        for segment in apply.segments:
            stream = segment.stream
            if self._heads.get(stream).sequence < last_of(segment) and stream not in self._pulls.forked:
                self._pulls.want(apply.source, stream.peer, now)

    def _forks(self, places: Iterable[tuple[StreamId, int, bytes]]) -> list[Effect]:
        new = [place for place in places if place[0] not in self._pulls.forked]
        for stream, _, _ in new:
            self._pulls.forked.add(stream)
            self._heads.doubt(stream.peer)
        return [Fork(*place) for place in new]

    def _start_pulls(self, now: int) -> list[Effect]:
        return [*self._pulls.start(now)] if self._heartbeat.is_connected else []

    def _ignore(self, why: str) -> list[Effect]:
        self.counters[why] += 1
        return []
