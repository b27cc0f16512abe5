"""How the stdio server ends: with its client, with its input, at a signal; and what its start costs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.support.recording_requester import KEY
from tests.support.stdio_process import FAKE_PEER, StdioProcess

ENV = {"HYPHAE_API_KEY": KEY}
EXIT_S = 10.0  # generous for a busy machine; clients wait 2 s


def started(**env: str) -> StdioProcess:
    return StdioProcess({**ENV, **env})


def bare(**pipes: Any) -> subprocess.Popen[bytes]:
    """Start a server whose pipes the test handles itself."""
    env = {"PATH": os.environ.get("PATH", ""), **ENV}
    return subprocess.Popen([sys.executable, str(FAKE_PEER)], stderr=subprocess.DEVNULL, env=env, **pipes)


def test_the_end_of_the_input_ends_the_process_after_what_was_read_is_answered() -> None:
    with started() as server:
        for number in range(20):
            server.call(number, "store", content=f"cell {number}", cell_type="Fact")
        server.send_bytes(b'{"jsonrpc":"2.0","id":"last","method":"ping"}')  # no newline
        server.close_input()
        assert server.wait(EXIT_S) == 0
        assert {answer["id"] for answer in server.unread()} == {*range(20), "last"}


def test_the_process_ends_while_a_call_hangs() -> None:
    with started(FAKE_HANG="1") as server:
        server.call(1, "store", content="x", cell_type="Fact")
        server.ping()
        server.close_input()
        assert server.wait(EXIT_S) == 0
        assert server.unread() == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_process_while_a_call_hangs(number: signal.Signals) -> None:
    with started(FAKE_HANG="1") as server:
        server.call(1, "store", content="x", cell_type="Fact")
        server.ping()
        server.process.send_signal(number)
        assert server.wait(EXIT_S) == 0


def test_a_client_that_stops_reading_ends_the_process() -> None:
    read_fd, write_fd = os.pipe()
    process = bare(stdin=subprocess.PIPE, stdout=write_fd)
    os.close(write_fd)
    os.close(read_fd)
    assert process.stdin is not None
    process.stdin.write(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
    process.stdin.flush()
    assert process.wait(EXIT_S) == 0
    process.stdin.close()


def test_a_client_that_does_not_read_for_a_while_loses_nothing() -> None:
    read_fd, write_fd = os.pipe()
    process = bare(stdin=subprocess.PIPE, stdout=write_fd)
    os.close(write_fd)
    assert process.stdin is not None
    for number in range(200):  # far more than a pipe holds
        process.stdin.write(
            json.dumps({"jsonrpc": "2.0", "id": number, "method": "tools/list"}).encode() + b"\n"
        )
    process.stdin.flush()
    with os.fdopen(read_fd, "rb") as output:
        ids = [json.loads(output.readline())["id"] for _ in range(200)]
    process.stdin.close()
    assert process.wait(EXIT_S) == 0
    assert ids == list(range(200))


@pytest.mark.parametrize("ending", ["end of input", "signal"])
def test_the_process_ends_while_nobody_takes_its_answers(ending: str) -> None:
    read_fd, write_fd = os.pipe()
    process = bare(stdin=subprocess.PIPE, stdout=write_fd)
    os.close(write_fd)
    assert process.stdin is not None
    lists = b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}\n' * 1000  # 10 MB of answers
    process.stdin.write(lists)
    process.stdin.flush()
    os.read(read_fd, 1)  # it has begun to answer
    if ending == "signal":
        process.send_signal(signal.SIGTERM)
    else:
        process.stdin.close()
    assert process.wait(EXIT_S) == 0
    process.stdin.close()
    os.close(read_fd)


def test_the_process_ends_when_its_parent_is_killed() -> None:
    script = (
        "import subprocess, sys, time\n"
        f"child = subprocess.Popen([sys.executable, {str(FAKE_PEER)!r}], stdin=subprocess.PIPE,"
        " stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)\n"
        "print(child.pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", script],
        stdout=subprocess.PIPE,
        env={"PATH": os.environ.get("PATH", ""), **ENV},
    )
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    parent.stdout.close()
    deadline = time.monotonic() + EXIT_S
    while _runs(child) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not _runs(child)


def test_no_input_at_all_ends_the_process() -> None:
    for source in (os.devnull, str(FAKE_PEER)):
        with open(source, "rb") as file:
            done = subprocess.run(
                [sys.executable, str(FAKE_PEER)],
                stdin=file,
                capture_output=True,
                env={"PATH": os.environ.get("PATH", ""), **ENV},
                timeout=EXIT_S,
                check=False,
            )
        assert done.returncode == 0
        assert all(json.loads(line)["error"]["code"] == -32700 for line in done.stdout.splitlines())


def test_starting_loads_no_heavy_library() -> None:
    script = (
        "import sys; import mcp_gateway.stdio, mcp_gateway.authentication\n"
        "heavy = {'numpy', 'faiss', 'onnxruntime', 'pydantic', 'starlette', 'uvicorn', 'nats', 'node', 'apsw',"
        " 'tokenizers', 'cryptography', 'prometheus_client'}\n"
        "print(sorted(heavy & {name.partition('.')[0] for name in sys.modules}))\n"
    )
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, cwd=root, check=True)
    assert done.stdout.strip() == b"[]"


def _runs(pid: int) -> bool:
    """Tell whether a process runs; one that has ended and was not collected does not."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
