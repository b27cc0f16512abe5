"""Three real peers: on how many a store is when it is answered, and what is said when peers or NATS are away."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.support.http_agent import HttpAgent
from tests.support.hyphae_command import eventually
from tests.support.nats_server import NatsServer
from tests.support.places import short_directory
from tests.support.running_mesh import RunningPeer

FACT = {"cell_type": "Fact"}
REACHED = {"node_id"}
SHORT = {"node_id", "durable_on", "wanted", "note"}


@dataclass
class Trio:
    """Three members; the first one's directory holds the keys of all."""

    nats: NatsServer
    peers: tuple[RunningPeer, RunningPeer, RunningPeer]

    def agent(self, number: int) -> HttpAgent:
        peer = self.peers[number]
        return peer.caller(self.peers[0].secret("agent"))

    def operator(self, number: int) -> HttpAgent:
        return self.peers[number].caller(self.peers[0].secret("operator"))

    def status(self, number: int) -> dict[str, Any]:
        return self.operator(number)("status")

    def store(self, number: int, content: str, **more: Any) -> dict[str, Any]:
        return self.agent(number)("store", content=content, **FACT, **more)

    def all_up(self) -> None:
        """Wait until each peer hears all others."""
        for number in range(3):
            eventually(
                lambda n=number: self.status(n)["peers_up"] == 3,  # type: ignore[misc]
                f"peer {number} hears all",
            )

    def converged(self) -> None:
        def streams(number: int) -> Any:
            found = self.operator(number)("verify_log")
            assert found["ok"]
            return sorted((s["stream"], s["sequence"], s["hash"]) for s in found["streams"])

        eventually(lambda: streams(0) == streams(1) == streams(2), "all hold the same streams")

    def holds(self, number: int, node_id: str) -> bool:
        return self.agent(number).by_wire("get_node", {"node_id": node_id}).result is not None


@pytest.fixture(scope="module")
def trio() -> Iterator[Trio]:
    with short_directory() as root:
        nats = NatsServer(root)
        nats.start()
        first = RunningPeer(root, "--nats-url", nats.url, name="one")
        second, third = (RunningPeer(root, name=name) for name in ("two", "three"))
        mesh = Trio(nats, (first, second, third))
        try:
            first.start()
            for peer in (second, third):
                peer.options = ("--join", first.operator()("invite_peer")["token"])
                peer.start()
            mesh.all_up()
            yield mesh
        finally:
            for peer in mesh.peers:
                peer.kill()
            nats.kill()


def test_three_members_want_two_and_an_answer_without_more_says_that_two_hold_it(trio: Trio) -> None:
    assert [trio.status(n)["write_concern"] for n in range(3)] == [2, 2, 2]
    for number in range(3):
        stored = trio.store(number, f"stored on {number}")
        assert stored.keys() == REACHED
        others = [n for n in range(3) if n != number]
        assert any(trio.holds(n, stored["node_id"]) for n in others), (
            "it was nowhere else when it was answered"
        )


def test_a_bulk_waits_once_for_all_of_it(trio: Trio) -> None:
    cells = [{"content": f"bulk {n} {uuid.uuid4()}", **FACT} for n in range(20)]
    answer = trio.agent(0).by_rest("store_bulk", {"cells": cells}).ok()
    assert answer.keys() == {"results"}
    nodes = [result["node_id"] for result in answer["results"]]
    assert any(all(trio.holds(n, node) for node in nodes) for n in (1, 2))


def test_with_one_of_three_killed_a_store_is_still_on_two(trio: Trio) -> None:
    trio.peers[2].kill()
    try:
        for n in range(3):
            stored = trio.store(0, f"without the third {n}")
            assert stored.keys() == REACHED
            assert trio.holds(1, stored["node_id"])
    finally:
        trio.peers[2].start()
    trio.all_up()
    trio.converged()


