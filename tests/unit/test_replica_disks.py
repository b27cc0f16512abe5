"""A replica over failed transactions, torn and restored disks, and clocks that jump."""

from __future__ import annotations

from pathlib import Path

import pytest

from node import database
from node.replica import Draft
from node.sqlite_log import Logged
from proto.clock import Hlc
from proto.limits import REMOTE_CLOCK_LEAD_MS
from proto.payloads import (
    Payload,
)
from tests.support.replicas import (
    EAST,
    START_MS,
    TENANT,
    Peer,
    agent,
    assert_alike,
    encoded,
    foreign,
    memory,
    placing,
)

# -- transactions


def _failing(_frontier: object) -> Payload:
    raise RuntimeError("a defect in the middle of a batch")


def test_after_a_transaction_that_failed_memory_is_as_the_disk() -> None:
    one = Peer(1)
    one.place("north")
    one.store("a")
    before = _memory_of(one)
    drafts = [
        Draft.of(TENANT, agent("ben"), memory("b")),
        Draft(TENANT, agent("ann"), lambda frontier: placing("east", vector=EAST, frontier=frontier)),
        Draft(TENANT, agent("ann"), _failing),
    ]
    with pytest.raises(RuntimeError, match="defect"):
        one.replica.write(drafts, [foreign(*encoded(memory("c")))], one.wall_ms * 1000)
    assert _memory_of(one) == before
    one.store("d")
    assert one.entries() == {"created a": [10_000], "created d": [10_000]}
    assert_alike(one)


def test_a_first_transaction_that_failed_leaves_no_epoch_behind() -> None:
    one = Peer(1)
    with pytest.raises(RuntimeError):
        one.replica.write([Draft(TENANT, agent("ann"), _failing)], (), one.wall_ms * 1000)
    assert one.replica.log.heads() == {}
    one.store("a")
    (head,) = one.replica.log.heads().values()
    assert head.sequence == 2


def _memory_of(one: Peer) -> object:
    replica = one.replica
    return (
        replica.log.heads(),
        replica.hlc,
        {b.beacon: len(b.placements) for b in replica.beacons.all()},
        dict(replica.links),
        replica.state_hash(),
    )


def test_a_draft_that_is_refused_does_not_keep_out_the_others() -> None:
    one = Peer(1)
    long = memory("b").model_copy(update={"content": "x" * 300_000})
    drafts = [Draft.of(TENANT, agent("ben"), p) for p in (memory("a"), long, memory("c"))]
    outcomes = one.replica.write(drafts, (), one.wall_ms * 1000).own
    assert [isinstance(o, Logged) for o in outcomes] == [True, False, True]
    assert one.replica.log.vector() == {one.replica.log.current: 3}


# -- disks


def test_the_newest_record_torn_is_lost_and_the_rest_is_whole(tmp_path: Path) -> None:
    one = Peer(1, tmp_path / "log.db")
    one.place("north")
    one.store("a")
    one.store("b")
    copy = tmp_path / "copy"
    copy.mkdir()
    for suffix in ("", "-wal"):
        data = (tmp_path / f"log.db{suffix}").read_bytes()
        (copy / f"log.db{suffix}").write_bytes(data[:-100] if suffix else data)
    torn = Peer(1, copy / "log.db")
    torn._lives = 1
    torn.restart()
    assert torn.entries() == {"created a": [10_000]}
    assert_alike(torn)
    torn.store("c")
    torn.pull(one)
    assert torn.entries() == {"created a": [10_000], "created b": [10_000], "created c": [10_000]}
    assert_alike(torn)
    one.db.close()


def test_a_restored_directory_gets_back_what_others_hold_of_its_own() -> None:
    one, two = Peer(1), Peer(2)
    one.store("a")
    backup = one.db.serialize("main")
    one.store("b")
    two.pull(one)
    one.db.close()
    one.db = database.open_writer(":memory:")
    one.db.deserialize("main", backup)
    one.restart()
    one.store("c")
    one.pull(two)
    two.pull(one)
    assert one.replica.log.heads() == two.replica.log.heads()
    assert len(one.replica.log.heads()) == 2
    assert_alike(one, two)


# -- clocks


def test_a_restart_does_not_set_the_clock_back_behind_own_events() -> None:
    one, two = Peer(1, wall_ms=START_MS + 3_600_000), Peer(2)
    one.place("north", threshold=9_000)
    two.store("a")
    one.pull(two)
    one.wall_ms = START_MS
    one.restart()
    placed = one.place("north", threshold=2_000)
    assert placed.event.header.hlc > Hlc(START_MS + 3_600_000, 0)


def test_a_restart_does_not_take_a_suspect_clock_over() -> None:
    one = Peer(1)
    one.receive([foreign(*encoded(memory("a")), wall_ms=START_MS + 10**8)])
    one.restart()
    stored = one.store("b")
    assert stored.event.header.wall_ms <= one.wall_ms + REMOTE_CLOCK_LEAD_MS


def test_a_restart_remembers_the_clocks_it_has_seen() -> None:
    one = Peer(1)
    one.receive([foreign(*encoded(memory("a")), wall_ms=START_MS + 1_200)])
    one.restart()
    assert one.store("b").event.header.hlc > Hlc(START_MS + 1_200, 1)
