"""How many calls are under way: in all, and of one key, so that one key's slow calls leave places for others.

Bookkeeping without a clock, on the event loop only.  A call has a place from the moment its key is known until
it is answered or dropped; nobody waits for one, for a queue would only make all of them late.
Source: the bulkhead of Nygard, Release It! (2007).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from proto import limits
from proto.errors import Overloaded

RETRY_MS: Final = 250


class Places:
    """The places of one peer.

    Args:
        in_all: calls of all keys.
        per_key: calls of one key.
    """

    def __init__(
        self, in_all: int = limits.CALLS_AT_ONCE, per_key: int = limits.CALLS_AT_ONCE_PER_KEY
    ) -> None:
        self._in_all, self._per_key = in_all, per_key
        self._taken: Counter[str] = Counter()
        self._count = 0

    @property
    def taken(self) -> int:
        """Calls that are under way."""
        return self._count

    @contextmanager
    def one(self, key_id: str | None) -> Iterator[None]:
        """Hold a place for the block, however it ends.

        Args:
            key_id: whose call it is; None for the user of the peer's own socket, who always gets in, so that a
                peer that is full can be looked at and stopped.

        Raises:
            Overloaded: there is none; the block was not entered.
        """
        if key_id is None:
            yield
            return
        self._check(self._taken[key_id], self._per_key, "of this key")
        self._check(self._count, self._in_all, "of this peer")
        self._taken[key_id] += 1
        self._count += 1
        try:
            yield
        finally:
            self._count -= 1
            self._taken[key_id] -= 1
            if not self._taken[key_id]:
                del self._taken[key_id]

    def _check(self, taken: int, limit: int, whose: str) -> None:
        if taken >= limit:
            raise Overloaded(
                f"{taken} calls {whose} are under way, limit {limit}. Nothing was done.",
                retry_after_ms=RETRY_MS,
            )
