"""Wild input at the doors of a real peer: HTTP, a stdio gateway, bare TCP.

Nothing crashes, nothing answers with an internal error, and nothing that was refused left an event behind.
Bounded and repeatable: the same examples each time; `HYPHAE_FUZZ_EXAMPLES` asks for more of them by hand.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mcp_gateway import jsonrpc
from mcp_gateway.specs import ToolSpec
from tests.fuzz import wild
from tests.fuzz.effects import Watched, parsed
from tests.support.gateways import Gateway
from tests.support.http_agent import HttpAgent
from tests.support.running_mesh import RunningPeer, running_peer

MORE = os.environ.get("HYPHAE_FUZZ_EXAMPLES")
FUZZ = settings(
    derandomize=MORE is None,
    max_examples=int(MORE or 400),
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)
pytestmark = pytest.mark.timeout(300 if MORE is None else 86_400)


@pytest.fixture(scope="module")
def peer() -> Iterator[RunningPeer]:
    with running_peer() as peer:
        yield peer
        assert "Traceback" not in peer.log()
        assert "request_failed" not in peer.log()
        assert "call_failed" not in peer.log()


@pytest.fixture(scope="module")
def watched(peer: RunningPeer) -> Watched:
    return Watched(peer.operator())


@pytest.fixture(scope="module")
def agent(peer: RunningPeer, watched: Watched) -> HttpAgent:
    found = peer.new_agent("wild-http")
    watched.events = watched.count()
    return found


@pytest.fixture(scope="module")
def gateway(peer: RunningPeer, watched: Watched) -> Iterator[Gateway]:
    key = peer.issue("wild-stdio")["key"]
    environment = {"HYPHAE_URL": peer.url, "HYPHAE_API_KEY": key, "HOME": str(peer.root)}
    with Gateway(environment) as gateway:
        gateway.handshake()
        watched.events = watched.count()
        yield gateway


def over_http(agent: HttpAgent, body: bytes, headers: dict[str, str] | None = None) -> list[Any]:
    """Send a body; return the answers to it, after a look at the status."""
    own = HttpAgent(agent.url, agent.key, headers)
    try:
        status, data = own.send("POST", "/mcp", body)
    finally:
        own.close()
    assert status in {200, 202, 400, 404, 413}, (status, data)
    assert (status == 202) == (data == b""), (status, data)
    answer = parsed(data) if data else []
    return answer if isinstance(answer, list) else [answer]


def over_stdio(gateway: Gateway, line: bytes) -> list[Any]:
    """Send one line; return the answers to it.

    What needs the peer is answered when it is ready, the rest at once, so a ping behind it is answered last
    or not: an answer that is owed is waited for, and a missing one fails.
    """
    stdio, line = gateway.stdio, line.replace(b"\n", b" ")
    owed = is_owed(jsonrpc.parse(line)) if line.strip() else False
    stdio.send_bytes(line + b"\n")
    stdio.send({"jsonrpc": "2.0", "id": "behind", "method": "ping"})
    answers: list[Any] = []
    behind = False
    while not behind or (owed and not answers):
        answer = stdio.receive()
        if isinstance(answer, dict) and answer.get("id") == "behind":
            behind = True
        else:
            answers.extend(answer if isinstance(answer, list) else [answer])
    return answers


def is_owed(sent: jsonrpc.Message | jsonrpc.Batch) -> bool:
    """Tell whether what was sent has to be answered."""
    if isinstance(sent, jsonrpc.Batch):
        return any(is_owed(part) for part in sent.messages)
    return isinstance(sent, (jsonrpc.Request, jsonrpc.Malformed))


def message(tool: ToolSpec, arguments: Any) -> bytes:
    """Return a call as it is sent."""
    params = {"name": tool.name, "arguments": arguments}
    return wild.as_json({"jsonrpc": "2.0", "id": 0, "method": "tools/call", "params": params})


@FUZZ
@given(call=wild.calls())
def test_any_arguments_over_http_are_used_or_refused(
    agent: HttpAgent, watched: Watched, call: tuple[ToolSpec, Any]
) -> None:
    answers = over_http(agent, message(*call))
    assert len(answers) == 1
    watched.judge(answers, reads=call[0].reads)


@FUZZ
@given(call=wild.calls())
def test_any_arguments_over_stdio_are_used_or_refused(
    gateway: Gateway, watched: Watched, call: tuple[ToolSpec, Any]
) -> None:
    answers = over_stdio(gateway, message(*call))
    assert len(answers) == 1
    watched.judge(answers, reads=call[0].reads)


version_headers = st.dictionaries(
    st.sampled_from(("mcp-protocol-version", "mcp-method", "mcp-name", "mcp-session-id", "accept")),
    st.sampled_from((*wild.VERSIONS, *wild.METHODS, "store", "=?base64?c3RvcmU=?=", "=?base64?%?=", "*/*")),
    max_size=4,
)


@FUZZ
@given(body=wild.bodies(), headers=version_headers)
def test_any_body_over_http_is_answered_or_refused(
    agent: HttpAgent, watched: Watched, body: bytes, headers: dict[str, str]
) -> None:
    headers = {name: value for name, value in headers.items() if name != "accept" or value == "*/*"}
    watched.judge(over_http(agent, body, headers))


@FUZZ
@given(line=wild.bodies())
def test_any_line_over_stdio_is_answered_or_ignored(gateway: Gateway, watched: Watched, line: bytes) -> None:
    watched.judge(over_stdio(gateway, line))


@settings(FUZZ, max_examples=100)
@given(
    start=st.sampled_from((b"", b"POST /mcp HTTP/1.1\r\n", b"GET ", b"PRI * HTTP/2.0\r\n\r\n")),
    rest=st.binary(),
)
def test_any_bytes_at_the_port_leave_the_peer_answering(
    agent: HttpAgent, watched: Watched, start: bytes, rest: bytes
) -> None:
    host, _, port = agent.url.removeprefix("http://").rpartition(":")
    with socket.create_connection((host, int(port)), timeout=20) as raw, contextlib.suppress(ConnectionError):
        raw.sendall(start + rest)
        raw.shutdown(socket.SHUT_WR)
        while raw.recv(65536):
            pass
    watched.judge([])
