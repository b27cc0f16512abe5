"""The stateless revision: discovery, the envelope of every request and result, and the ladder of refusals."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.mcp.harness import (
    CAPABILITIES_KEY,
    CLIENT_INFO_KEY,
    SERVER_INFO_KEY,
    VERSION_KEY,
    Client,
    with_meta,
)
from tests.conformance.mcp.model import EVERYWHERE, LATEST_LEGACY, MODERN, requirement
from tests.conformance.mcp.test_tools_call import NOWHERE

FIVE = ["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"]
GONE = (
    "initialize",
    "ping",
    "logging/setLevel",
    "resources/subscribe",
    "resources/unsubscribe",
    "roots/list",
)


def results_of(client: Client) -> dict[str, dict[str, Any]]:
    """Return a result of each kind that there is."""
    return {
        "server/discover": client.request("server/discover").result(),
        "tools/list": client.request("tools/list").result(),
        "success": client.call("list_beacons").result(),
        "refusal": client.call("recall", {}).result(),
    }


@requirement("modern.discover", "seed.three-methods", revisions=MODERN)
def test_discovery_tells_exactly_what_there_is(client: Client) -> None:
    result = client.request("server/discover").result()
    assert set(result) == {
        "resultType",
        "supportedVersions",
        "capabilities",
        "instructions",
        "ttlMs",
        "cacheScope",
        "_meta",
    }
    assert result["supportedVersions"] == FIVE
    assert result["capabilities"] == {"tools": {}}
    assert isinstance(result["instructions"], str)
    assert result["instructions"]


@requirement("modern.discover-first", revisions=MODERN)
def test_discovery_needs_the_envelope_like_any_request(client: Client) -> None:
    message = {"jsonrpc": "2.0", "id": 1, "method": "server/discover"}
    client.ask(message, []).error(-32602, http=400)
    client.ask({**message, "params": {}}, client.headers(message)).error(-32602, http=400)


@requirement("modern.result-type", "modern.server-info", revisions=MODERN)
def test_every_result_is_complete_and_says_who_made_it(client: Client) -> None:
    for kind, result in results_of(client).items():
        assert result["resultType"] == "complete", kind
        assert set(result["_meta"]) == {SERVER_INFO_KEY}, kind
        info = result["_meta"][SERVER_INFO_KEY]
        assert {"name", "version"} <= set(info), kind
        assert all(isinstance(value, str) and value for value in info.values()), kind
        assert "serverInfo" not in result


@requirement("modern.caching", revisions=MODERN)
def test_discovery_and_the_roster_say_how_long_they_hold_and_calls_do_not(client: Client) -> None:
    results = results_of(client)
    for kind in ("server/discover", "tools/list"):
        assert type(results[kind]["ttlMs"]) is int
        assert results[kind]["ttlMs"] >= 0
        assert results[kind]["cacheScope"] == "public"
    for kind in ("success", "refusal"):
        assert not {"ttlMs", "cacheScope"} & set(results[kind])


@requirement("modern.envelope", revisions=MODERN)
@pytest.mark.parametrize(
    "meta",
    [
        {VERSION_KEY: "2026-07-28"},
        {CAPABILITIES_KEY: {}},
        {VERSION_KEY: "2026-07-28", CAPABILITIES_KEY: None},
        {VERSION_KEY: "2026-07-28", CAPABILITIES_KEY: []},
        {VERSION_KEY: "2026-07-28", CAPABILITIES_KEY: "tools"},
        {VERSION_KEY: 20260728, CAPABILITIES_KEY: {}},
        {VERSION_KEY: None, CAPABILITIES_KEY: {}},
        {},
    ],
    ids=str,
)
def test_an_envelope_without_a_version_or_capabilities_is_invalid(
    client: Client, meta: dict[str, Any]
) -> None:
    client.ask(with_meta(client, "server/discover", meta)).error(-32602, http=400)
    if client.over_http or VERSION_KEY in meta:  # else nothing says that it is modern
        client.ask(with_meta(client, "tools/list", meta)).error(-32602, http=400)
        message = with_meta(client, "tools/call", meta, name="list_beacons")
        client.ask(message).error(-32602, http=400)


@requirement("modern.client-info", revisions=MODERN)
def test_who_the_client_is_need_not_be_said(client: Client) -> None:
    meta = client.meta()
    del meta[CLIENT_INFO_KEY]
    assert len(client.ask(with_meta(client, "tools/list", meta)).result()["tools"]) == 11


@requirement("modern.capabilities-free", revisions=MODERN)
@pytest.mark.parametrize("capabilities", [{}, {"elicitation": {}}, {"unknown": {"x": [1]}}], ids=str)
def test_no_capability_of_the_client_is_needed(client: Client, capabilities: dict[str, Any]) -> None:
    meta = client.meta(**{CAPABILITIES_KEY: capabilities})
    message = with_meta(client, "tools/call", meta, name="list_beacons")
    assert client.ask(message).content()["beacons"] is not None


@requirement("modern.unsupported-version", "modern.supported-list", revisions=MODERN)
@pytest.mark.parametrize("version", ["1900-01-01", "2027-01-01", "2025-11-25", "2024-11-05", "", "latest"])
def test_a_version_that_is_not_spoken_so_is_refused_with_those_that_are(client: Client, version: str) -> None:
    message = with_meta(client, "tools/list", client.meta(**{VERSION_KEY: version}))
    headers = [("MCP-Protocol-Version", version), ("Mcp-Method", "tools/list")]
    error = client.ask(message, headers).error(-32022, http=400)
    assert error["data"] == {"supported": FIVE, "requested": version}
    offered = client.request("server/discover").result()["supportedVersions"]
    assert set(error["data"]["supported"]) <= set(offered)


@requirement("modern.unknown-method", "modern.no-handshake", "modern.no-subscriptions", revisions=MODERN)
@pytest.mark.parametrize("method", [*GONE, "subscriptions/listen", "tasks/get", "no/such"])
def test_methods_of_other_revisions_do_not_exist_here(client: Client, method: str) -> None:
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c"}}
    client.request(method, params, id="x").error(-32601, id="x", http=404)
    client.lives()


@requirement("modern.not-by-handshake", "lifecycle.other-version", revisions=LATEST_LEGACY)
def test_initialize_never_agrees_on_the_revision_without_a_handshake(client: Client) -> None:
    result = client.request("initialize", {"protocolVersion": "2026-07-28"}).result()
    assert result["protocolVersion"] == "2025-11-25"
    assert set(client.request("tools/list").result()) == {"tools"}


@requirement("modern.detection", "modern.stateless", revisions=MODERN)
def test_a_modern_request_needs_nothing_that_came_before(client: Client) -> None:
    assert client.call("list_beacons").result()["resultType"] == "complete"
    assert client.request("server/discover").result()["resultType"] == "complete"


@requirement("modern.unknown-tool", revisions=MODERN)
def test_an_unknown_tool_is_invalid_parameters(client: Client) -> None:
    error = client.call("no_such").error(-32602, http=400)
    assert error["message"].startswith("Unknown tool: no_such")


@requirement("modern.no-input-required", revisions=MODERN)
def test_answers_to_questions_that_were_never_asked_are_ignored(client: Client) -> None:
    more = {"inputResponses": {"a": {"action": "accept", "content": {}}}, "requestState": "opaque"}
    result = client.request("tools/call", {"name": "list_beacons", **more}).result()
    assert result["resultType"] == "complete"
    assert not {"inputRequests", "requestState"} & set(result)


@requirement("modern.notification", over=EVERYWHERE, revisions=MODERN)
def test_a_notification_is_dropped(client: Client) -> None:
    for method in ("notifications/cancelled", "notifications/x", "tools/call"):
        client.tell(client.notice(method, {"name": "list_beacons", "requestId": 1})).nothing()


@requirement("modern.codes", over=EVERYWHERE, revisions=MODERN)
def test_no_code_is_used_that_the_specification_keeps_for_itself(client: Client) -> None:
    replies = [
        client.ask(b"nonsense"),
        client.ask([]),
        client.request("no/such"),
        client.call("no_such"),
        client.call("get_scene", {"scene_id": NOWHERE}),
        client.ask(with_meta(client, "tools/list", {VERSION_KEY: "2026-07-28"})),
        client.ask(
            with_meta(client, "tools/list", client.meta(**{VERSION_KEY: "x"})),
            [("MCP-Protocol-Version", "x"), ("Mcp-Method", "tools/list")],
        ),
    ]
    codes = [reply.body["error"]["code"] for reply in replies]
    assert codes == [-32700, -32600, -32601, -32602, 4040, -32602, -32022]
