"""What the HTTP surface does for clients that leave, for defects, and when a page counts as read."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

from proto.errors import NotFound
from proto.messages import Reply
from tests.support.http_peer import JSON_HEADERS, HttpPeer
from tests.support.recording_requester import Gate, RecordingRequester

STORE = {"content": "we retry payments", "cell_type": "Decision"}


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_a_page_is_confirmed_once_its_reply_was_sent() -> None:
    with HttpPeer() as peer:
        peer.requester.plan(
            "drain_inbox", Reply(result={"diffs": []}, page="p1"), Reply(result={}, page="p2")
        )
        peer.call("drain_inbox")
        until(lambda: peer.requester.confirmed == ["p1"])
        peer.rest("POST", "/v1/inbox:drain", {})
        until(lambda: peer.requester.confirmed == ["p1", "p2"])


def left_during(peer: HttpPeer, tool: str, arguments: dict[str, Any]) -> None:
    """Start a call, and leave once the peer has been asked."""
    connection = peer.connect()
    params = {"name": tool, "arguments": arguments}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
    connection.request("POST", "/mcp", body, JSON_HEADERS)
    until(lambda: bool(peer.requester.asked(tool)))
    connection.close()


def test_a_client_that_leaves_ends_its_reading() -> None:
    with HttpPeer() as peer:
        peer.requester.plan("recall", Gate())
        left_during(peer, "recall", {"query": "x"})
        until(lambda: peer.requester.cancelled == ["recall"])


def test_a_client_that_leaves_does_not_end_its_store_and_confirms_no_page() -> None:
    with HttpPeer() as peer:
        stored, drained = Gate(), Gate()
        peer.requester.plan("store", stored)
        left_during(peer, "store", STORE)
        stored.open()
        until(lambda: len(peer.requester.cells) == 1)
        peer.requester.plan("drain_inbox", drained, Reply(result={}, page="p1"))
        left_during(peer, "drain_inbox", {})
        assert peer.rpc("ping").status == 200  # the server has seen the connection close by now
        drained.open()
        assert peer.rpc("ping").status == 200
        assert peer.requester.confirmed == []


def test_a_defect_is_an_internal_error_and_the_server_goes_on() -> None:
    with HttpPeer() as peer:
        peer.requester.plan("recall", ValueError("a secret"))
        answer = peer.call("recall", query="x")
        assert answer.json["error"]["code"] == -32603
        peer.requester.plan("whoami", ValueError("a secret"), NotFound("x"))
        broken = peer.rpc("ping")
        assert broken.status == 500
        assert "a secret" not in (answer.body + broken.body).decode()
        assert peer.rpc("ping").status == 200


def test_one_call_costs_one_request_to_the_service() -> None:
    with HttpPeer(RecordingRequester()) as peer:
        peer.call("recall", query="x")
        assert [request.method for request in peer.requester.requests] == ["recall"]
        peer.rpc("tools/list")
        assert [request.method for request in peer.requester.requests] == ["recall", "whoami"]
