"""Limits that an operator sets: at the limit a call passes, one beyond it is refused by name and number."""

from __future__ import annotations

import contextlib
import dataclasses
import socket
from collections.abc import Iterator

import pytest

from node.service.bounds import Bounds
from node.settings import Settings
from tests.support.running_mesh import RunningPeer, running_peer

SET = {
    "HYPHAE_RATE_PER_KEY": "1",
    "HYPHAE_RATE_BURST": "8",
    "HYPHAE_BEACONS_PER_AGENT": "2",
    "HYPHAE_SESSIONS_PER_AGENT": "2",
}


@pytest.fixture(scope="module")
def peer() -> Iterator[RunningPeer]:
    with running_peer("--no-nats", environment=SET) as running:
        yield running


def test_every_bound_of_the_service_is_a_setting_with_the_same_default() -> None:
    for bound in dataclasses.fields(Bounds):
        assert Settings.model_fields[bound.name].default == bound.default


def test_a_burst_is_served_and_the_call_beyond_it_refused(peer: RunningPeer) -> None:
    agent = peer.new_agent()
    answers = [agent.ask("list_beacons", {}) for _ in range(12)]
    refused = [answer for answer in answers if answer.code]
    assert len(answers) - len(refused) >= 8
    assert all(answer.code == "overloaded" for answer in refused)
    assert "more than 1 calls/s (bursts of 8)" in refused[0].text
    assert (refused[0].data or {})["retry_after_ms"] > 0


def test_beacons_and_sessions_have_their_number(peer: RunningPeer) -> None:
    agent = peer.new_agent()
    for number in range(2):
        agent("place_beacon", interest=f"interest {number}")
    assert "limit 2" in agent.refused("place_beacon", "overloaded", interest="one more")
    other = peer.new_agent()
    for _ in range(2):
        other("open_session")
    assert "limit 2" in other.refused("open_session", "overloaded")


def test_connections_have_their_number_and_the_one_beyond_is_told() -> None:
    with contextlib.ExitStack() as stack:
        peer = stack.enter_context(running_peer("--no-nats", environment={"HYPHAE_HTTP_CONNECTIONS": "6"}))
        host, _, port = peer.url.removeprefix("http://").rpartition(":")
        answers = []
        for _ in range(7):
            one = stack.enter_context(socket.create_connection((host, int(port)), timeout=20))
            one.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            answers.append(one.recv(12))
    assert answers == [b"HTTP/1.1 200"] * 6 + [b"HTTP/1.1 503"]
