"""What a gateway adds to a call: the same call over HTTP, over stdio and bare inside the peer, in turns.

The client is as thin as it can be (ready bytes, one socket or pipe), because its time counts as the
gateway's.  The figure is the difference of the medians.  The three alternate call by call: so all see the same
noise, and the bare call too begins in a process that has just been woken, not in one with everything at hand.
"""

from __future__ import annotations

import json
import os
import socket
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import psutil

from tests.benchmarks.gateway import INITIALIZE
from tests.benchmarks.texts import QUESTIONS, memories
from tests.support.places import short_directory

CALLS = 1_000
CELLS = 500
WARM_UP = 50
CALLS_FOR_MEMORY = 1_000
END_S = 20

Call = tuple[str, dict[str, Any]]
Ask = Callable[[Call], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Overhead:
    """Medians of one kind of call, in milliseconds.

    Args:
        bare: inside the peer.
        http: over `POST /mcp` on a kept connection.
        stdio: through `hyphae mcp serve` on the peer's socket.
    """

    call: str
    bare: float
    http: float
    stdio: float


@dataclass(frozen=True, slots=True)
class GatewayFigures:
    """All that is measured of gateways on a running peer.

    Args:
        overheads: by kind of call.
        stdio_mb: resident set of a stdio gateway after 1,000 calls and more.
    """

    overheads: tuple[Overhead, ...]
    stdio_mb: float


def measure() -> GatewayFigures:
    """Measure `list_beacons`, the cheapest call, and `recall` with the embedder that needs no model."""
    with short_directory() as root, _peer(root / "peer") as peer:
        bare, announced = peer
        with (
            _http(announced["url"], announced["key"]) as http,
            _stdio(root, announced["key"]) as (stdio, gateway),
        ):
            _fill(http)
            kinds: tuple[tuple[str, list[dict[str, Any]]], ...] = (
                ("list_beacons", [{}]),
                ("recall", [{"query": q, "include_content": True} for q in QUESTIONS]),
            )
            overheads = tuple(_in_turns(bare, http, stdio, method, args) for method, args in kinds)
            for _ in range(CALLS_FOR_MEMORY):
                stdio(("list_beacons", {}))
            return GatewayFigures(overheads, gateway.memory_info().rss / 1e6)


def _in_turns(
    bare: Callable[[str, list[dict[str, Any]]], list[float]],
    http: Ask,
    stdio: Ask,
    method: str,
    args: list[dict[str, Any]],
) -> Overhead:
    times: dict[str, list[float]] = {"bare": [], "http": [], "stdio": []}
    for n in range(WARM_UP + CALLS):
        work = args[n % len(args)]
        spent = bare(method, [work])[0], _timed(http, (method, work)), _timed(stdio, (method, work))
        if n >= WARM_UP:
            for name, ms in zip(times, spent, strict=True):
                times[name].append(ms)
    return Overhead(method, *(statistics.median(times[name]) for name in ("bare", "http", "stdio")))


def _timed(ask: Ask, call: Call) -> float:
    began = perf_counter()
    ask(call)
    return (perf_counter() - began) * 1000


def _fill(http: Ask) -> None:
    for text in memories(CELLS, seed=7):
        http(("store", {"content": text, "cell_type": "Fact"}))
    http(("place_beacon", {"interest": "payment retries"}))


@contextmanager
def _peer(directory: Path) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Run the peer; yield what times bare calls in it, and what it announced."""
    program = [sys.executable, "-m", "tests.benchmarks.overhead_peer", str(directory)]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        wire_in, wire_out = process.stdin, process.stdout

        def bare(method: str, args: list[dict[str, Any]]) -> list[float]:
            wire_in.write(json.dumps({"method": method, "args": args}) + "\n")
            wire_in.flush()
            spent: list[float] = json.loads(wire_out.readline())
            return spent

        try:
            yield bare, json.loads(wire_out.readline())
        finally:
            wire_in.close()
            process.wait(END_S)


@contextmanager
def _http(url: str, key: str) -> Iterator[Ask]:
    host, _, port = url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        head = f"POST /mcp HTTP/1.1\r\nhost: {host}:{port}\r\nx-hyphae-key: {key}\r\n".encode()
        head += b"content-type: application/json\r\ncontent-length: "
        received = bytearray()

        def ask(call: Call) -> dict[str, Any]:
            body = _message(call)
            connection.sendall(head + str(len(body)).encode() + b"\r\n\r\n" + body)
            received.clear()
            while (end := received.find(b"\r\n\r\n")) < 0:
                received.extend(connection.recv(1 << 16))
            length = int(received[:end].lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
            while len(received) < end + 4 + length:
                received.extend(connection.recv(1 << 16))
            return _result(bytes(received[end + 4 :]))

        yield ask


@contextmanager
def _stdio(root: Path, key: str) -> Iterator[tuple[Ask, psutil.Process]]:
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(root),
        "HYPHAE_CONFIG_DIR": str(root / "config"),
        "HYPHAE_DATA_DIR": str(root / "peer"),
        "HYPHAE_API_KEY": key,
    }
    program = [str(Path(sys.executable).with_name("hyphae")), "mcp", "serve"]
    with subprocess.Popen(
        program,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment,
        bufsize=0,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        into, out = process.stdin, os.fdopen(os.dup(process.stdout.fileno()), "rb")

        def exchange(message: bytes) -> dict[str, Any]:
            into.write(message + b"\n")
            return _result(out.readline())

        exchange(json.dumps(INITIALIZE).encode())
        into.write(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
        try:
            yield lambda call: exchange(_message(call)), psutil.Process(process.pid)
        finally:
            into.close()
            process.wait(END_S)
            out.close()


def _message(call: Call) -> bytes:
    method, args = call
    params = {"name": method, "arguments": args}
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()


def _result(data: bytes) -> dict[str, Any]:
    answer = json.loads(data)
    if "error" in answer or answer["result"].get("isError"):
        raise RuntimeError(f"a call failed: {data[:500]!r}")
    result: dict[str, Any] = answer["result"]
    return result
