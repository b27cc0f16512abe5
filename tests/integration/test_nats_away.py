"""Two real peers whose NATS is absent, killed, restarted and replaced: nobody waits for it, nothing is lost."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.hyphae_command import eventually
from tests.support.nats_server import NatsServer
from tests.support.places import short_directory
from tests.support.running_mesh import RunningPeer

FACT = {"cell_type": "Fact"}


@pytest.fixture(scope="module")
def nats() -> Iterator[NatsServer]:
    with short_directory() as root:
        server = NatsServer(root)
        yield server
        server.kill()


@pytest.fixture(scope="module")
def pair(nats: NatsServer) -> Iterator[tuple[RunningPeer, RunningPeer]]:
    """Two members; the first was started without any NATS being there."""
    with short_directory() as root:
        first = RunningPeer(root, "--nats-url", nats.url, name="one")
        second = RunningPeer(root, name="two")
        try:
            first.start()
            status = first.operator()("status")
            assert (status["nats"], status["state"]) == ("down", "degraded")
            assert any("NATS is down" in p for p in status["problems"])
            works_alone(first, "before there was any NATS")

            nats.start()
            connected(first)
            second.options = ("--join", first.operator()("invite_peer")["token"])
            second.start()
            connected(second)
            converged(first, second)
            yield first, second
        finally:
            first.kill()
            second.kill()


def works_alone(peer: RunningPeer, content: str) -> str:
    """Store and find a memory on one peer, whatever is around it."""
    agent = peer.agent(first_key(peer))
    node: str = agent("store", content=content, **FACT)["node_id"]
    assert agent("recall", query=content)["results"][0]["node_id"] == node
    return node


def first_key(peer: RunningPeer) -> str:
    """Return the key of the first agent, which only the first peer has in a file."""
    return (peer.root / "one" / "secrets" / "agent.key").read_text().strip()


def operator(peer: RunningPeer) -> Any:
    return peer.caller((peer.root / "one" / "secrets" / "operator.key").read_text().strip())


def connected(*peers: RunningPeer) -> None:
    for peer in peers:
        eventually(lambda p=peer: operator(p)("status")["nats"] == "up", f"{peer.name} has NATS")  # type: ignore[misc]


def converged(*peers: RunningPeer) -> None:
    def streams(peer: RunningPeer) -> Any:
        found = operator(peer)("verify_log")
        assert found["ok"]
        return sorted((s["stream"], s["sequence"], s["hash"]) for s in found["streams"])

    eventually(lambda: streams(peers[0]) == streams(peers[1]), "both hold the same streams")
    for peer in peers:
        eventually(lambda p=peer: operator(p)("status")["state"] == "ok", f"{peer.name} is well")  # type: ignore[misc]


def test_what_was_stored_before_nats_came_is_on_both(pair: tuple[RunningPeer, RunningPeer]) -> None:
    _, second = pair
    found = second.agent(first_key(second))("recall", query="before there was any NATS", include_content=True)
    assert found["results"][0]["content"] == "before there was any NATS"


def test_a_key_works_at_once_on_the_peer_that_did_not_issue_it(
    pair: tuple[RunningPeer, RunningPeer],
) -> None:
    first, second = pair
    for n in range(5):
        issued = operator(first)("issue_key", agent=f"new-{n}")
        newcomer = second.caller(issued["key"])
        assert newcomer("list_beacons")["agent"] == f"new-{n}"
    wrong = second.caller(issued["key"].replace(f"hyp_{issued['id']}", f"hyp_{'a' * len(issued['id'])}"))
    for _ in range(2):
        wrong.refused("list_beacons", "unauthenticated")


@pytest.mark.parametrize("turn", range(3))
def test_a_server_that_is_killed_and_replaced_delays_and_loses_nothing(
    nats: NatsServer, pair: tuple[RunningPeer, RunningPeer], turn: int
) -> None:
    first, second = pair
    reader = first.caller(operator(first)("issue_key", agent=f"reader-{turn}")["key"])
    reader("place_beacon", interest="*")
    converged(first, second)
    stored = [works_alone(second, f"turn {turn} with NATS")]
    nats.kill()
    for n in range(3):
        works_alone(first, f"turn {turn} alone on one {n}")
        stored.append(works_alone(second, f"turn {turn} alone on two {n}"))
    eventually(lambda: operator(first)("status")["nats"] == "down", "the outage is seen")
    nats.start()
    stored.append(works_alone(second, f"turn {turn} with another server"))
    connected(first, second)
    converged(first, second)
    drained = [d["node_id"] for d in reader("drain_inbox", limit=500)["diffs"]]
    assert set(stored) <= set(drained)
    assert len(drained) == len(set(drained)) == 8


def test_a_peer_that_was_killed_during_an_outage_catches_up(
    nats: NatsServer, pair: tuple[RunningPeer, RunningPeer]
) -> None:
    first, second = pair
    nats.kill()
    node = works_alone(first, "while the other was dead")
    second.kill()
    second.start()  # still no NATS: it starts all the same
    mine = works_alone(second, "alone and just restarted")
    nats.start()
    connected(first, second)
    converged(first, second)
    for peer in pair:
        agent = peer.agent(first_key(peer))
        assert agent("get_node", node_id=node)["content"] == "while the other was dead"
        assert agent("get_node", node_id=mine)["content"] == "alone and just restarted"


def test_a_peer_whose_log_was_rolled_back_gets_its_own_events_from_the_other(
    pair: tuple[RunningPeer, RunningPeer],
) -> None:
    first, second = pair
    assert second.stop() == 0
    older = (second.directory / "log.db").read_bytes()
    second.start()
    node = works_alone(second, "stored after the backup was taken")
    connected(second)
    converged(first, second)
    assert second.stop() == 0
    (second.directory / "log.db").write_bytes(older)
    second.start()
    connected(second)
    converged(first, second)  # the complaint about lost events is gone as well
    agent = second.agent(first_key(second))
    assert agent("get_node", node_id=node)["content"] == "stored after the backup was taken"
    works_alone(second, "and goes on in a new epoch")
    converged(first, second)
