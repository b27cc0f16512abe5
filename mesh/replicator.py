"""The shell of the replication engine: two transports, the log, a timer.

Everything runs on one event loop.  The engine decides; here bytes are sent, segments applied in batches (one
group commit for many), pages read, and each result reported back.  Nothing here knows what a message or an
event means.
"""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import structlog

from mesh import wall_clock
from mesh.digests import Vitals
from mesh.durable_waits import DurableWaits
from mesh.effects import Apply, Channel, Confirmed, Effect, Fork, Publish, Serve
from mesh.engine import Engine
from mesh.engine_config import EngineConfig
from mesh.ports import EventLog, Head, Segment
from mesh.serving import Page
from mesh.transport import Subscription, Transport
from proto.errors import HyphaeError
from proto.ids import PeerId, format_uuid
from proto.streams import StreamId
from proto.subjects import Subjects

_log = structlog.get_logger(__name__)

_OUTBOX_MESSAGES = 1_024  # the engine keeps far below; what floods us with requests meets this
_APPLY_BATCH_BYTES = 1024 * 1024  # one transaction; more would make own writes wait


@dataclass(frozen=True, slots=True)
class PeerStatus:
    """What is known of another peer, from its newest digest.

    Args:
        silent: not heard for a while; routing avoids it.
        heard_ms_ago: age of that digest on our clock.
        missing_events: that it is known to hold and we do not; 0 if not known.
        caught_up_at: moment of our monotonic clock (ms) such that all it held then is held here; or None.
    """

    peer: PeerId
    silent: bool
    heard_ms_ago: int
    vitals: Vitals
    missing_events: int
    caught_up_at: int | None


