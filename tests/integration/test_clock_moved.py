"""A clock that is moved by an hour, on real logs: nothing is lost, hidden, refused or listed out of turn."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from mesh import wall_clock
from node import database
from node.log_verification import verify_newest
from proto.limits import REMOTE_CLOCK_LEAD_MS
from tests.support.open_service import open_peer
from tests.support.replicas import START_MS, Peer

HOUR_MS = 3_600_000


def arrivals(peer: Peer) -> list[int]:
    return [us for (us,) in database.rows(peer.db, "SELECT arrived_us FROM events ORDER BY local")]


def clocks(peer: Peer) -> list[tuple[int, int]]:
    """Return the HLC of each cell in the order of its arrival."""
    return [(ms, n) for ms, n in database.rows(peer.db, "SELECT wall_ms, counter FROM cells ORDER BY local")]


def sound(peer: Peer) -> None:
    assert verify_newest(peer.db, peer.replica.log.numbered(), 10**6) is None
    before = peer.replica.state_hash()
    peer.replica.rebuild()
    assert peer.replica.state_hash() == before


@pytest.mark.parametrize("moved_ms", [-HOUR_MS, HOUR_MS], ids=["back", "forth"])
def test_the_own_clock_moved_while_running(moved_ms: int) -> None:
    one = Peer(1)
    one.place("north")
    for name in "ab":
        one.store(name)
    one.wall_ms += moved_ms
    for name in "cd":
        one.store(name)
    one.wall_ms -= moved_ms
    one.store("e")
    assert set(one.entries()) == {f"created {name}" for name in "abcde"}
    assert arrivals(one) == sorted(set(arrivals(one))), "what was delivered since a time stays in order"
    assert clocks(one) == sorted(set(clocks(one))), "later is never shown as earlier"
    sound(one)


def test_the_own_clock_moved_back_over_a_restart(tmp_path: Path) -> None:
    one = Peer(1, tmp_path / "log.db")
    one.place("north")
    one.store("a")
    one.wall_ms -= HOUR_MS
    one.restart()
    one.store("b")
    assert set(one.entries()) == {"created a", "created b"}
    assert clocks(one) == sorted(set(clocks(one)))
    assert arrivals(one) == sorted(set(arrivals(one)))
    sound(one)


@pytest.mark.parametrize("apart_ms", [-HOUR_MS, HOUR_MS], ids=["behind", "ahead"])
def test_another_peer_whose_clock_is_an_hour_off(apart_ms: int) -> None:
    here, there = Peer(1), Peer(2, wall_ms=START_MS + apart_ms)
    here.place("north")
    there.pull(here)
    there.store("a")
    here.store("b")
    here.pull(there)
    there.store("c")
    here.pull(there)
    here.store("d")
    there.pull(here)
    for peer in (here, there):
        assert set(peer.entries()) == {f"created {name}" for name in "abcd"}
        sound(peer)
    assert here.replica.state_hash() == there.replica.state_hash()
    own = here.store("e").event.header.wall_ms
    assert own <= here.wall_ms + REMOTE_CLOCK_LEAD_MS, "one fast clock does not drag the others along"


def test_a_beacon_placed_by_a_peer_with_a_fast_clock_hides_nothing_that_comes_after_it() -> None:
    """By clocks these memories would be older than the beacon; by frontiers they are not."""
    fast, slow = Peer(1, wall_ms=START_MS + HOUR_MS), Peer(2, wall_ms=START_MS - HOUR_MS)
    fast.pull(slow)
    fast.place("north")
    slow.pull(fast)
    slow.store("a")
    fast.pull(slow)
    for peer in (fast, slow):
        assert set(peer.entries()) == {"created a"}


def test_a_clock_set_back_shows_in_no_uptime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> None:
        now_ns = wall_clock.now_us() * 1_000
        async with open_peer(tmp_path) as peer:
            monkeypatch.setattr(wall_clock, "time_ns", lambda: now_ns - HOUR_MS * 1_000_000)
            status = await peer.call("status", {})
            assert 0 <= status["uptime_s"] < HOUR_MS // 1_000

    asyncio.run(scene())
