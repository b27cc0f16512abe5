"""The stdio server as the process that a client starts, on a fake peer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.recording_requester import KEY
from tests.support.stdio_process import HANDSHAKE, StdioProcess

ENV = {"HYPHAE_API_KEY": KEY}
EXIT_S = 10.0  # generous for a busy machine: what is promised is asserted by the order of events
TEXT = "naïve Привет 日本語 👩‍👩‍👧 שלום \u2028 e\u0301 \u0000 end"


def started(**env: str) -> StdioProcess:
    return StdioProcess({**ENV, **env})


def text_of(answer: dict[str, Any]) -> str:
    return str(answer["result"]["content"][0]["text"])


def test_the_handshake_and_a_call_work() -> None:
    with started() as server:
        server.send(HANDSHAKE)
        assert server.answer("init")["result"]["protocolVersion"] == "2025-11-25"
        server.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        server.send({"jsonrpc": "2.0", "id": 0, "method": "tools/list"})
        assert len(server.answer(0)["result"]["tools"]) == 11
        server.call(1, "store", content="we retry payments", cell_type="decision")
        node_id = server.answer(1)["result"]["structuredContent"]["node_id"]
        server.call(2, "recall", query="payments", include_content=True)
        hits = server.answer(2)["result"]["structuredContent"]["results"]
        assert [hit["node_id"] for hit in hits] == [node_id]
        server.close_input()
        assert server.wait(EXIT_S) == 0
        assert server.stderr == b""


def test_without_a_key_the_handshake_works_and_calls_say_what_to_do(tmp_path: Path) -> None:
    with StdioProcess({"HOME": str(tmp_path)}) as server:
        server.send(HANDSHAKE)
        assert "result" in server.answer("init")
        server.send({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": None})
        assert len(server.answer(1)["result"]["tools"]) == 11
        server.call(2, "recall", query="x")
        error = server.answer(2)["error"]
        assert error["message"].startswith("unauthenticated: no key: HYPHAE_API_KEY and HYPHAE_API_KEY_FILE")
        server.close_input()
        assert server.wait(EXIT_S) == 0
    assert len(server.stderr.strip().splitlines()) == 1


def test_without_a_peer_a_store_says_that_nothing_was_stored() -> None:
    with started(FAKE_NO_PEER="1") as server:
        server.call(1, "recall", query="x")
        assert server.answer(1)["error"]["data"] == {"code": "unavailable", "definite": True}
        server.call(2, "store", content="x", cell_type="Fact")
        server.ping()
        assert "Nothing was stored." in server.answer(2)["error"]["message"]


@pytest.mark.parametrize(
    ("line", "code", "id"),
    [
        (b"\xff\xfe\n", -32700, None),
        (b"{\n", -32700, None),
        (b"NaN\n", -32700, None),
        (b"[" * 100_000 + b"\n", -32700, None),
        (b"5\n", -32600, None),
        (b"[]\n", -32600, None),
        (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]\n', -32600, None),
        (b'{"jsonrpc":"2.0","id":null,"method":"ping"}\n', -32600, None),
        (b'{"jsonrpc":"2.0","id":7,"method":"no/such"}\n', -32601, 7),
        (b'{"jsonrpc":"2.0","id":7,"method":"server/discover"}\n', -32602, 7),
        (b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":null}\n', -32602, 7),
        (b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{}}\n', -32602, 7),
    ],
    ids=range(12),
)
def test_a_bad_line_is_answered_and_the_next_one_works(line: bytes, code: int, id: Any) -> None:
    with started() as server:
        server.send_bytes(line)
        answer = server.receive()
        assert (answer["error"]["code"], answer["id"]) == (code, id)
        server.ping()


def test_blank_lines_and_carriage_returns_are_tolerated() -> None:
    with started() as server:
        server.send_bytes(b'\n\r\n  \n{"jsonrpc":"2.0","id":1,"method":"ping"}\r\n')
        assert server.receive() == {"jsonrpc": "2.0", "id": 1, "result": {}}


def test_notifications_and_answers_are_never_answered() -> None:
    with started() as server:
        for method in (
            "notifications/initialized",
            "notifications/cancelled",
            "notifications/x",
            "tools/call",
        ):
            server.send({"jsonrpc": "2.0", "method": method})
            server.send({"jsonrpc": "2.0", "method": method, "params": {"requestId": []}})
        server.send({"jsonrpc": "2.0", "id": 5, "result": {}})
        server.ping()
        assert len(server.lines) == 1


def test_a_batch_is_answered_in_the_one_revision_that_has_it() -> None:
    with started() as server:
        server.send({**HANDSHAKE, "params": {"protocolVersion": "2025-03-26"}})
        server.answer("init")
        ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        call = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "list_beacons"}}
        server.send([ping, {"jsonrpc": "2.0", "method": "notifications/x"}, call])
        assert sorted(element["id"] for element in server.receive()) == [1, 2]
        server.send([{"jsonrpc": "2.0", "method": "notifications/x"}])
        server.ping()
        assert len(server.lines) == 3


@pytest.mark.parametrize("size", [70_000, 1_000_000])
def test_content_beyond_its_limit_is_a_tool_error_that_names_the_limit(size: int) -> None:
    with started() as server:
        server.call(1, "store", content="x" * size, cell_type="Fact")
        text = text_of(server.answer(1))
        assert text.startswith(f"invalid: content has {size} bytes; the limit is 65536 bytes.")
        server.ping()


def test_content_at_its_limit_is_stored_and_read_back() -> None:
    with started() as server:
        server.call(1, "store", content="word " + "x" * 65_531, cell_type="Fact")
        server.answer(1)
        server.call(2, "recall", query="word", include_content=True)
        hits = server.answer(2)["result"]["structuredContent"]["results"]
        assert len(hits[0]["content"]) == 65_536


def test_a_line_beyond_the_limit_is_skipped_and_its_sender_answered() -> None:
    with started() as server:
        server.call(1, "store", content="x" * 10_000_000, cell_type="Fact")
        error = server.answer(1)["error"]
        assert error["code"] == -32600
        assert "1048576" in error["message"]
        server.send_bytes(b"x" * 2_000_000 + b"\n")
        answer = server.receive()
        assert (answer["id"], answer["error"]["code"]) == (None, -32600)
        server.ping()


def test_fifty_calls_without_waiting_are_all_answered() -> None:
    with started() as server:
        for number in range(50):
            server.call(number, "store", content=f"cell {number}", cell_type="Fact")
        ids = {server.answer(n)["result"]["structuredContent"]["node_id"] for n in range(50)}
        assert len(ids) == 50


def test_beyond_sixty_four_running_calls_more_are_refused_and_the_rest_is_served() -> None:
    with started(FAKE_HANG="1") as server:
        for number in range(64):
            server.call(number, "store", content="x", cell_type="Fact")
        server.call("late", "list_beacons")
        error = server.answer("late")["error"]
        assert error["message"].startswith("overloaded: ")
        assert error["data"]["retry_after_ms"] == 1000
        server.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 3}})
        server.ping()
        server.call("again", "list_beacons")
        assert "result" in server.answer("again")


def test_a_cancelled_call_is_not_answered() -> None:
    with started(FAKE_HANG="1") as server:
        server.call(1, "store", content="x", cell_type="Fact")
        server.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}})
        server.call(2, "list_beacons")
        server.answer(2)
        server.close_input()
        assert server.wait(EXIT_S) == 0
        assert server.unread() == []


def test_a_page_is_confirmed_by_the_next_drain() -> None:
    with started() as server:
        for number in range(3):
            server.call(number, "store", content=f"cell {number}", cell_type="Fact")
            server.answer(number)
        seen = []
        for number in range(10, 14):
            server.call(number, "drain_inbox", limit=1)
            seen += server.answer(number)["result"]["structuredContent"]["diffs"]
        assert [diff["content"] for diff in seen] == ["cell 0", "cell 1", "cell 2"]


@pytest.mark.parametrize(
    "env", [{"LC_ALL": "C"}, {"PYTHONIOENCODING": "cp932"}, {"PYTHONUTF8": "0", "LANG": "ja_JP.SJIS"}]
)
def test_any_text_survives_any_locale(env: dict[str, str]) -> None:
    with started(**env) as server:
        server.call(1, "store", content=f"marker {TEXT}", cell_type="Fact", project="büro")
        server.answer(1)
        server.call(2, "recall", query="marker", include_content=True)
        answer = server.answer(2)
        assert answer["result"]["structuredContent"]["results"][0]["content"] == f"marker {TEXT}"
        assert json.loads(text_of(answer))["results"][0]["content"] == f"marker {TEXT}"
    assert any("日本語".encode() in line for line in server.lines)


def test_nothing_but_answers_is_ever_written_to_stdout() -> None:
    env = {**ENV, "FAKE_NOISE": "1", "PYTHONASYNCIODEBUG": "1", "PYTHONWARNINGS": "always"}
    with StdioProcess(env, options=("-X", "dev", "-W", "always")) as server:
        server.send(HANDSHAKE)
        server.answer("init")
        server.call(1, "list_beacons")
        server.answer(1)
        server.close_input()
        assert server.wait(EXIT_S) == 0
    assert [json.loads(line)["jsonrpc"] for line in server.lines] == ["2.0", "2.0"]
    for noise in (b"said on stdout", b"a warning", b"a child speaks"):
        assert noise in server.stderr
    assert KEY.encode() not in server.stderr
