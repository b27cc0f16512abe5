"""The stateless revision over HTTP: headers that repeat the body, statuses, connections."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from tests.conformance.mcp.harness import (
    VERSION_KEY,
    Client,
    Headers,
    with_meta,
)
from tests.conformance.mcp.links import HttpLink
from tests.conformance.mcp.model import HTTP, requirement
from tests.conformance.mcp.shared_peer import SharedPeer
from tests.conformance.mcp.test_tools_call import NOWHERE
from tests.support.hyphae_command import eventually

VERSION = ("MCP-Protocol-Version", "2026-07-28")
LISTING = [VERSION, ("Mcp-Method", "tools/list")]
CALLING = [VERSION, ("Mcp-Method", "tools/call"), ("Mcp-Name", "list_beacons")]


@requirement("modern.envelope", over=HTTP)
@pytest.mark.parametrize("meta", [None, [], "x", 5], ids=repr)
def test_metadata_that_is_no_object_is_invalid(http: HttpLink, meta: Any) -> None:
    client = Client(http, "2026-07-28")
    client.ask(with_meta(client, "tools/list", meta), LISTING).error(-32602, http=400)
    client.ask({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}, LISTING).error(-32602, http=400)


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


@requirement("modern.header-name", "modern.header-mismatch", over=HTTP)
def test_a_wrapping_with_spare_bits_is_another_text(http: HttpLink) -> None:
    client = Client(http, "2026-07-28")
    message = client.message("tools/call", {"name": "store"})
    client.ask(message, [*CALLING[:2], ("Mcp-Name", "=?base64?c3RvcmV=?=")]).error(-32020, http=400)
    client.ask(message, [*CALLING[:2], ("Mcp-Name", "=?base64?c3RvcmU=?=")]).refusal()


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


@requirement("modern.answers-refused", over=HTTP)
def test_an_answer_from_the_client_is_refused(http: HttpLink) -> None:
    answers: list[dict[str, Any]] = [{"result": {}}, {"error": {"code": -1, "message": "x"}}]
    for answer in answers:
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
