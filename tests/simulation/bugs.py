"""Planted bugs: each breaks one rule of replication, and the checks must find it.

A checker that never failed proves nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from mesh.confirmations import Confirmations
from mesh.contacts import Contact, Contacts
from mesh.digests import Ack, Digest, Sender, decode_live, encode_ack
from mesh.effects import Channel, Effect, Publish
from mesh.engine import Engine
from mesh.live_feed import Intake, Sorted
from mesh.ports import Applied, Segment
from mesh.segments import head_of, last_of
from proto.codec import decode, encode
from proto.events import Event
from proto.ids import PeerId
from proto.streams import StreamId
from tests.simulation.outcome import NO_BUG
from tests.simulation.process import Process
from tests.simulation.site import MixedLog

Parts = tuple[bytes, bytes | None, bytes | None]


@dataclass(frozen=True, slots=True)
class Bug:
    """Which parts are replaced, and the guarantee that breaks.

    Args:
        seeds: within how many it must be found.
    """

    breaks: str = ""
    seeds: int = 20
    log_class: type[MixedLog] = MixedLog
    engine_class: type[Engine] = Engine
    process_class: type[Process] = Process


class _OneStreamForEver(MixedLog):
    """No epoch: each process life goes on in the stream of the one before."""

    def _epoch(self) -> StreamId:
        return StreamId(self.peer, 0, 0, bytes(8))


class _GuessingLog(MixedLog):
    """A gap is filled with nothing, and the head jumps over it."""

    def _extends(self, segment: Segment) -> bool:
        held = self.disk.streams.setdefault(segment.stream, [])
        if segment.stream == self.stream or last_of(segment) <= len(held):
            return False
        filler: list[Event] = held[-1:] * (segment.first - 1 - len(held)) if held else []
        held.extend(filler)
        return segment.first <= len(held) + 1


class _GuessingIntake(Intake):
    def sort(self, segments: Sequence[Segment]) -> Sorted:
        self.expect(segments)
        return Sorted(tuple(segments), (), 0)


class _GuessingEngine(Engine):
    def __init__(self, *args, **named) -> None:  # type: ignore[no-untyped-def]
        super().__init__(*args, **named)
        self._intake = _GuessingIntake(self._config, self._heads)


class _HastyProcess(Process):
    """Publishes and acknowledges before the group commit."""

    def appended(self) -> None:
        segments = self.site.staged()
        self.world.checks.acknowledged(segments)
        self._do(self.engine.committed(segments, self.clock()))


class _OptimisticContacts(Contacts):
    """Takes the moment at which a digest arrives for the moment at which it was sent."""

    def heard(self, digest: Digest, now: int) -> tuple[Contact | None, bool]:
        contact, is_new = super().heard(digest, now)
        if contact is not None:
            contact.sent_after = now
        return contact, is_new


class _OptimisticEngine(Engine):
    def __init__(self, *args, **named) -> None:  # type: ignore[no-untyped-def]
        super().__init__(*args, **named)
        self._contacts = _OptimisticContacts(self.me, self._config, self._heads)
        self._pulls._contacts = self._contacts


class _DeafToPulls(Engine):
    """Live events and digests only: nobody answers a pull."""

    def receive_pull(self, data: bytes, now: int) -> list[Effect]:
        return []


class _HastyAcks(Engine):
    """Confirms live events when they arrive, not when they are durable."""

    def receive_live(self, data: bytes, now: int) -> list[Effect]:
        live = decode_live(data)
        ack = Ack(self.me, {segment.stream: head_of(segment) for segment in live.segments})
        hasty = Publish(Channel.ACK, encode_ack(ack), peer=live.sender.peer)
        return [*super().receive_live(data, now), hasty]


class _CountsProcesses(Confirmations):
    """A peer that was started again, or runs twice, counts once per process."""

    def __init__(self, *args, **named) -> None:  # type: ignore[no-untyped-def]
        super().__init__(*args, **named)
        self._by_process: dict[Sender, dict[StreamId, int]] = {}

    def _note(self, sender: Sender, stream: StreamId, sequence: int) -> bool:
        self._by_process.setdefault(sender, {})[stream] = sequence
        return True

    def count(self, stream: StreamId, sequence: int, members: Collection[PeerId]) -> int:
        return 1 + sum(held.get(stream, 0) >= sequence for held in self._by_process.values())


class _TrustsReturners(Confirmations):
    """What a peer once held counts for ever, whatever has become of its disk."""

    def heard(self, contact: Contact, now: int) -> None:
        holder = self._holders.get(contact.sender.peer)
        if holder is not None:
            holder.boot = contact.sender.boot
        super().heard(contact, now)


class _CountingEngine(Engine):
    def __init__(self, *args, **named) -> None:  # type: ignore[no-untyped-def]
        super().__init__(*args, **named)
        self._confirmations = _CountsProcesses(self.me, self._heads, self._contacts)


class _TrustingEngine(Engine):
    def __init__(self, *args, **named) -> None:  # type: ignore[no-untyped-def]
        super().__init__(*args, **named)
        self._confirmations = _TrustsReturners(self.me, self._heads, self._contacts)


class _HastyAnswers(Process):
    """Acknowledges own events before the group commit, and publishes them after it."""

    def appended(self) -> None:
        self.world.checks.acknowledged(self.site.staged())


class _LeakyLog(MixedLog):
    """One received event in 50 is taken for kept, and is not."""

    def apply_now(self, segments: Sequence[Segment]) -> Applied:
        result = super().apply_now(segments)
        for stream, head in result.heads.items():
            if head.hash[0] < 5 and self.disk.streams[stream][-1].header.sequence > 1:
                self.disk.streams[stream].pop()
        return result


class _RewritingLog(MixedLog):
    """Writes received headers anew, in its own way, and hashes that."""

    def apply_now(self, segments: Sequence[Segment]) -> Applied:
        return super().apply_now([replace(s, events=tuple(map(_rewritten, s.events))) for s in segments])


def _rewritten(event: Parts) -> Parts:
    header, salt, payload = event
    return encode(decode(header)), salt, payload


class _CountsRetired(Engine):
    """Who has retired still counts."""

    def durable_on(self, stream: StreamId, sequence: int) -> int:
        return self._confirmations.count(stream, sequence, self._heard)


BUGS: dict[str, Bug] = {
    NO_BUG: Bug(),
    "gap guessed": Bug("G3", log_class=_GuessingLog, engine_class=_GuessingEngine),
    "no epoch": Bug("G10", log_class=_OneStreamForEver),
    "publish before fsync": Bug("G1", process_class=_HastyProcess),
    "answer before fsync": Bug("G1", process_class=_HastyAnswers),
    "caught up on arrival": Bug("G6", engine_class=_OptimisticEngine),
    "pulls unanswered": Bug("G3", engine_class=_DeafToPulls),
    "confirmed before fsync": Bug("G1", engine_class=_HastyAcks),
    "peer counted twice": Bug("G1", engine_class=_CountingEngine),
    "wiped peer counted": Bug("G1", engine_class=_TrustingEngine),
    "retired peer counted": Bug("G1", engine_class=_CountsRetired),
    "one event in 50 dropped": Bug("G3", log_class=_LeakyLog),
    "written anew before hashing": Bug("G10", log_class=_RewritingLog),
}
"""Each planted bug by its name."""
