"""What only a process has: lines, its two other streams, concurrency, its start and its end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest

from tests.conformance.mcp.harness import CAPABILITIES_KEY, VERSION_KEY
from tests.conformance.mcp.links import StdioLink, gateway, gateway_environment, key_file
from tests.conformance.mcp.model import STDIO, requirement
from tests.conformance.mcp.reply import error_of, strict_json
from tests.conformance.mcp.shared_peer import SharedPeer
from tests.support.gateways import SERVE
from tests.support.hyphae_command import eventually
from tests.support.stdio_process import HANDSHAKE, StdioProcess

EXIT_S = 20.0  # generous for a busy machine; clients wait 2 s
PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
PONG = {"jsonrpc": "2.0", "id": 1, "result": {}}
META = {VERSION_KEY: "2026-07-28", CAPABILITIES_KEY: {}}
DISCOVER = {"jsonrpc": "2.0", "id": "probe", "method": "server/discover", "params": {"_meta": META}}


def ended(process: StdioProcess) -> None:
    """Close the input and check that the process ends well and on time."""
    process.close_input()
    assert process.wait(EXIT_S) == 0


@requirement("stdio.framing", "stdio.only-messages", over=STDIO)
def test_each_line_of_stdout_is_one_message_whatever_the_log_level(peer: SharedPeer, key: str) -> None:
    with gateway(
        peer, key, HYPHAE_LOG_LEVEL="debug", PYTHONWARNINGS="always", PYTHONUNBUFFERED="1"
    ) as process:
        process.send(HANDSHAKE)
        process.call(1, "store", content="two\nlines\r\nand \u2028 a third", cell_type="Fact")
        node_id = process.answer(1)["result"]["structuredContent"]["node_id"]
        process.call(2, "recall", query=node_id, include_content=True)
        process.answer(2)
        process.send_bytes(b"nonsense\n")
        ended(process)
        process.unread()
    assert len(process.lines) == 4
    for line in process.lines:
        assert line.endswith(b"\n")
        assert line.count(b"\n") == 1
        assert b"\r" not in line
        assert strict_json(line)["jsonrpc"] == "2.0"


@requirement("stdio.no-secret", over=STDIO)
def test_the_token_is_on_neither_stream(peer: SharedPeer, key: str) -> None:
    with gateway(peer, key, HYPHAE_LOG_LEVEL="debug") as process:
        process.call(1, "list_beacons")
        process.answer(1)
        process.send_bytes(b"nonsense\n")
        ended(process)
    secret = key.rpartition("_")[2].encode()
    assert secret not in process.stderr
    assert secret not in b"".join(process.lines)


@requirement("stdio.tolerance", over=STDIO)
def test_blank_lines_and_carriage_returns_are_tolerated(stdio: StdioLink) -> None:
    stdio.process.send_bytes(b"\n\r\n   \n\t\r\n" + PING + b"\r\n")
    assert stdio.process.receive() == PONG
    stdio.settle()


@requirement("stdio.large-lines", over=STDIO)
@pytest.mark.parametrize("size", [70_000, 300_000, 1_000_000])
def test_a_long_line_is_read_whole(stdio: StdioLink, size: int) -> None:
    stdio.process.call(1, "store", content="x" * size, cell_type="Fact")
    text = stdio.process.answer(1)["result"]["content"][0]["text"]
    assert str(size) in text
    stdio.settle()


@requirement("stdio.large-lines", over=STDIO)
def test_a_line_beyond_any_limit_is_refused_by_its_id_and_the_next_one_served(stdio: StdioLink) -> None:
    stdio.process.call("big", "store", content="x" * 3_000_000, cell_type="Fact")
    error_of(stdio.process.answer("big"), -32600, "big")
    stdio.settle()


@requirement("stdio.concurrent", over=STDIO)
def test_a_ping_and_other_calls_do_not_wait_for_a_slow_call(peer: SharedPeer, stdio: StdioLink) -> None:
    with peer.holding("list_scenes"):
        stdio.process.call("slow", "list_scenes")
        eventually(lambda: "list_scenes" in peer.service.waiting, "the slow call runs")
        stdio.process.call("quick", "list_beacons")
        stdio.process.send_bytes(PING + b"\n")
        assert {stdio.process.receive()["id"], stdio.process.receive()["id"]} == {1, "quick"}
    assert stdio.process.answer("slow")["result"]["isError"] is False


@requirement("stdio.cancel", "wire.cancelled-unanswered", over=STDIO)
@pytest.mark.parametrize("meta", [None, META], ids=["2025-11-25", "2026-07-28"])
def test_a_cancelled_call_is_not_answered(peer: SharedPeer, stdio: StdioLink, meta: object) -> None:
    with peer.holding("list_scenes"):
        params = {"name": "list_scenes", **({"_meta": meta} if meta else {})}
        stdio.process.send({"jsonrpc": "2.0", "id": "slow", "method": "tools/call", "params": params})
        eventually(lambda: "list_scenes" in peer.service.waiting, "the slow call runs")
        notice = {"requestId": "slow", "reason": "no longer needed"}
        stdio.process.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": notice})
        stdio.settle()
        eventually(lambda: "list_scenes" in peer.service.cancelled, "the work has ended")
    stdio.settle()


@requirement("stdio.in-order", over=STDIO)
def test_what_initialize_agrees_on_holds_for_the_very_next_line(stdio: StdioLink) -> None:
    for revision, is_batch in (("2025-03-26", True), ("2025-11-25", False), ("2025-03-26", True)):
        hello = {**HANDSHAKE, "params": {"protocolVersion": revision}}
        stdio.process.send_bytes(json.dumps(hello).encode() + b"\n[" + PING + b"]\n")
        assert stdio.process.receive()["result"]["protocolVersion"] == revision
        answer = stdio.process.receive()
        if is_batch:
            assert answer == [PONG]
        else:
            error_of(answer, -32600, None)


@requirement("stdio.end-of-input", over=STDIO)
def test_at_the_end_of_input_what_was_read_is_answered_and_the_process_exits_with_0(
    peer: SharedPeer, key: str
) -> None:
    with gateway(peer, key) as process:
        for number in range(10):
            process.call(number, "list_beacons")
        process.send_bytes(b'{"jsonrpc":"2.0","id":"last","method":"ping"}')  # without a newline
        ended(process)
        assert {answer["id"] for answer in process.unread()} == {*range(10), "last"}


@requirement("stdio.end-of-input", "stdio.signals", over=STDIO)
@pytest.mark.parametrize("ending", ["input", "SIGTERM", "SIGINT"])
def test_the_process_ends_while_a_call_hangs(peer: SharedPeer, key: str, ending: str) -> None:
    with peer.holding("list_scenes"), gateway(peer, key) as process:
        process.call(1, "list_scenes")
        eventually(lambda: "list_scenes" in peer.service.waiting, "the call runs")
        if ending == "input":
            process.close_input()
        else:
            process.process.send_signal(getattr(signal, ending))
        assert process.wait(EXIT_S) == 0


@requirement("stdio.signals", over=STDIO)
def test_the_process_ends_when_nobody_reads_its_answers(peer: SharedPeer, key: str) -> None:
    read_fd, write_fd = os.pipe()
    environment = {"PATH": os.environ.get("PATH", ""), **gateway_environment(peer, key)}
    command = [sys.executable, *SERVE]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=write_fd, stderr=subprocess.PIPE, env=environment
    ) as process:
        os.close(write_fd)
        os.close(read_fd)
        assert process.stdin is not None
        process.stdin.write(PING + b"\n")
        process.stdin.flush()
        assert process.wait(EXIT_S) == 0


@requirement("stdio.starts-without-key", over=STDIO)
@pytest.mark.parametrize("given", ["none", "malformed", "refused", "no such file"])
def test_without_a_good_key_the_server_starts_and_calls_say_what_to_do(
    peer: SharedPeer, key: str, given: str
) -> None:
    unknown = peer.key("soon-gone")
    peer.run(peer.opened.call("revoke_key", {"id": unknown.split("_")[1]}))
    environment = {
        "none": {},
        "malformed": {"HYPHAE_API_KEY": key[:-3]},
        "refused": {"HYPHAE_API_KEY": unknown},
        "no such file": {"HYPHAE_API_KEY_FILE": str(peer.root / "no-such-file")},
    }[given]
    with gateway(peer, None, **environment) as process:
        process.send(HANDSHAKE)
        assert process.answer("init")["result"]["protocolVersion"] == "2025-11-25"
        process.ping()
        process.send({"jsonrpc": "2.0", "id": 2, "method": "tools/list"})
        assert len(process.answer(2)["result"]["tools"]) == 11
        for tool, arguments in (("list_beacons", {}), ("store", {"content": "x", "cell_type": "Fact"})):
            process.call(3, tool, **arguments)
            error = error_of(process.answer(3), 4010, 3)
            assert error["message"].startswith("unauthenticated: ")
            assert error["data"] == {"code": "unauthenticated", "definite": True}
            assert "hyphae" in error["message"] or "HYPHAE" in error["message"]  # the next step
        ended(process)
    said = process.stderr.decode().strip().splitlines()
    assert len(said) == (0 if given == "refused" else 1), (
        said
    )  # a refused key is known by the first call only
    for secret in (key, unknown):
        assert secret.rpartition("_")[2][:-3].encode() not in process.stderr


@requirement("stdio.starts-without-peer", over=STDIO)
def test_without_a_peer_everything_but_calls_is_answered(peer: SharedPeer, key: str) -> None:
    with gateway(peer, key, HYPHAE_URL="http://127.0.0.1:1") as process:
        process.send(HANDSHAKE)
        assert "result" in process.answer("init")
        process.send(DISCOVER)
        assert "result" in process.answer("probe")
        process.ping()
        process.send({"jsonrpc": "2.0", "id": 2, "method": "tools/list"})
        assert len(process.answer(2)["result"]["tools"]) == 11
        process.call(3, "list_beacons")
        error = error_of(process.answer(3), 5030, 3)
        assert error["message"].startswith("unavailable: ")


@requirement("stdio.key-from-environment", "seed.token-from-environment", over=STDIO)
@pytest.mark.parametrize("way", ["variable", "file"])
def test_the_key_comes_from_the_environment_of_the_entry(peer: SharedPeer, key: str, way: str) -> None:
    path = str(key_file(peer.root / "keys", key))
    environment = {"HYPHAE_API_KEY": key} if way == "variable" else {"HYPHAE_API_KEY_FILE": path}
    with gateway(peer, None, **environment) as process:
        process.call(1, "list_beacons")
        assert process.answer(1)["result"]["structuredContent"]["agent"] == "asking-agent"


@requirement("stdio.twice", over=STDIO)
def test_a_second_process_for_the_same_client_disturbs_nothing(peer: SharedPeer, key: str) -> None:
    with gateway(peer, key) as real, gateway(peer, key) as probe:
        probe.send(DISCOVER)
        assert "result" in probe.answer("probe")
        real.send(HANDSHAKE)
        real.answer("init")
        ended(probe)
        real.call(1, "list_beacons")
        assert real.answer(1)["result"]["isError"] is False


@requirement("stdio.probe", over=STDIO)
def test_a_probe_and_a_handshake_on_one_pipe_are_both_answered(peer: SharedPeer, key: str) -> None:
    with gateway(peer, key) as process:
        process.send(DISCOVER)
        process.send(HANDSHAKE)
        assert process.answer("probe")["result"]["resultType"] == "complete"
        assert process.answer("init")["result"]["protocolVersion"] == "2025-11-25"
        process.ping()


@requirement("stdio.era-per-request", "modern.stateless", over=STDIO)
def test_each_request_decides_its_era_alone(stdio: StdioLink) -> None:
    stdio.agree("2025-11-25")
    for number in range(3):
        listing = {"jsonrpc": "2.0", "id": number, "method": "tools/list"}
        stdio.process.send({**listing, "params": {"_meta": META}})
        assert stdio.process.answer(number)["result"]["resultType"] == "complete"
        stdio.process.send(listing)
        assert set(stdio.process.answer(number)["result"]) == {"tools"}


@requirement("stdio.no-version-needed", "seed.stdio-has-no-header", over=STDIO)
def test_a_process_that_was_told_no_version_serves_both_eras(peer: SharedPeer, key: str) -> None:
    with gateway(peer, key) as process:
        process.send({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
        assert len(process.answer(1)["result"]["tools"]) == 11
        process.send({"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {"_meta": META}})
        assert process.answer(2)["result"]["cacheScope"] == "public"