class Replicator:
    """Keeps the log of this peer and those of the others alike.

    The caller starts and closes the transports, sets the members, and reports each group commit.

    Args:
        me: id of this peer.
        subjects: of the mesh.
        live_transport: carries live events and digests.
        bulk_transport: carries pulls, so that they delay nothing else.
        log: see `EventLog`.
        config: of the engine.
        info: returns what digests say of this peer; called on the loop about once a second, must not block.
        on_fork: told of a stream that two processes have written; called on the loop.
        clock_ms: monotonic milliseconds.
        rng: of the engine.
    """

    def __init__(
        self,
        me: PeerId,
        subjects: Subjects,
        live_transport: Transport,
        bulk_transport: Transport,
        log: EventLog,
        config: EngineConfig,
        info: Callable[[], Vitals],
        *,
        on_fork: Callable[[StreamId, int, bytes], None] | None = None,
        clock_ms: Callable[[], int] = lambda: time.monotonic_ns() // 1_000_000,
        rng: random.Random | None = None,
    ) -> None:
        self.engine = Engine(me, config, rng or random.SystemRandom())
        self._me = me
        self._subjects = subjects
        self._live = live_transport
        self._bulk = bulk_transport
        self._event_log = log
        self._info = info
        self._on_fork = on_fork
        self._clock_ms = clock_ms
        self._outboxes = {
            transport: asyncio.Queue[Publish](_OUTBOX_MESSAGES)
            for transport in (live_transport, bulk_transport)
        }
        self._applies: asyncio.Queue[Apply] = asyncio.Queue()  # bounded by the engine's intake and pulls
        self._waits = DurableWaits(self.engine.durable_on)
        self._tasks: set[asyncio.Task[None]] = set()
        self._subscriptions: list[Subscription] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = 0
        self._timer: asyncio.TimerHandle | None = None
        self._running = False

    # -- life

    async def start(self) -> None:
        """Take the heads of the log, subscribe, and begin.  Needs no connection."""
        self._loop, self._thread = asyncio.get_running_loop(), threading.get_ident()
        self._running = True
        self._do(self.engine.started(self._event_log.heads()))
        for transport, outbox in self._outboxes.items():
            self._spawn(self._send_all(transport, outbox))
        self._spawn(self._apply_all())
        self._live.watch(on_up=self._on_up, on_down=self._on_down)
        self._subscriptions = [
            await self._bulk.subscribe(self._subjects.pull(self._me), self._on_pull),
            await self._live.subscribe(self._subjects.live_all(), self._on_live),
            await self._live.subscribe(self._subjects.digest_all(), self._on_digest),
            await self._live.subscribe(self._subjects.acks(self._me), self._on_ack),
        ]
        if self._live.connected:
            self._on_up()

    async def stop(self) -> None:
        """End subscriptions and tasks.  A batch being applied may or may not be kept.  The log stays open."""
        self._running = False
        if self._timer is not None:
            self._timer.cancel()
        for subscription in self._subscriptions:
            await subscription.cancel()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # -- of this peer

    def set_members(self, members: Iterable[PeerId], retired: Iterable[PeerId] = ()) -> None:
        """Take the members of the mesh, and who has retired.  On the loop's thread."""
        self._do(self.engine.set_members(members, retired))

    def set_quarantined(self, agreed: Mapping[StreamId, Head]) -> None:
        """Take the streams in quarantine, with the last place that is agreed.  On the loop's thread."""
        self._do(self.engine.quarantined(agreed))

    def publish_committed(self, segments: Sequence[Segment]) -> None:
        """Send own events, just made durable by a group commit, to everybody.  From any thread; in order."""
        if self._loop is None:
            return  # not started: `start` takes them with the heads
        if threading.get_ident() == self._thread:
            self._on_committed(segments)
        else:
            self._loop.call_soon_threadsafe(self._on_committed, segments)

    async def durable_on(self, stream: StreamId, sequence: int, wanted: int, timeout_s: float) -> int:
        """Return how many members hold an event durably, once it is `wanted` or the time is up.

        Never more than is known for certain; 0 if not even this peer holds it.
        """
        return await self._waits.reach(stream, sequence, wanted, timeout_s)

    def caught_up_with_all(self, since_ms: int) -> bool:
        """Tell whether all that every other member held at a moment of `clock_ms` is held here."""
        return self.engine.caught_up_with_all(since_ms)

    def behind_since(self, since_ms: int) -> dict[PeerId, bool]:
        """Return the other members that may have held something at a moment of `clock_ms` that could be had and is
        not here, and whether they are heard.
        """
        return self.engine.behind_since(since_ms, self._clock_ms())

    def lacking(self) -> frozenset[PeerId]:
        """Return the peers of whose streams somebody who is heard holds more than is held here."""
        return self.engine.lacking(self._clock_ms())

    def twins(self) -> list[Vitals]:
        """Return what other processes under this peer's own id say of themselves."""
        return [contact.digest.vitals for contact in self.engine.twins(self._clock_ms())]

    def peers(self) -> list[PeerStatus]:
        """Return what is known of the other peers that were heard lately."""
        now = self._clock_ms()
        return [
            PeerStatus(
                peer,
                self.engine.is_silent(contact, now),
                now - contact.heard_at,
                contact.digest.vitals,
                self.engine.missing_from(contact),
                self.engine.caught_up(peer),
            )
            for peer, contact in self.engine.contacts().items()
            if peer != self._me
        ]

    def status(self) -> dict[str, Any]:
        """Return plain values for status pages: connections, peers heard, counters."""
        return {
            "connected": self._live.connected,
            "bulk_connected": self._bulk.connected,
            "peers": [
                {
                    "peer_id": format_uuid(p.peer),
                    "state": "silent" if p.silent else "up",
                    "heard_ms_ago": p.heard_ms_ago,
                    "urls": list(p.vitals.urls),
                    "version": p.vitals.version,
                    "space": p.vitals.space,
                    "load": p.vitals.load,
                    "lag_ms": p.vitals.lag_ms,
                    "in_service": p.vitals.in_service,
                    "missing_events": p.missing_events,
                }
                for p in self.peers()
            ],
            "counters": self.engine.gauges(),
        }

    # -- what comes in

    def _on_up(self) -> None:
        self._do(self.engine.connected(self._clock_ms()))

    def _on_down(self) -> None:
        self._do(self.engine.disconnected(self._clock_ms()))

    def _on_committed(self, segments: Sequence[Segment]) -> None:
        self._do(self.engine.committed(segments, self._clock_ms()))

    async def _on_live(self, _subject: str, _reply: str, body: bytes) -> None:
        self._do(self.engine.receive_live(body, self._clock_ms()))

    async def _on_digest(self, _subject: str, _reply: str, body: bytes) -> None:
        self._do(self.engine.receive_digest(body, self._clock_ms()))

    async def _on_ack(self, _subject: str, _reply: str, body: bytes) -> None:
        self._do(self.engine.receive_ack(body, self._clock_ms()))

    async def _on_pull(self, _subject: str, _reply: str, body: bytes) -> None:
        self._do(self.engine.receive_pull(body, self._clock_ms()))

    def _on_timer(self) -> None:
        self._timer = None
        try:
            vitals = self._info()
        except Exception as error:  # noqa: BLE001 - the beat goes on
            _log.error("what this peer says of itself is not available", error=type(error).__name__)
            vitals = Vitals(wall_ms=wall_clock.now_ms(), in_service=False)
        self._do(self.engine.tick(self._clock_ms(), vitals))

    # -- what goes out

    def _do(self, effects: Iterable[Effect]) -> None:
        """Begin every effect, then set the timer for the next deadline."""
        if not self._running:
            return
        for effect in effects:
            match effect:
                case Publish():
                    self._queue(effect)
                case Apply():
                    self._applies.put_nowait(effect)
                case Serve(page):
                    self._spawn(self._serve(page))
                case Fork(stream, sequence, other):
                    self._report_fork(stream, sequence, other)
                case Confirmed():
                    self._waits.look()
        self._set_timer()

    def _set_timer(self) -> None:
        if self._loop is None:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        now = self._clock_ms()
        deadline = self.engine.next_deadline(now)
        if deadline is not None:
            self._timer = self._loop.call_later(max(1, deadline - now) / 1000, self._on_timer)

    def _queue(self, publish: Publish) -> None:
        transport = self._bulk if publish.channel is Channel.PULL else self._live
        try:
            self._outboxes[transport].put_nowait(publish)
        except asyncio.QueueFull:
            self.engine.counters["outbox_dropped"] += 1
            self._report_sent(publish, sent=False)

    async def _send_all(self, transport: Transport, outbox: asyncio.Queue[Publish]) -> None:
        while True:
            publish = await outbox.get()
            try:
                await transport.publish(self._subject(publish), publish.data)
                sent = True
            except HyphaeError as error:
                sent = False
                self.engine.counters[f"unsent_{error.code}"] += 1
            self._report_sent(publish, sent=sent)

    def _report_sent(self, publish: Publish, *, sent: bool) -> None:
        if publish.channel is Channel.LIVE:
            self._do(self.engine.published(self._clock_ms()))
        elif publish.pull and not sent:
            self._do(self.engine.pull_failed(publish.pull, self._clock_ms()))

    def _subject(self, publish: Publish) -> str:
        if publish.channel is Channel.LIVE:
            return self._subjects.live(publish.partition, self._me)
        if publish.channel is Channel.DIGEST or publish.peer is None:
            return self._subjects.digest(self._me)
        if publish.channel is Channel.ACK:
            return self._subjects.acks(publish.peer)
        return self._subjects.pull(publish.peer)

    async def _apply_all(self) -> None:
        while True:
            batch = [await self._applies.get()]
            size = batch[0].size_bytes
            while not self._applies.empty() and size < _APPLY_BATCH_BYTES:
                batch.append(self._applies.get_nowait())
                size += batch[-1].size_bytes
            try:
                result = await self._event_log.apply([s for apply in batch for s in apply.segments])
            except Exception as error:  # noqa: BLE001 - told to the engine, pulled again
                _log.error("events of other peers could not be stored", error=type(error).__name__)
                heads = self._event_log.heads()
                self._do(self.engine.apply_failed(batch, heads, self._clock_ms()))
                continue
            self._do(self.engine.applied(batch, result, self._clock_ms()))

    async def _serve(self, page: Page) -> None:
        failed = False
        try:
            while (read := page.next_read()) is not None:
                page.add(await self._event_log.read(*read))
        except Exception as error:  # noqa: BLE001 - told to the asker
            failed = True
            _log.error("events could not be read for another peer", error=type(error).__name__)
        self._do(self.engine.served(page, failed=failed))

    def _report_fork(self, stream: StreamId, sequence: int, other: bytes) -> None:
        _log.error(
            "a stream was written twice: its peer id runs in two places under one epoch, or a disk lied",
            peer=format_uuid(stream.peer),
            epoch=stream.ordinal,
            sequence=sequence,
        )
        if self._on_fork is not None:
            self._on_fork(stream, sequence, other)

    def _spawn(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
