"""Arrays of messages: part of one revision, refused in all others."""

from __future__ import annotations

from typing import Any

from tests.conformance.mcp.harness import Client
from tests.conformance.mcp.links import HttpLink
from tests.conformance.mcp.model import BATCHING, HTTP, requirement
from tests.conformance.mcp.reply import error_of

PING = {"jsonrpc": "2.0", "id": "p", "method": "ping"}
NOTICE = {"jsonrpc": "2.0", "method": "notifications/initialized"}
CALL = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "list_beacons"}}
OTHERS = ("2024-11-05", "2025-06-18", "2025-11-25", "2026-07-28")


def answers(client: Client, batch: list[Any]) -> dict[Any, Any]:
    """Return the answers to a batch by id."""
    reply = client.ask(batch)
    reply.has_status(200)
    assert isinstance(reply.body, list)
    by_id = {answer["id"]: answer for answer in reply.body}
    assert len(by_id) == len(reply.body)
    return by_id


@requirement("batch.answers", revisions=BATCHING)
def test_a_batch_gets_one_answer_for_each_request_and_none_for_a_notification(client: Client) -> None:
    unknown = {"jsonrpc": "2.0", "id": 3, "method": "no/such"}
    found = answers(client, [PING, NOTICE, CALL, unknown])
    assert set(found) == {"p", 2, 3}
    assert found["p"] == {"jsonrpc": "2.0", "id": "p", "result": {}}
    assert found[2]["result"]["isError"] is False
    error_of(found[3], -32601, 3)


@requirement("batch.notifications", revisions=BATCHING)
def test_a_batch_without_a_request_is_not_answered(client: Client) -> None:
    client.tell([NOTICE, NOTICE]).nothing()
    client.tell([{"jsonrpc": "2.0", "id": 1, "result": {}}]).nothing()


@requirement("batch.empty", revisions=(*BATCHING, *OTHERS))
def test_an_empty_batch_is_one_invalid_request(client: Client) -> None:
    client.ask([]).error(-32600, id=None, http=400)


@requirement("batch.initialize", revisions=BATCHING)
def test_initialize_in_a_batch_is_refused_and_the_rest_answered(client: Client) -> None:
    params = {"protocolVersion": "2025-11-25"}
    found = answers(client, [{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}, PING])
    assert set(found) == {1, "p"}
    error_of(found[1], -32600, 1)
    assert found["p"]["result"] == {}
    assert set(answers(client, [PING])) == {"p"}  # nothing was agreed on in it


@requirement("batch.malformed-part", revisions=BATCHING)
def test_what_is_no_message_in_a_batch_is_an_error_of_its_own(client: Client) -> None:
    reply = client.ask([1, PING, {"jsonrpc": "2.0", "id": 4, "method": 5}, []])
    reply.has_status(200)
    first, second, third, fourth = reply.body
    error_of(first, -32600, None)
    assert second == {"jsonrpc": "2.0", "id": "p", "result": {}}
    error_of(third, -32600, 4)
    error_of(fourth, -32600, None)


@requirement("batch.elsewhere", "modern.no-batches", revisions=OTHERS)
def test_a_batch_in_any_other_revision_is_one_invalid_request_and_nothing_of_it_happens(
    client: Client,
) -> None:
    arguments = {"content": f"batched {client.link.name} {client.revision}", "cell_type": "Fact"}
    store = {**CALL, "params": {"name": "store", "arguments": arguments}}
    client.ask([PING, store]).error(-32600, id=None, http=400)
    found = client.call("recall", {"query": arguments["content"], "mode": "lexical", "include_content": True})
    assert arguments["content"] not in [hit["content"] for hit in found.content()["results"]]


@requirement("batch.no-header", "http.version-absent", over=HTTP)
def test_over_http_a_batch_without_a_version_header_is_accepted(http: HttpLink) -> None:
    reply = http.exchange("POST", b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]')
    assert (reply.status, reply.body) == (200, [{"jsonrpc": "2.0", "id": 1, "result": {}}])
