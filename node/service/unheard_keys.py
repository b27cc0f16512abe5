"""A key that nobody here has heard of may have been issued on another peer a moment ago: wait for it, once.

What was asked for in vain is remembered for a while, so that wrong keys do not hold connections open.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable

from mcp_gateway.authentication import parse_key
from node.principals import KeyRing
from proto.errors import HyphaeError
from proto.messages import KeyCredential, Request, SignedCredential

WAIT_S = 0.3
LOOK_S = 0.01
REMEMBER_S = 10.0
REMEMBERED = 1_000


class UnheardKeys:
    """Used on the event loop only.

    Args:
        keys: all that this peer has heard of.
        now_s: monotonic clock, seconds.
    """

    def __init__(self, keys: KeyRing, now_s: Callable[[], float]) -> None:
        self._keys, self._now_s = keys, now_s
        self._in_vain: OrderedDict[str, float] = OrderedDict()

    async def came(self, request: Request) -> bool:
        """Wait for the key of a request that was refused; tell whether it has become known meanwhile."""
        key_id = _key_id(request)
        if key_id is None or self._keys.knows(key_id) or self._in_vain.get(key_id, 0.0) > self._now_s():
            return False
        until_s = self._now_s() + WAIT_S
        while not self._keys.knows(key_id):
            if self._now_s() >= until_s:
                self._in_vain[key_id] = until_s + REMEMBER_S
                while len(self._in_vain) > REMEMBERED:
                    self._in_vain.popitem(last=False)
                return False
            await asyncio.sleep(LOOK_S)
        return True


def _key_id(request: Request) -> str | None:
    credential = request.credential
    if isinstance(credential, SignedCredential):
        return credential.key_id
    if isinstance(credential, KeyCredential):
        try:
            return parse_key(credential.key).id
        except HyphaeError:
            return None
    return None
