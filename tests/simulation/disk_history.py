"""What was ever durable on one disk, and when: what claims about a process are judged by."""

from __future__ import annotations

from bisect import bisect_right

from mesh.ports import Head
from mesh.segments import NOTHING
from proto.streams import StreamId

Heads = dict[StreamId, Head]


class DiskHistory:
    """The heads of one directory over virtual time."""

    def __init__(self) -> None:
        self._entries: list[tuple[float, Heads]] = []
        self._replaced: list[int] = []  # entries that came to be by another disk

    def note(self, now: float, heads: Heads, *, replaced: bool = False) -> None:
        """Take what is durable from now on.

        Args:
            replaced: an older content was put in place.
        """
        if replaced:
            self._replaced.append(len(self._entries))
        self._entries.append((now, heads))

    def has_held(self, stream: StreamId, sequence: int) -> bool:
        """Tell whether an event was ever durable here."""
        return any(stream in heads and heads[stream].sequence >= sequence for _, heads in self._entries)

    def kept_since(self, moment: float) -> Heads:
        """Return what was durable at a moment and was not lost with the disk afterwards."""
        index = bisect_right(self._entries, moment, key=lambda entry: entry[0])
        heads = dict(self._entries[index - 1][1]) if index else {}
        for replaced in self._replaced:
            if replaced >= index:
                left = self._entries[replaced][1]
                heads = {s: min(h, left.get(s, NOTHING), key=lambda h: h.sequence) for s, h in heads.items()}
        return heads
