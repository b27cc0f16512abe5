"""Errors of the service behind the tools: JSON-RPC errors with codes of their own, legible to models."""

from __future__ import annotations

import asyncio

from proto.errors import TABLE
from tests.conformance.mcp.harness import Client
from tests.conformance.mcp.links import HttpLink, MemoryLink
from tests.conformance.mcp.model import ALL, BOTH, HTTP, MEMORY, requirement
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


@requirement("error.internal", revisions=BOTH, over=MEMORY)
def test_a_defect_is_a_generic_internal_error(client: Client, peer: SharedPeer) -> None:
    with peer.failing("list_beacons", RuntimeError("a detail that is nobody's business")):
        error = client.call("list_beacons").error(-32603)
    assert "detail" not in str(error)
    assert "RuntimeError" not in str(error)
    assert error["data"] == {"code": "internal", "definite": False}
    client.call("list_beacons").content()


@requirement("error.internal", over=HTTP)
def test_over_http_a_defect_is_the_same_and_the_peer_goes_on(peer: SharedPeer, http: HttpLink) -> None:
    for revision in ("2025-11-25", "2026-07-28"):
        client = Client(http, revision)
        with peer.failing("list_beacons", RuntimeError("a detail that is nobody's business")):
            error = client.call("list_beacons").error(-32603, http=200)
        assert "detail" not in str(error)
        client.call("list_beacons").content()


@requirement("call.rate-limit", over=MEMORY)
def test_a_key_that_calls_without_measure_is_told_when_to_come_back(peer: SharedPeer) -> None:
    link = MemoryLink(peer, peer.key("flood"))
    message = Client(link, "2025-11-25").message("tools/call", {"name": "list_beacons"})

    async def flood() -> list[int]:
        one = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"list_beacons"}}'
        refused = []
        for _ in range(40):
            for answer in await asyncio.gather(*(link.answer(one) for _ in range(100))):
                assert answer is not None
                error = answer.body.get("error")
                if error is not None:
                    refused.append(error)
            if refused:
                break
        return refused

    refused = peer.run(flood())
    assert refused, "4,000 calls at once were all served"
    assert {error["code"] for error in refused} == {4290}
    assert all(error["data"]["retry_after_ms"] > 0 for error in refused)
    assert message["method"] == "tools/call"