def test_with_two_of_three_killed_the_answer_says_one_of_two_and_nothing_is_lost(trio: Trio) -> None:
    for peer in trio.peers[1:]:
        peer.kill()
    key = str(uuid.uuid4())
    try:
        waited = trio.store(0, "alone, still hoping", idempotency_key=key)  # they have not fallen silent yet
        eventually(lambda: trio.status(0)["peers_up"] == 1, "both are silent")
        at_once = trio.store(0, "alone, knowing it")
        for answer in (waited, at_once):
            assert answer.keys() == SHORT
            assert (answer["durable_on"], answer["wanted"]) == (1, 2)
            assert "Nothing to repeat" in answer["note"]
        bulk = trio.agent(0).by_rest("store_bulk", {"cells": [{"content": "in bulk, alone", **FACT}]}).ok()
        assert (bulk["durable_on"], bulk["wanted"]) == (1, 2)
        metrics = trio.operator(0).send("GET", "/metrics", None)[1].decode()
        assert "hyphae_stores_short_total 3.0" in metrics
    finally:
        for peer in trio.peers[1:]:
            peer.start()
    trio.all_up()
    trio.converged()
    for number in range(3):
        assert all(trio.holds(number, answer["node_id"]) for answer in (waited, at_once))
    again = trio.store(0, "alone, still hoping", idempotency_key=key)
    assert again == {"node_id": waited["node_id"]}


def test_while_nats_is_away_stores_are_answered_by_one_peer_that_says_so(trio: Trio) -> None:
    trio.nats.kill()
    try:
        eventually(lambda: all(trio.status(n)["nats"] == "down" for n in range(3)), "the outage is seen")
        answers = [trio.store(number, f"without NATS on {number}") for number in range(3)]
        assert [(a["durable_on"], a["wanted"]) for a in answers] == [(1, 2)] * 3
    finally:
        trio.nats.start()
    trio.all_up()
    trio.converged()
    assert all(trio.holds(n, answer["node_id"]) for n in range(3) for answer in answers)
    assert trio.store(1, "with NATS again").keys() == REACHED


def test_a_retry_on_another_peer_is_the_same_cell_and_says_on_how_many_it_is(trio: Trio) -> None:
    key = str(uuid.uuid4())
    first = trio.store(0, "stored once", idempotency_key=key)
    eventually(lambda: trio.holds(1, first["node_id"]), "the second holds it")
    assert trio.store(1, "stored once", idempotency_key=key) == {"node_id": first["node_id"]}


def test_a_restarted_peer_counts_again(trio: Trio) -> None:
    for peer in trio.peers[1:]:
        peer.stop()
        peer.start()
    trio.all_up()
    eventually(
        lambda: trio.store(0, f"after a restart {uuid.uuid4()}").keys() == REACHED, "a second member counts"
    )


# -- reading one's own stores elsewhere


def test_what_was_stored_on_one_peer_is_found_on_another_at_once_or_the_result_is_stale(trio: Trio) -> None:
    stale = 0
    for n in range(10):
        text = f"read elsewhere {n} {uuid.uuid4()}"
        node = trio.store(n % 3, text)["node_id"]
        found = trio.agent((n + 1) % 3).by_wire("recall", {"query": text}, wrote=node).ok()
        assert found.get("stale") or found["results"][0]["node_id"] == node
        stale += "stale" in found
    assert stale < 10


def test_a_peer_that_cannot_have_it_says_that_it_is_stale(trio: Trio) -> None:
    trio.nats.kill()
    text = f"not here yet {uuid.uuid4()}"
    try:
        node = trio.store(0, text)["node_id"]
        reader = trio.agent(1)
        found = reader.by_wire("query", {"query": text, "layer": 0}, wrote=node).ok()
        assert found["stale"] is True
        assert found["note"].startswith("stale:")
        assert node not in [hit["node_id"] for hit in found["results"]]
        assert (
            "stale" not in reader.by_wire("recall", {"query": text}).ok()
        )  # who stored nothing misses nothing
    finally:
        trio.nats.start()
    trio.all_up()
    trio.converged()
    found = trio.agent(1).by_wire("recall", {"query": text}, wrote=node).ok()
    assert "stale" not in found
    assert found["results"][0]["node_id"] == node
