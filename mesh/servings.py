"""The pulls of others that are answered here: which are taken on, and what becomes of them.

Each request is served once, few at a time, and only while what pages have cost lately is within bounds; whoever
asks beyond that is told `busy` and asks again later.  Pure; `now` is milliseconds of the engine's clock.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from mesh.digests import PullReply, PullRequest, Sender, encode_pull
from mesh.effects import Channel, Publish
from mesh.engine_config import EngineConfig
from mesh.ports import Head
from mesh.serving import Page
from mesh.token_bucket import TokenBucket
from proto.streams import StreamId


class Servings:
    """Pages that are being read.

    Args:
        counters: told of pages served, failed and refused.
    """

    def __init__(self, config: EngineConfig, counters: Counter[str]) -> None:
        self._config = config
        self._counters = counters
        self._pages: dict[tuple[Sender, bytes], Page] = {}
        self._budget = TokenBucket(config.serve_bytes_per_s, 2 * config.serve_bytes_per_s)

    @property
    def under_way(self) -> int:
        return len(self._pages)

    def is_served(self, request: PullRequest) -> bool:
        """Tell whether this very request is being served: it has come twice."""
        return (request.sender, request.id) in self._pages

    def begin(
        self, request: PullRequest, heads: Mapping[StreamId, Head], agreed: Mapping[StreamId, Head], now: int
    ) -> Page | Publish:
        """Take a request on and return its page, to be read; or return the answer that there is no room for it.

        Args:
            heads: what is held here of the peers concerned.
            agreed: of forked streams, how far they are handed on.
        """
        if len(self._pages) >= self._config.inbound_pulls or not self._budget.has_some(now):
            self._counters["busy_said"] += 1
            return _answer(request, encode_pull(PullReply(request.id, busy=True)))
        page = Page(request, heads, self._config.page_bytes, agreed=agreed)
        self._pages[request.sender, request.id] = page
        return page

    def end(self, page: Page, *, failed: bool) -> Publish:
        """Return the answer to a request whose page was read to its end, or could not be read."""
        request = page.request
        self._pages.pop((request.sender, request.id), None)
        self._counters["pages_failed" if failed else "pages_served"] += 1
        data = encode_pull(PullReply(request.id, busy=True) if failed else page.reply())
        self._budget.spend(len(data))
        return _answer(request, data)


def _answer(request: PullRequest, data: bytes) -> Publish:
    return Publish(Channel.PULL, data, peer=request.sender.peer)
