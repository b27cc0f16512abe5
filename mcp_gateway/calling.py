"""One checked call to the service: its deadline, the idempotency key of a store, and honest retries.

The duty: turn (what to call, checked arguments, a door to a peer) into one `Reply`.  A store may be repeated
because its key makes the repetition safe; nothing else is.  It knows no protocol of agents and no transport.
"""

from __future__ import annotations

import asyncio
import base64
import secrets
import traceback
from collections.abc import Awaitable, Callable, Mapping
from pathlib import PurePath
from typing import Any

from mcp_gateway.error_texts import explained
from mcp_gateway.specs import CallSpec
from mesh import wall_clock
from proto.errors import HyphaeError, Unavailable, Uncertain
from proto.messages import Reply

Door = Callable[[str, Mapping[str, Any], int], Awaitable[Reply]]
"""Asks a peer: method, arguments, deadline in ms since 1970.  Adds who asks; answers failures as replies."""

CALL_MS = 30_000
ATTEMPT_MS = 10_000  # of a store: a lost reply leaves time to ask again
ATTEMPTS = 6
AWAY_MS = 6_000  # a peer that restarts is back by then; one that is gone should not hold an agent up
BACKOFF_MS = 100
BACKOFF_MAX_MS = 2_000
GRACE_MS = 500  # a requester answers by its deadline; beyond this it is taken to hang
PLACES_SHOWN = 6  # of a defect in a log: enough to see how it came about
KEY_CHARS = 12  # 60 bits: a collision within one agent is less likely than a lost disk


def new_idempotency_key() -> str:
    """Return a random key, short enough for a model to repeat: "k" and 12 base32 characters."""
    return "k" + base64.b32encode(secrets.token_bytes(10)).decode("ascii")[:KEY_CHARS].lower()


class Calls:
    """Makes calls.  Stateless; one instance serves all callers at once.

    Args:
        call_ms: how long one call may take in all, retries included.
        now_ms: wall clock in ms since 1970.
        sleep: waits for seconds.
        new_key: makes an idempotency key.
        attempts: how often a store is tried at most.
    """

    def __init__(
        self,
        call_ms: int = CALL_MS,
        now_ms: Callable[[], int] = wall_clock.now_ms,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        new_key: Callable[[], str] = new_idempotency_key,
        attempts: int = ATTEMPTS,
    ) -> None:
        self._call_ms = call_ms
        self._now_ms = now_ms
        self._sleep = sleep
        self._new_key = new_key
        self._attempts = attempts

    async def call(self, spec: CallSpec, args: Mapping[str, Any], door: Door) -> Reply:
        """Return the reply of the service, at the latest when the time of the call is over.

        Args:
            spec: what is called.
            args: as `arguments.check` returned them.
            door: to the peer, on behalf of one caller.
        """
        deadline_ms = self._now_ms() + self._call_ms
        if spec.name == "store":
            return await self._store(spec, args, door, deadline_ms)
        reply = await self._attempt(spec, args, door, deadline_ms)
        if reply.error is None:
            return reply
        return Reply(error=explained(spec, reply.error, in_doubt=not reply.error.definite))

    async def _store(self, spec: CallSpec, args: Mapping[str, Any], door: Door, deadline_ms: int) -> Reply:
        """Store under a key, and again under the same key while that can help."""
        key = args.get("idempotency_key") or self._new_key()
        keyed = {**args, "idempotency_key": key}
        begun_ms = self._now_ms()
        in_doubt = False
        attempt = 0
        while True:
            attempt += 1
            until_ms = min(deadline_ms, self._now_ms() + ATTEMPT_MS)
            reply = await self._attempt(spec, keyed, door, until_ms)
            error = reply.error
            if error is None:
                return reply
            in_doubt = in_doubt or not error.definite
            wait_ms = _wait_ms(error, attempt) if attempt < self._attempts else None
            away = error.code == "unavailable" and error.definite and error.retry_after_ms is None
            end_ms = min(deadline_ms, begun_ms + AWAY_MS) if away else deadline_ms
            if wait_ms is None or self._now_ms() + wait_ms >= end_ms:
                return Reply(error=explained(spec, error, in_doubt=in_doubt, key=key))
            await self._sleep(wait_ms / 1000)

    async def _attempt(self, spec: CallSpec, args: Mapping[str, Any], door: Door, deadline_ms: int) -> Reply:
        left_ms = min(max(0, deadline_ms - self._now_ms()), self._call_ms)  # the clock may have been set back
        try:
            async with asyncio.timeout((left_ms + GRACE_MS) / 1000):
                return await door(spec.name, args, deadline_ms)
        except TimeoutError:
            text = f"no answer within {round(left_ms / 1000)} s."
            return Reply(error=Unavailable(text) if spec.reads else Uncertain(text))


def _wait_ms(error: HyphaeError, attempt: int) -> int | None:
    """Return how long to wait before the next attempt, or None where another one cannot help."""
    if error.code not in {"unavailable", "overloaded"}:
        return None
    if error.retry_after_ms is not None:
        return max(error.retry_after_ms, BACKOFF_MS)
    most = min(BACKOFF_MAX_MS, BACKOFF_MS << attempt)
    return most // 2 + secrets.randbelow(most // 2)  # jitter: those who failed together return apart


def defect(error: BaseException) -> dict[str, str]:
    """Return what a log may say of an unexpected exception: its type and places, innermost first, no values."""
    frames = traceback.extract_tb(error.__traceback__)[: -PLACES_SHOWN - 1 : -1]
    where = " < ".join(f"{PurePath(frame.filename).name}:{frame.lineno}" for frame in frames)
    return {"error": type(error).__name__, "where": where or "unknown"}
