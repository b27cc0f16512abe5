"""The handshake of the revisions that have one: `initialize`, `notifications/initialized`, `ping`."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.mcp.harness import Client
from tests.conformance.mcp.model import ALL, LATEST_LEGACY, LEGACY, requirement

NEWEST_WITH_HANDSHAKE = "2025-11-25"
ODD_VERSIONS: list[Any] = ["2026-07-28", "2025-11-24", "1.0", "", "2025-11-25 ", None, 20251125, []]
OTHER_VERSIONS: list[dict[str, Any]] = [{}, *({"protocolVersion": version} for version in ODD_VERSIONS)]


def initialize(client: Client, **params: Any) -> dict[str, Any]:
    return client.request("initialize", {"capabilities": {}, "clientInfo": {"name": "c"}, **params}).result()


@requirement("lifecycle.same-version", "seed.negotiates", revisions=LEGACY)
def test_a_version_that_is_known_is_agreed_on(client: Client) -> None:
    assert initialize(client, protocolVersion=client.revision)["protocolVersion"] == client.revision


@requirement("lifecycle.other-version", "seed.newest-for-the-rest", revisions=LATEST_LEGACY)
@pytest.mark.parametrize("params", OTHER_VERSIONS, ids=repr)
def test_any_other_version_or_none_is_answered_with_the_newest(
    client: Client, params: dict[str, Any]
) -> None:
    assert initialize(client, **params)["protocolVersion"] == NEWEST_WITH_HANDSHAKE


@requirement("lifecycle.result", "wire.capabilities", "seed.reply-carries", revisions=LEGACY)
def test_the_answer_to_initialize_has_exactly_its_members(client: Client) -> None:
    result = initialize(client, protocolVersion=client.revision)
    assert set(result) == {"protocolVersion", "capabilities", "serverInfo", "instructions"}
    assert result["capabilities"] == {"tools": {}}
    assert set(result["serverInfo"]) == {"name", "title", "version"}
    assert all(isinstance(text, str) and text for text in result["serverInfo"].values())
    assert isinstance(result["instructions"], str)
    assert result["instructions"]


@requirement("lifecycle.initialized", revisions=LEGACY)
def test_initialized_is_accepted_without_an_answer(client: Client) -> None:
    client.tell(client.notice("notifications/initialized")).nothing()


@requirement("lifecycle.no-order", revisions=LEGACY)
def test_requests_are_answered_whether_or_not_initialized_has_arrived(client: Client) -> None:
    assert client.request("ping").result() == {}
    assert len(client.request("tools/list").result()["tools"]) == 11
    assert client.call("list_beacons").content()["beacons"] == []
    initialize(client, protocolVersion=client.revision)
    assert client.call("list_beacons").content()["beacons"] == []


@requirement("lifecycle.ping", "seed.three-methods", revisions=LEGACY)
def test_ping_is_answered_with_an_empty_object_at_any_time(client: Client) -> None:
    for id in ("before", "after"):
        assert client.request("ping", id=id).result(id) == {}
        initialize(client, protocolVersion=client.revision)
    assert client.ask({"jsonrpc": "2.0", "id": 1, "method": "ping"}).result() == {}


@requirement("lifecycle.plain-results", revisions=LEGACY)
def test_results_have_nothing_of_a_later_revision(client: Client) -> None:
    later = {"resultType", "ttlMs", "cacheScope", "_meta"}
    results = [
        initialize(client, protocolVersion=client.revision),
        client.request("ping").result(),
        client.request("tools/list").result(),
        client.call("list_beacons").result(),
        client.call("recall", {}).result(),
    ]
    assert [set(result) & later for result in results] == [set()] * 5


@requirement("seed.three-methods", revisions=ALL)
def test_the_three_methods_of_the_seed_and_no_product_methods_exist(client: Client) -> None:
    if not client.is_modern:
        initialize(client)
    assert len(client.request("tools/list").result()["tools"]) == 11
    client.call("list_beacons").content()
    for method in ("store", "recall", "memory/store", "tools/store", "drain_inbox", "whoami"):
        client.request(method).error(-32601, http=client.http(modern=404))
