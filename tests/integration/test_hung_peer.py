"""A peer whose event loop hangs: those who ask it over the mesh are served by the others, and it comes back."""

from __future__ import annotations

import asyncio
import itertools
import signal
import time
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from mesh.nats_connections import gateway_requester
from mesh.requester_nats import NatsRequester
from proto.messages import Reply, Request
from tests.support.hanging_peer import HANGS_S
from tests.support.hyphae_command import eventually
from tests.support.nats_server import NatsServer
from tests.support.places import short_directory
from tests.support.running_mesh import RunningPeer

ASKERS = 6
NOTICED_S = 2.0
CALL_S = 10.0


class HangingPeer(RunningPeer):
    """A peer that hangs on SIGUSR2."""

    module = "tests.support.hanging_peer"


@pytest.fixture
def peers() -> Iterator[tuple[str, list[RunningPeer]]]:
    with short_directory() as root:
        nats = NatsServer(root)
        nats.start()
        found: list[RunningPeer] = [HangingPeer(root, "--nats-url", nats.url, name="one")]
        try:
            found[0].start()
            for name in ("two", "three"):
                token = found[0].operator()("invite_peer")["token"]
                found.append(HangingPeer(root, "--join", token, name=name).start())
            for peer in found:
                eventually(lambda p=peer: _status(found, p)["peers_up"] == 3, "it hears the others")  # type: ignore[misc]
            yield nats.url, found
        finally:
            for peer in found:
                peer.kill()
            nats.kill()


def _status(peers: list[RunningPeer], of: RunningPeer) -> dict[str, Any]:
    found: dict[str, Any] = of.caller(peers[0].secret("operator"))("status")
    return found


async def _ask(asker: NatsRequester, method: str, **args: Any) -> Reply:
    deadline_ms = time.time_ns() // 1_000_000 + int(CALL_S * 1000)
    return await asker.request(Request(method, args, deadline_ms))


async def _look(peer: RunningPeer) -> bytes:
    """Return the first line of what a peer answers over HTTP."""
    host, port = peer.url.removeprefix("http://").rstrip("/").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(b"GET /healthz HTTP/1.1\r\nhost: peer\r\nconnection: close\r\n\r\n")
    try:
        return await reader.readline()
    finally:
        writer.close()


async def _calls(asker: NatsRequester, until_s: float) -> list[tuple[float, str | None]]:
    """Store and search in turn until a moment; return when each call began and what became of it."""
    out: list[tuple[float, str | None]] = []
    for number in itertools.count():
        began = time.monotonic()
        if began >= until_s:
            return out
        if number % 2:
            reply = await _ask(asker, "recall", query="what was stored", k=1)
        else:
            key = uuid.uuid4().hex
            reply = await _ask(
                asker, "store", content=f"stored under {key}", cell_type="Fact", idempotency_key=key
            )
        out.append((began, None if reply.error is None else reply.error.code))
        await asyncio.sleep(0.05)
    raise AssertionError


def test_callers_of_a_peer_that_hangs_are_served_by_the_others(peers: tuple[str, list[RunningPeer]]) -> None:
    url, all_peers = peers
    operator = all_peers[0].operator()
    keys = [operator("issue_key", agent=f"asker-{n}")["key"] for n in range(ASKERS)]

    async def case() -> list[tuple[float, str | None]]:
        askers = [gateway_requester(url, key) for key in keys]
        try:
            served_by = (await _ask(askers[0], "status")).result
            assert served_by is not None
            await asyncio.gather(*(_ask(asker, "status") for asker in askers))
            victim = next(p for p in all_peers if p.ready["peer_id"] == served_by["peer_id"])
            victim.send_signal(signal.SIGUSR2)
            hung_at = time.monotonic()
            calling = asyncio.gather(*(_calls(asker, hung_at + HANGS_S) for asker in askers))
            answered, _ = await asyncio.wait({asyncio.create_task(_look(victim))}, timeout=NOTICED_S)
            assert not answered, "it hangs"
            found = await calling
        finally:
            for asker in askers:
                await asker.close()
        return [(began - hung_at, error) for calls in found for began, error in calls]

    calls = asyncio.run(case())
    later = [error for began_s, error in calls if began_s >= NOTICED_S]
    failed = [error for error in later if error is not None]
    assert len(later) > ASKERS, "they went on calling"
    assert len(failed) < len(later) / 100, f"{len(failed)} of {len(later)} failed: {set(failed)}"
    for peer in all_peers:
        eventually(lambda p=peer: _status(all_peers, p)["peers_up"] == 3, "it serves again")  # type: ignore[misc]
