"""Errors of the service behind the tools: JSON-RPC errors with codes of their own, legible to models."""

from __future__ import annotations

import pytest

from node.service.rates import Rates
from proto.errors import TABLE
from proto.messages import Reply
from tests.conformance.mcp.harness import Client
from tests.conformance.mcp.model import ALL, BOTH, MEMORY, requirement
from tests.conformance.mcp.shared_peer import SharedPeer
from tests.conformance.mcp.test_tools_call import NOWHERE

RESERVED = range(-32768, -31999)
CODES = {
    "invalid": 4000,
    "unauthenticated": 4010,
    "forbidden": 4030,
    "not_found": 4040,
    "conflict": 4090,
    "overloaded": 4290,
    "unavailable": 5030,
    "protocol": 4220,
    "corrupted": 5070,
    "internal": 5000,
}


@requirement(
    "error.facade", "error.code-word", "error.data", "error.http-200", "seed.facade-error", "seed.codes-preserved",
    revisions=ALL,
)  # fmt: skip
def test_an_error_of_the_service_is_a_json_rpc_error_that_begins_with_its_code_word(client: Client) -> None:
    error = client.call("get_scene", {"scene_id": NOWHERE}).error(4040, http=200)
    assert error["message"].startswith("not_found: ")
    assert error["data"] == {"code": "not_found", "definite": True}
    assert len(error["message"]) <= 300


@requirement("error.facade", "seed.codes-preserved", revisions=BOTH)
def test_different_errors_of_the_service_keep_their_different_codes(client: Client) -> None:
    key = f"conflict-{client.link.name}-{client.revision}"
    first = {"content": "one", "cell_type": "Fact", "idempotency_key": key}
    client.call("store", first).content()
    error = client.call("store", {**first, "content": "another"}).error(4090, http=200)
    assert error["message"].startswith("conflict: ")
    assert error["data"] == {"code": "conflict", "definite": True}


@requirement("error.code-range", over=MEMORY)
def test_the_codes_of_our_errors_lie_outside_what_others_have_reserved() -> None:
    assert {word: row.rpc for word, row in TABLE.items()} == CODES
    assert not [code for code in CODES.values() if code in RESERVED]
    assert len(set(CODES.values())) == len(CODES)


@requirement("error.internal", revisions=BOTH, over=("memory", "http"))
def test_a_defect_is_a_generic_internal_error(client: Client, peer: SharedPeer) -> None:
    with peer.failing("list_beacons", RuntimeError("a detail that is nobody's business")):
        error = client.call("list_beacons").error(-32603)
    assert "detail" not in str(error)
    assert "RuntimeError" not in str(error)
    assert error["data"] == {"code": "internal", "definite": False}
    client.call("list_beacons").content()


@requirement("wire.strict-output", revisions=BOTH, over=("memory", "http"))
def test_a_number_that_json_does_not_have_is_a_defect_and_is_not_sent(
    client: Client, peer: SharedPeer
) -> None:
    with peer.failing("list_beacons", Reply(result={"beacons": [float("nan")]})):
        client.call("list_beacons").error(-32603)


@requirement("call.rate-limit", revisions=BOTH)
def test_a_key_that_calls_too_often_is_told_when_to_come_back(
    client: Client, peer: SharedPeer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:  # the real limit, with a clock that stands still
        patch.setattr(peer.service.real, "_rates", Rates(lambda: 0.0, per_s=5, burst=10))
        for _ in range(10):
            client.call("list_beacons").content()
        error = client.call("list_beacons").error(4290)
    assert error["message"].startswith("overloaded: ")
    assert error["data"] == {"code": "overloaded", "definite": True, "retry_after_ms": 200}
    client.call("list_beacons").content()
