"""A memory that comes while a search is under way is shown to nobody who may not see it.

The search has decided that its filter lets every memory through, and is held there until the other one is stored.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from node.faiss_index import FaissIndexes
from node.lexical_index import LexicalIndex
from tests.support.open_service import OpenPeer, open_peer

HELD_S = 20.0
ASKED = {
    "a search by words and meaning": (LexicalIndex, "match", "recall", {"query": "ledger", "mode": "hybrid"}),
    "a search by words": (LexicalIndex, "match", "recall", {"query": "ledger", "mode": "lexical"}),
    "a search by meaning": (FaissIndexes, "search", "recall", {"query": "ledger", "mode": "vector"}),
    "a search among facts": (LexicalIndex, "match", "recall", {"query": "ledger", "cell_types": ["Fact"]}),
    "a beacon's examples": (
        FaissIndexes,
        "search",
        "place_beacon",
        {"interest": "ledger", "threshold": 0.1},
    ),
}


class Held:
    """Calls of one function, each held until it may go on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, owner: type, name: str) -> None:
        self.entered, self.go_on = threading.Event(), threading.Event()
        usual = getattr(owner, name)

        def held(*arguments: Any, **named: Any) -> Any:
            self.entered.set()
            assert self.go_on.wait(HELD_S)
            return usual(*arguments, **named)

        monkeypatch.setattr(owner, name, held)


async def _found(
    peer: OpenPeer, held: Held, key: str, other: str, method: str, asked: Mapping[str, Any]
) -> str:
    """Return the result of a call during which somebody else stores what is private, and what is no fact."""
    searching = asyncio.create_task(peer.call(method, asked, key))
    assert await asyncio.to_thread(held.entered.wait, HELD_S)
    await peer.call("store", {"content": "secret ledger", "cell_type": "Fact", "project": "private"}, other)
    await peer.call("store", {"content": "risky ledger", "cell_type": "Risk", "project": "private"}, other)
    held.go_on.set()
    return str(await searching)


@pytest.mark.parametrize(("owner", "name", "method", "asked"), ASKED.values(), ids=ASKED.keys())
def test_what_is_stored_during_a_search_meets_its_filter(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    owner: type,
    name: str,
    method: str,
    asked: Mapping[str, Any],
) -> None:
    async def run() -> str:
        async with open_peer(tmp_path) as peer:
            ann, bob = await peer.key("ann", owner="ann"), await peer.key("bob", owner="bob")
            await peer.call("store", {"content": "open ledger", "cell_type": "Fact"}, bob)
            held = Held(monkeypatch, owner, name)
            content = {} if method == "place_beacon" else {"include_content": True}
            return await _found(peer, held, ann, bob, method, {**asked, **content})

    found = asyncio.run(run())
    assert "open ledger" in found
    assert "secret" not in found
    assert "risky" not in found
