"""What the replication engine asks its shell to do.  Frozen values; the shell reports back to the engine.

Each docstring names the report that is due.  An effect that is never reported back stalls what depends on
it, so a shell reports failures too.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from mesh.digests import Sender
from mesh.ports import Segment
from proto.ids import PeerId
from proto.streams import StreamId

if TYPE_CHECKING:
    from mesh.serving import Page


class Channel(Enum):
    """Where a message goes."""

    LIVE = "live"  # own live subject of `partition`
    DIGEST = "digest"  # own digest subject
    ACK = "ack"  # acknowledgement subject of `peer`
    PULL = "pull"  # pull subject of `peer`, on the bulk connection


@dataclass(frozen=True, slots=True)
class Publish:
    """Send bytes.

    Report: on LIVE `engine.published()`, sent or not; on PULL with `pull` set, `engine.pull_failed(pull)` if
    it could not be sent; else nothing.

    Args:
        channel: the kind of subject.
        data: body of the message, below 512 KiB.
        partition: of a LIVE message.
        peer: of a PULL or ACK message: whose subject.
        pull: id of the request that a PULL message carries; empty for a reply.
    """

    channel: Channel
    data: bytes
    partition: int = 0
    peer: PeerId | None = None
    pull: bytes = b""


@dataclass(frozen=True, slots=True)
class Apply:
    """Give segments to the log.

    Report: `engine.applied([this, ...], Applied)` once durable, or `engine.apply_failed([this, ...], heads)`.
    Several may be applied in one call; order is kept.

    Args:
        source: the process that sent them.
        pull: id of the pull that brought them; empty for live events.
        size_bytes: what they take in memory, about.
    """

    segments: tuple[Segment, ...]
    source: Sender
    size_bytes: int
    pull: bytes = b""


@dataclass(frozen=True, slots=True)
class Serve:
    """Read for a pull: `while (read := page.next_read()): page.add(await log.read(*read))`.

    Report: `engine.served(page)`, or `engine.served(page, failed=True)`.
    """

    page: Page


@dataclass(frozen=True, slots=True)
class Fork:
    """Two events claim one place: somebody wrote a stream twice.  Said once per stream and process life.

    `sequence` is a place at which two hashes were seen; they may differ before it.  `other` is the hash that is
    not ours, empty where the log saw the event itself.  Report: `engine.quarantined`, once the log remembers it.
    """

    stream: StreamId
    sequence: int
    other: bytes = b""


@dataclass(frozen=True, slots=True)
class Confirmed:
    """Other members may be known to hold more than before: ask `engine.durable_on` again.  No report."""


Effect = Publish | Apply | Serve | Fork | Confirmed
