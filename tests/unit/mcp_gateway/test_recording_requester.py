"""The fake peer against what the gateway relies on."""

from __future__ import annotations

import asyncio
from typing import Any

from proto.errors import Conflict, Unauthenticated
from proto.messages import KeyCredential, Reply, Request
from tests.support.recording_requester import KEY, UNKNOWN_KEY, RecordingRequester


def ask(
    peer: RecordingRequester, method: str, wrote: str | None = None, key: str = KEY, **args: Any
) -> Reply:
    return asyncio.run(peer.request(Request(method, args, 0, KeyCredential(key), wrote=wrote)))


def test_one_idempotency_key_names_one_cell() -> None:
    peer = RecordingRequester()
    cell = {"content": "x", "cell_type": "Fact", "idempotency_key": "k1"}
    assert ask(peer, "store", **cell).unwrap() == ask(peer, "store", **cell).unwrap()
    assert isinstance(ask(peer, "store", **{**cell, "content": "y"}).error, Conflict)
    assert len(peer.cells) == 1


def test_a_page_is_listed_again_until_it_is_named_as_written() -> None:
    peer = RecordingRequester()
    for number in range(3):
        ask(peer, "store", content=f"c{number}", cell_type="Fact", idempotency_key=f"k{number}")
    first = ask(peer, "drain_inbox", wrote="", limit=2)
    again = ask(peer, "drain_inbox", wrote="", limit=2)
    assert first.unwrap()["diffs"] == again.unwrap()["diffs"]
    rest = ask(peer, "drain_inbox", wrote=again.page, limit=2)
    assert [diff["content"] for diff in rest.unwrap()["diffs"]] == ["c2"]
    peer.written(rest.page or "")
    assert ask(peer, "drain_inbox").unwrap() == {"diffs": [], "cursor": "", "remaining": 0}


def test_an_unknown_key_is_refused() -> None:
    assert isinstance(ask(RecordingRequester(), "whoami", key=UNKNOWN_KEY).error, Unauthenticated)
