"""Stores of one process that wait for as many members as they want, and what they are answered then.

The same rule as in a peer: an answer goes out as soon as the engine says that enough members hold the events, or
after a while with what it says by then.  Every answer is a promise that the checks remember.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mesh.ports import Segment
from mesh.segments import last_of
from proto.streams import Position, StreamId

WANTED = (1, 2, 2, 3)
PATIENCE_MS = 700.0
REMEMBERED = 4  # answers with less than was wanted, watched for a confirmation that comes too late


@dataclass(frozen=True, slots=True, eq=False)
class Store:
    """Own durable events whose answer is due.

    Args:
        position: of the last of them.
        wanted: by how many members they are to be held.
    """

    position: Position
    wanted: int


@dataclass(frozen=True, slots=True)
class Answer:
    """What was answered.

    Args:
        known: how many members hold the events, as the engine says.
    """

    position: Position
    wanted: int
    known: int


class Answers:
    """The stores of one process life that are not answered.

    Args:
        durable_on: returns how many members are known to hold (stream, sequence) durably.
        give: takes each answer.
    """

    def __init__(self, durable_on: Callable[[StreamId, int], int], give: Callable[[Answer], None]) -> None:
        self._durable_on, self._give = durable_on, give
        self._waiting: list[Store] = []
        self._partial: list[Answer] = []
        self.late = 0  # confirmations that came after the answer

    def wait(self, segments: Sequence[Segment], wanted: int) -> list[Store]:
        """Take own events that have just become durable; `expire` is due for what is returned."""
        stores = [Store(Position(s.stream, last_of(s)), wanted) for s in segments]
        self._waiting += stores
        return stores

    def look(self) -> None:
        """Answer what has what it wants: more may be known than before."""
        for store in tuple(self._waiting):
            if self._durable_on(*store.position) >= store.wanted:
                self.expire(store)
        for answer in tuple(self._partial):
            if self._durable_on(*answer.position) >= answer.wanted:
                self._partial.remove(answer)
                self.late += 1

    def expire(self, store: Store) -> None:
        """Answer with what is known now, if that has not been done."""
        if store not in self._waiting:
            return
        self._waiting.remove(store)
        known = self._durable_on(*store.position)
        answer = Answer(store.position, store.wanted, known)
        if known < store.wanted:
            self._partial = [*self._partial[1 - REMEMBERED :], answer]
        self._give(answer)
