"""How the trace tells what a process does: the words for its messages, commits and what it keeps of others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from mesh.effects import Channel, Publish
from mesh.ports import Applied, Head, Segment
from mesh.segments import NOTHING, last_of
from proto.ids import PeerId
from proto.streams import StreamId

_MESSAGES = {
    (Channel.LIVE, False): "live events",
    (Channel.ACK, False): "a confirmation",
    (Channel.PULL, True): "a pull",
    (Channel.PULL, False): "the answer to a pull",
}


def named(peer: PeerId) -> str:
    """Return the name of a peer."""
    return f"peer {int.from_bytes(peer, 'big')}"


def committed(segment: Segment) -> str:
    """Tell of own events that became durable."""
    return f"commits {segment.first} to {last_of(segment)} of epoch {segment.stream.ordinal}"


def kept(before: Mapping[StreamId, Head], applied: Applied) -> Iterator[str]:
    """Tell what is kept of what was received."""
    for stream, head in applied.heads.items():
        was = before.get(stream, NOTHING).sequence
        if head.sequence > was:
            yield f"keeps {was + 1} to {head.sequence} of epoch {stream.ordinal} of {named(stream.peer)}"


def sent(publish: Publish, network_up: bool) -> str:
    """Tell of a message that is no digest."""
    to = f" to {named(publish.peer)}" if publish.peer is not None else ""
    lost = "" if network_up else ", and nobody hears it"
    return f"sends {_MESSAGES[publish.channel, bool(publish.pull)]}{to}, {len(publish.data)} bytes{lost}"
