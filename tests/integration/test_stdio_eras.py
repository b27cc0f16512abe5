"""Both eras on one pipe, on a fake peer and in a real `hyphae mcp serve`; what waits and what does not."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_gateway.tools import TOOLS
from tests.support.envelopes import MODERN, enveloped
from tests.support.gateways import Gateway
from tests.support.recording_requester import KEY
from tests.support.running_mesh import running_peer
from tests.support.stdio_process import HANDSHAKE, StdioProcess

EXIT_S = 10.0
REVISIONS = [MODERN, "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"]
STORE = {"content": "we retry payments", "cell_type": "Decision"}


def started(**env: str) -> StdioProcess:
    return StdioProcess({"HYPHAE_API_KEY": KEY, **env})


def send(server: StdioProcess, id: Any, method: str, params: Any = None) -> None:
    server.send({"jsonrpc": "2.0", "id": id, "method": method, "params": enveloped(params)})


def send_call(server: StdioProcess, id: Any, tool: str, **arguments: Any) -> None:
    send(server, id, "tools/call", {"name": tool, "arguments": arguments})


def cancel(server: StdioProcess, id: Any, *, with_envelope: bool) -> None:
    params = {"requestId": id, "reason": "a test"}
    message = {"jsonrpc": "2.0", "method": "notifications/cancelled"}
    server.send({**message, "params": enveloped(params) if with_envelope else params})


def agree(server: StdioProcess, revision: str) -> None:
    server.send({**HANDSHAKE, "params": {"protocolVersion": revision}})
    assert server.answer("init")["result"]["protocolVersion"] == revision


def test_discovery_a_list_and_calls_work_without_a_handshake() -> None:
    with started() as server:
        send(server, 0, "server/discover")
        assert server.answer(0)["result"]["supportedVersions"] == REVISIONS
        send(server, 1, "tools/list")
        assert [tool["name"] for tool in server.answer(1)["result"]["tools"]] == list(TOOLS)
        send_call(server, 2, "store", **STORE)
        stored = server.answer(2)["result"]
        assert stored["resultType"] == "complete"
        assert stored["_meta"]["io.modelcontextprotocol/serverInfo"]["version"] == "9.9"
        send_call(server, 3, "store", content="x")
        assert server.answer(3)["result"]["isError"] is True
        server.close_input()
        assert server.wait(EXIT_S) == 0
        assert server.stderr == b""


def test_both_eras_are_served_on_one_pipe_each_request_in_its_own() -> None:
    with started() as server:
        send(server, "probe", "server/discover")
        assert server.answer("probe")["result"]["resultType"] == "complete"
        agree(server, "2025-03-26")
        send(server, 1, "ping")
        assert server.answer(1)["error"]["code"] == -32601
        server.ping()
        send(server, 2, "initialize", {"protocolVersion": "2025-11-25"})
        assert server.answer(2)["error"]["code"] == -32601
        send_call(server, 3, "list_beacons")
        server.call(4, "list_beacons")
        newer, older = server.answer(3)["result"], server.answer(4)["result"]
        assert newer["structuredContent"] == older["structuredContent"]
        assert newer.keys() - older.keys() == {"resultType", "_meta"}
        ping = {"jsonrpc": "2.0", "id": 5, "method": "ping"}
        listing = {"jsonrpc": "2.0", "id": 6, "method": "tools/list", "params": enveloped()}
        server.send([ping, listing])  # what was agreed on still holds
        answered = {element["id"]: element for element in server.receive()}
        assert answered[5]["result"] == {}
        assert answered[6]["error"]["code"] == -32600


@pytest.mark.parametrize(
    ("method", "params", "code"),
    [
        ("server/discover", {}, -32602),
        ("server/discover", enveloped(version="2099-01-01"), -32022),
        *[("tools/list", enveloped(version=old), -32022) for old in REVISIONS[1:]],
        ("tools/list", {"_meta": {"io.modelcontextprotocol/protocolVersion": MODERN}}, -32602),
        ("logging/setLevel", enveloped({"level": "info"}), -32601),
        ("tools/call", enveloped({"name": "unknown"}), -32602),
    ],
    ids=range(9),
)
def test_a_refusal_has_its_code_and_the_id_and_the_next_request_works(
    method: str, params: Any, code: int
) -> None:
    with started() as server:
        server.send({"jsonrpc": "2.0", "id": 0, "method": method, "params": params})
        assert server.answer(0)["error"]["code"] == code
        server.ping()


@pytest.mark.parametrize("with_envelope", [False, True], ids=["handshake", "envelope"])
def test_a_slow_call_delays_nothing_and_once_cancelled_is_not_answered(with_envelope: bool) -> None:
    with started(FAKE_HANG="1") as server:
        call = send_call if with_envelope else StdioProcess.call
        call(server, 1, "store", **STORE)
        call(server, "1", "store", **STORE)
        server.ping()
        send(server, 2, "server/discover")
        assert "result" in server.answer(2)
        strangers: list[Any] = [99, "x", None, [], True, 1.0]
        for unknown in strangers:
            cancel(server, unknown, with_envelope=with_envelope)
        cancel(server, 1, with_envelope=with_envelope)
        cancel(server, "1", with_envelope=with_envelope)
        cancel(server, 1, with_envelope=with_envelope)
        call(server, 3, "list_beacons")
        assert "result" in server.answer(3)
        server.close_input()
        assert server.wait(EXIT_S) == 0
        assert server.unread() == []


def test_a_cancelled_call_gives_its_place_to_another() -> None:
    with started(FAKE_HANG="1") as server:
        for number in range(64):
            send_call(server, number, "store", **STORE)
        send_call(server, "late", "list_beacons")
        assert server.answer("late")["error"]["message"].startswith("overloaded: ")
        cancel(server, 3, with_envelope=False)
        server.ping()
        send_call(server, "again", "list_beacons")
        assert "result" in server.answer("again")


def test_a_real_gateway_serves_both_eras_at_once() -> None:
    with running_peer() as peer:
        environment = {
            "HYPHAE_DATA_DIR": str(peer.directory),
            "HYPHAE_CONFIG_DIR": str(peer.root / "editor"),
            "HYPHAE_API_KEY": peer.issue("both-eras")["key"],
        }
        with Gateway(environment) as gateway:
            send(gateway.stdio, "probe", "server/discover")
            found = gateway.stdio.answer("probe")["result"]
            assert found["supportedVersions"] == REVISIONS
            gateway.handshake()
            send_call(gateway.stdio, "stored", "store", **STORE)
            node_id = gateway.stdio.answer("stored")["result"]["structuredContent"]["node_id"]
            hits = gateway("recall", query="how often do we retry payments?")["results"]
            assert [hit["node_id"] for hit in hits] == [node_id]
            send(gateway.stdio, "listed", "tools/list")
            assert len(gateway.stdio.answer("listed")["result"]["tools"]) == 11
            send_call(gateway.stdio, "none", "get_scene", scene_id="6f9619ff-8b86-d011-b42d-00cf4fc964ff")
            assert gateway.stdio.answer("none")["error"]["code"] == 4040
            gateway.stdio.close_input()
            assert gateway.stdio.wait(EXIT_S) == 0
