"""The stateless revision: discovery, the envelope of every request and result, and the ladder of refusals."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from tests.conformance.mcp.harness import (
    CAPABILITIES_KEY,
    CLIENT_INFO_KEY,
    SERVER_INFO_KEY,
    VERSION_KEY,
    Client,
    Headers,
)
from tests.conformance.mcp.links import HttpLink
from tests.conformance.mcp.model import EVERYWHERE, HTTP, LATEST_LEGACY, MODERN, requirement
from tests.conformance.mcp.shared_peer import SharedPeer
from tests.conformance.mcp.test_tools_call import NOWHERE
from tests.support.hyphae_command import eventually

FIVE = ["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"]
VERSION = ("MCP-Protocol-Version", "2026-07-28")
LISTING = [VERSION, ("Mcp-Method", "tools/list")]
CALLING = [VERSION, ("Mcp-Method", "tools/call"), ("Mcp-Name", "list_beacons")]
GONE = ("initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe", "roots/list")


def with_meta(client: Client, method: str, meta: Any, **params: Any) -> dict[str, Any]:
    """Return a request whose `_meta` is exactly this."""
    return {**client.message(method), "params": {**params, "_meta": meta}}


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
def test_an_envelope_without_a_version_or_capabilities_is_invalid(client: Client, meta: dict[str, Any]) -> None:
    client.ask(with_meta(client, "server/discover", meta)).error(-32602, http=400)
    if client.over_http or VERSION_KEY in meta:  # else nothing says that it is modern
        client.ask(with_meta(client, "tools/list", meta)).error(-32602, http=400)
        message = with_meta(client, "tools/call", meta, name="list_beacons")
        client.ask(message).error(-32602, http=400)


@requirement("modern.envelope", over=HTTP)
@pytest.mark.parametrize("meta", [None, [], "x", 5], ids=repr)
def test_metadata_that_is_no_object_is_invalid(http: HttpLink, meta: Any) -> None:
    client = Client(http, "2026-07-28")
    client.ask(with_meta(client, "tools/list", meta), LISTING).error(-32602, http=400)
    client.ask({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}, LISTING).error(-32602, http=400)


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


@requirement("modern.header-version", "modern.header-mismatch", over=HTTP)
@pytest.mark.parametrize(
    "headers",
    [
        [("Mcp-Method", "tools/list")],
        [("MCP-Protocol-Version", "2025-11-25"), ("Mcp-Method", "tools/list")],
        [("MCP-Protocol-Version", "1900-01-01"), ("Mcp-Method", "tools/list")],
        [VERSION, VERSION, ("Mcp-Method", "tools/list")],
        [VERSION],
        [VERSION, ("Mcp-Method", "")],
        [VERSION, ("Mcp-Method", "tools/call")],
        [VERSION, ("Mcp-Method", "Tools/List")],
        [VERSION, ("Mcp-Method", "tools/list"), ("Mcp-Method", "tools/list")],
    ],
    ids=str,
)
def test_headers_that_do_not_repeat_the_body_are_a_mismatch(http: HttpLink, headers: Headers) -> None:
    client = Client(http, "2026-07-28")
    client.ask(client.message("tools/list", id="a"), headers).error(-32020, id="a", http=400)


@requirement("modern.header-name", "modern.header-mismatch", over=HTTP)
@pytest.mark.parametrize(
    "names",
    [
        [],
        [""],
        ["recall"],
        ["List_Beacons"],
        ["list_beacons", "list_beacons"],
        ["=?base64?bGlzdF9iZWFjb25z"],
        ["=?BASE64?bGlzdF9iZWFjb25z?="],
        ["=?base64?bGlzdF9iZWFjb25z?==?base64??="],
        ["=?base64?bGlzdF9iZW!jb25z?="],
        ["=?base64?cmVjYWxs?="],
        ["=?base64?/w==?="],
        ["=?base64??="],
    ],
    ids=repr,
)
def test_a_name_header_that_is_not_the_tool_is_a_mismatch(http: HttpLink, names: list[str]) -> None:
    client = Client(http, "2026-07-28")
    message = client.message("tools/call", {"name": "list_beacons"}, id=0)
    headers = [*CALLING[:2], *(("Mcp-Name", name) for name in names)]
    client.ask(message, headers).error(-32020, id=0, http=400)


@requirement("modern.header-name", "modern.header-case", over=HTTP)
@pytest.mark.parametrize("name", ["list_beacons", "  list_beacons\t", "=?base64?bGlzdF9iZWFjb25z?="])
def test_a_name_header_is_trimmed_and_decoded(http: HttpLink, name: str) -> None:
    client = Client(http, "2026-07-28")
    message = client.message("tools/call", {"name": "list_beacons"})
    headers = [("mcp-protocol-VERSION", " 2026-07-28 "), ("MCP-METHOD", "tools/call "), ("mcp-name", name)]
    assert client.ask(message, headers).content()["beacons"] is not None


@requirement("modern.header-name", "modern.unknown-tool", over=HTTP)
def test_a_tool_name_beyond_ascii_travels_encoded(http: HttpLink) -> None:
    client = Client(http, "2026-07-28")
    encoded = base64.b64encode("wünsche".encode()).decode()
    message = client.message("tools/call", {"name": "wünsche"})
    error = client.ask(message, [*CALLING[:2], ("Mcp-Name", f"=?base64?{encoded}?=")]).error(-32602, http=400)
    assert error["message"].startswith("Unknown tool: wünsche")


@requirement("modern.detection", over=HTTP)
def test_each_of_three_signs_makes_a_request_modern(http: HttpLink) -> None:
    client = Client(http, "2026-07-28")
    plain = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    client.ask(plain, LISTING).error(-32602, http=400)  # the header alone: no envelope
    client.ask(client.message("tools/list"), []).error(-32020, http=400)  # the body alone: no headers
    client.ask({**plain, "method": "server/discover"}, []).error(-32602, http=400)  # the method alone
    assert set(client.ask(plain, []).result()) == {"tools"}  # none: not modern


@requirement("modern.detection", "modern.stateless", revisions=MODERN)
def test_a_modern_request_needs_nothing_that_came_before(client: Client) -> None:
    assert client.call("list_beacons").result()["resultType"] == "complete"
    assert client.request("server/discover").result()["resultType"] == "complete"


@requirement("modern.ladder", over=HTTP)
def test_of_several_faults_the_first_rung_answers(http: HttpLink) -> None:
    client = Client(http, "2026-07-28")
    wrong_method = [("MCP-Protocol-Version", "1900-01-01"), ("Mcp-Method", "x")]
    matching = [("MCP-Protocol-Version", "1900-01-01"), ("Mcp-Method", "no/such")]
    old = client.meta(**{VERSION_KEY: "1900-01-01"})
    envelope = {VERSION_KEY: "1900-01-01"}
    client.ask(with_meta(client, "no/such", envelope), wrong_method).error(-32602, http=400)
    client.ask(with_meta(client, "no/such", old), wrong_method).error(-32020, http=400)
    client.ask(with_meta(client, "no/such", old), matching).error(-32022, http=400)
    client.ask(client.message("no/such"), [VERSION, ("Mcp-Method", "no/such")]).error(-32601, http=404)
    client.ask(client.message("tools/call", {"name": "no_such"})).error(-32602, http=400)
    client.call("get_scene", {"scene_id": NOWHERE}).error(4040, http=200)
    client.call("list_beacons").content()


@requirement("modern.statuses", over=HTTP)
def test_each_error_has_the_status_of_its_code(http: HttpLink) -> None:
    client = Client(http, "2026-07-28")
    client.ask(b"nonsense").error(-32700, id=None, http=400)
    client.ask({**client.message("tools/list"), "id": None}).error(-32600, id=None, http=400)
    client.request("tools/list", {"cursor": "x"}).error(-32602, http=400)
    client.request("tools/call", {"name": "list_beacons", "arguments": []}).error(-32602, http=400)
    client.request("no/such").error(-32601, http=404)
    client.call("get_scene", {"scene_id": NOWHERE}).error(4040, http=200)
    assert client.call("recall", {}).refusal().startswith("invalid: ")


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


@requirement("modern.answers-refused", over=HTTP)
def test_an_answer_from_the_client_is_refused(http: HttpLink) -> None:
    for answer in ({"result": {}}, {"error": {"code": -1, "message": "x"}}):
        body = json.dumps({"jsonrpc": "2.0", "id": 1, **answer}).encode()
        assert http.exchange("POST", body, [VERSION]).status == 400


@requirement("modern.session-headers", over=HTTP)
def test_headers_of_sessions_and_streams_are_ignored(http: HttpLink) -> None:
    client = Client(http, "2026-07-28")
    headers = [*LISTING, ("Mcp-Session-Id", "theirs"), ("Last-Event-ID", "7")]
    reply = client.ask(client.message("tools/list"), headers)
    assert len(reply.result()["tools"]) == 11
    assert "mcp-session-id" not in reply.headers


@requirement("modern.close-cancels", over=HTTP)
def test_a_client_that_closes_its_connection_cancels_its_read(peer: SharedPeer, http: HttpLink) -> None:
    client = Client(http, "2026-07-28")
    message = client.message("tools/call", {"name": "list_scenes"})
    with peer.holding("list_scenes"):
        connection = http.connect()
        http.begin(connection, "POST", json.dumps(message).encode(), client.headers(message))
        eventually(lambda: "list_scenes" in peer.service.waiting, "the call runs")
        connection.close()
        eventually(lambda: "list_scenes" in peer.service.cancelled, "the work has ended")
    peer.service.waiting.clear()
    peer.service.cancelled.clear()


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
