"""The fold of a log: the same state in whatever order events arrive, and nothing that one bad event can stop."""

from __future__ import annotations

import itertools
import random
from pathlib import Path

import apsw
import pytest

from mesh.ports import Segment
from mesh.segments import segment_of
from node import database
from node.replica import Draft, Replica
from node.sqlite_log import Logged
from proto.clock import Hlc
from proto.codec import encode
from proto.events import NO_HASH, seal
from proto.ids import NO_TENANT, AgentId
from proto.limits import REMOTE_CLOCK_LEAD_MS
from proto.payloads import (
    BeaconsRenewed,
    CellStored,
    EpochOpened,
    PageListed,
    Payload,
    PeerJoined,
    PeerRetired,
    encode_payload,
)
from tests.support.replicas import (
    BOTH,
    EAST,
    MESH,
    NORTH,
    SPACE,
    START_MS,
    TENANT,
    Peer,
    agent,
    beacon_of,
    cell_of,
    memory,
    placing,
    vector,
)
from tests.support.sealed import peer, stream

SALT = bytes(16)


def foreign(*events: tuple[str, bytes], number: int = 9, wall_ms: int = START_MS) -> Segment:
    """Return a stream of another peer with any kinds and payloads."""
    out, previous = [], NO_HASH
    for sequence, (kind, payload) in enumerate(events, 1):
        at = stream(number)
        event = seal(
            at, sequence, Hlc(wall_ms, sequence), kind, TENANT, agent("ben"), payload, SALT, previous
        )
        out.append(event)
        previous = event.hash
    return segment_of(out, NO_HASH)


def payloads(*contents: Payload) -> list[tuple[str, bytes]]:
    return [(type(p).__name__, encode_payload(p)) for p in contents]


def assert_alike(*peers: Peer) -> None:
    """Peers with equal streams hold equal state, and a rebuild gives it again."""
    states = {p.replica.state_hash() for p in peers}
    assert len(states) == 1
    for p in peers:
        entries = p.entries("ann"), p.entries("ben")
        p.replica.rebuild()
        assert (p.entries("ann"), p.entries("ben")) == entries
        assert p.replica.state_hash() in states


# -- convergence


def test_a_rebuild_gives_the_same_entries_and_the_same_state() -> None:
    one = Peer(1)
    one.place("north")
    one.store("a")
    one.store("b", supersedes=cell_of("a"))
    one.append(PageListed(page=b"p" * 16, refs=()))
    one.withdraw("north")
    one.store("c")
    assert one.entries() == {"created a": [10_000], "created b": [10_000], "superseded b": []}
    assert_alike(one)


def test_the_order_in_which_streams_arrive_does_not_matter() -> None:
    storing, placing, both = Peer(1), Peer(2), Peer(3)
    placing.place("north")
    placing.place("all", interest="*", vector=None, project="web")
    storing.store("a")
    placing.pull(storing)
    placing.place("north", threshold=9_000)
    storing.store("b", vector=BOTH)
    both.pull(placing)
    both.withdraw("north")
    storing.store("c")
    both.store("d", supersedes=cell_of("a"))
    both.pull(storing, placing)
    readers: list[Peer] = []
    for order in itertools.permutations(both.segments()):
        reader = Peer(10 + len(readers))
        reader.receive(order)
        readers.append(reader)
    assert both.entries() == {
        "created a": [10_000, 10_000],
        "created b": [10_000],
        "created c": [10_000],
        "created d": [10_000],
        "superseded d": [],
    }
    assert_alike(both, *readers)


def test_a_beacon_that_arrives_late_finds_what_lies_beyond_its_frontier() -> None:
    storing, placing, late = Peer(1), Peer(2), Peer(3)
    storing.store("a")
    placing.pull(storing)
    placing.place("north")
    storing.store("b")
    late.pull(storing, placing)
    assert late.entries() == {"created b": [10_000]}


def test_a_withdrawal_that_arrives_late_takes_entries_back() -> None:
    one, two = Peer(1), Peer(2)
    one.place("north")
    two.pull(one)
    two.withdraw("north")
    one.store("a")
    assert one.entries() == {"created a": [10_000]}
    one.pull(two)
    assert one.entries() == {}
    assert_alike(one)


def test_a_link_that_arrives_late_is_applied_to_what_was_judged_without_it() -> None:
    storing, placing, late = Peer(1), Peer(2), Peer(3)
    storing.store("a")
    storing.restart()
    storing.store("b")
    old, new = storing.segments()
    placing.receive([old, new])
    placing.place("north")
    late.receive([old, *(s for s in placing.segments() if s.stream.peer == peer(2))])
    assert late.entries() == {"created a": [10_000]}  # the frontier names an epoch of which nothing is known
    late.receive([new])
    assert late.entries() == {}
    storing.pull(placing)
    assert_alike(late, storing)


def test_a_withdrawal_known_only_through_a_link_ends_a_placement() -> None:
    placing, ending, late = Peer(1), Peer(2), Peer(3)
    placing.place("north")
    placing.restart()
    placing.store("a", vector=EAST)
    old, new = placing.segments()
    ending.receive([old, new])
    ending.withdraw("north")
    ending.store("b")
    late.receive([old, *(s for s in ending.segments() if s.stream.peer == peer(2))])
    assert late.entries() == {"created b": [10_000]}
    late.receive([new])
    assert late.entries() == {}
    ending.pull(placing)
    assert_alike(late, ending)


def test_two_peers_may_embed_one_interest_differently() -> None:
    one, two, three = Peer(1), Peer(2), Peer(3)
    one.place("north")
    two.place("north", vector=vector(100, 10, 0, 0))
    three.store("a")
    for reader, others in ((one, (two, three)), (two, (three, one)), (three, (two, one))):
        reader.pull(*others)
    assert_alike(one, two, three)
    assert one.entries()["created a"][0] < 10_000  # by the newer placement, wherever it came first


def test_an_interest_placed_in_two_spaces_matches_in_both() -> None:
    one = Peer(1)
    one.place("north")
    one.place("north", vector=vector(0, 0, 100, space="new"))
    one.store("a")
    one.store("b", vector=vector(0, 0, 100, space="new"))
    one.store("c", vector=vector(0, 0, 100, space="third"))
    assert one.entries() == {"created a": [10_000], "created b": [10_000]}


def test_a_renewal_that_arrives_late_brings_back_what_had_expired() -> None:
    one, two = Peer(1), Peer(2)
    one.place("north", expires_ms=START_MS + 1_500)
    one.store("a")
    assert one.entries() == {}
    two.pull(one)
    two.append(BeaconsRenewed(beacons=(beacon_of("north"),), expires_ms=START_MS + 60_000))
    one.pull(two)
    assert one.entries() == {"created a": [10_000]}
    assert_alike(one, two)


def test_a_member_is_retired_even_if_its_joining_arrives_later() -> None:
    joined = PeerJoined(
        peer=peer(7), public_key=bytes(32), name="g", inviter=peer(1), signature=b"", inviter_signature=b""
    )
    one, two, three = Peer(1), Peer(2), Peer(3)
    one.append(joined)
    two.append(PeerRetired(peer=peer(7), frontier=()))
    three.pull(two, one)
    one.pull(two)
    two.pull(one)
    found = database.rows(three.db, "SELECT retired_ms IS NOT NULL FROM members")
    assert found == [(1,)]
    assert_alike(one, two, three)


# -- retries


def test_a_retry_on_another_peer_is_the_same_cell_and_the_same_entry() -> None:
    one, two, three = Peer(1), Peer(2, wall_ms=START_MS + 10_000), Peer(3)
    three.place("north")
    one.store("a")
    two.store("a")
    three.pull(two, one)
    assert three.entries() == {"created a": [10_000]}
    rows = database.rows(three.db, "SELECT wall_ms FROM entries")
    assert rows == [(START_MS + 1_000,)]
    one.pull(two, three)
    two.pull(three, one)
    assert_alike(one, two, three)


def test_a_cell_whose_first_event_was_known_matches_by_its_retry_with_the_time_of_the_first() -> None:
    one, two, three = Peer(1), Peer(2, wall_ms=START_MS + 10_000), Peer(3)
    one.store("a")
    two.store("a")
    three.pull(one)
    three.place("north")
    three.pull(two)
    one.pull(two, three)
    two.pull(three, one)
    assert three.entries() == {"created a": [10_000]}
    assert_alike(one, two, three)


def test_another_text_under_the_same_key_is_not_the_cell() -> None:
    one, two = Peer(1), Peer(2, wall_ms=START_MS + 10_000)
    two.place("north")
    one.store("a", vector=EAST)
    two.store("a", content="another")
    assert two.entries() == {"created a": [10_000]}
    two.pull(one)
    assert two.entries() == {}
    one.pull(two)
    assert_alike(one, two)


def test_a_read_entry_that_vanishes_and_comes_back_is_still_read() -> None:
    one, two, three = Peer(1), Peer(2), Peer(3)
    one.place("north")
    two.pull(one)
    two.withdraw("north")
    three.place("north")
    one.store("a")
    (diff,) = database.rows(one.db, "SELECT diff FROM entries")[0]
    one.append(PageListed(page=b"p" * 16, refs=(diff,)))
    one.append(PageListed(page=b"q" * 16, commits=(b"p" * 16,)))
    one.pull(two)
    assert one.entries() == {}
    one.pull(three)
    assert one.entries() == {"created a": [10_000]}
    assert database.rows(one.db, "SELECT read_local IS NOT NULL FROM entries") == [(1,)]
    two.pull(three, one)
    assert_alike(one, two)


# -- replacements (decision records 8 and 9)


def test_author_and_readers_of_a_memory_are_told_what_replaced_it() -> None:
    one = Peer(1)
    one.place("north", by="ann")
    one.store("a", by="ben")
    one.store("b", by="cat", vector=EAST, supersedes=cell_of("a"))
    assert one.entries("ann") == {"created a": [10_000], "superseded b": []}
    assert one.entries("ben") == {"superseded b": []}
    assert one.entries("cat") == {}


def test_whoever_replaces_a_memory_is_not_told_of_it() -> None:
    one = Peer(1)
    one.place("north", by="ann")
    one.store("a", by="ben")
    one.store("b", by="ben", vector=EAST, supersedes=cell_of("a"))
    one.store("c", by="ann", vector=EAST, supersedes=cell_of("a"))
    assert one.entries("ben") == {"superseded c": []}
    assert one.entries("ann") == {"created a": [10_000], "superseded b": []}


def test_whoever_was_told_of_a_replacement_is_told_of_the_next_one() -> None:
    one = Peer(1)
    one.place("north", by="ann")
    one.store("a", by="ben")
    one.store("b", by="cat", vector=EAST, supersedes=cell_of("a"))
    one.store("c", by="dan", vector=EAST, supersedes=cell_of("b"))
    assert one.entries("ann") == {"created a": [10_000], "superseded b": [], "superseded c": []}
    assert one.entries("ben") == {"superseded b": [], "superseded c": []}
    assert one.entries("cat") == {"superseded c": []}


def test_a_replacement_that_arrives_before_the_old_memory_is_told_when_it_comes() -> None:
    one, two, three = Peer(1), Peer(2), Peer(3)
    one.place("north", by="ann")
    one.store("a", by="ben")
    two.pull(one)
    two.store("b", by="cat", vector=EAST, supersedes=cell_of("a"))
    two.store("c", by="cat", vector=EAST, supersedes=cell_of("b"))
    three.receive([s for s in two.segments() if s.stream.peer == peer(2)])
    assert three.entries("ann") == {}
    three.pull(one)
    assert three.entries("ann") == {"created a": [10_000], "superseded b": [], "superseded c": []}
    assert_alike(two, three)


def test_a_replacement_never_carries_text_into_another_scope() -> None:
    one = Peer(1)
    one.place("north", by="ann")
    one.store("a", by="ben", project="web")
    one.store("b", by="cat", vector=EAST, project="billing", supersedes=cell_of("a"))
    one.store("c", by="cat", vector=EAST, project="private", supersedes=cell_of("a"))
    assert one.entries("ann") == {"created a": [10_000]}


# -- events that cannot be believed


def test_a_payload_that_breaks_its_model_is_set_aside_and_passed_on() -> None:
    one, two = Peer(1), Peer(2)
    one.place("north")
    one.receive([foreign(("CellStored", encode({"cell": b"short"})), *payloads(memory("a")))])
    assert [kind for kind, _ in one.set_aside()] == ["CellStored"]
    assert one.entries() == {"created a": [10_000]}
    two.pull(one)
    assert_alike(one, two)


def test_an_unknown_kind_is_kept_counted_and_passed_on() -> None:
    one, two = Peer(1), Peer(2)
    one.receive([foreign(("CellDreamt", b"\x80"))])
    two.pull(one)
    assert two.set_aside() == [("CellDreamt", "unknown kind")]
    assert two.replica.log.heads() == one.replica.log.heads()


@pytest.mark.parametrize(
    "wrong",
    [
        NORTH.model_copy(update={"norm": 0}),
        NORTH.model_copy(update={"norm": NORTH.norm + 1}),
        vector(0, 0, 0, 0),
        vector(*([1] * 1_041)),
    ],
    ids=["norm 0", "another norm", "no direction", "too many dimensions"],
)
def test_a_vector_that_breaks_the_scoring_rule_matches_nothing_and_stops_nothing(wrong: object) -> None:
    one = Peer(1)
    one.place("north", threshold=-10_000)
    one.place("all", interest="*", vector=None)
    stored = memory("a").model_copy(update={"vector": wrong})
    one.receive([foreign(*payloads(stored, memory("b")))])
    entries = one.entries()
    assert entries["created a"] == [10_000]  # by "*" alone
    assert entries["created b"] == [10_000, 10_000]


def test_vectors_of_two_sizes_under_one_name_stop_nothing() -> None:
    one = Peer(1)
    one.place("north")
    one.place("short", vector=vector(100, 0), threshold=-10_000)
    one.receive([foreign(*payloads(memory("a", vector=vector(100, 0)), memory("b")))])
    assert one.entries() == {"created a": [10_000], "created b": [10_000]}
    assert_alike(one)


def test_a_beacon_that_cannot_be_scored_is_set_aside() -> None:
    one = Peer(1)
    one.place("north", vector=None)
    one.place("east", vector=EAST.model_copy(update={"norm": 1}))
    one.store("a", vector=EAST)
    assert one.entries() == {}
    assert [kind for kind, _ in one.set_aside()] == ["BeaconPlaced", "BeaconPlaced"]
    one.restart()
    assert len(one.replica.beacons) == 0


def test_only_the_first_event_of_a_stream_may_link_it() -> None:
    one = Peer(1)
    later = EpochOpened(previous=(*stream(9), 2**40))
    one.receive([foreign(*payloads(EpochOpened(), later))])
    assert one.replica.links[stream(9)] is None
    assert one.set_aside() == [("EpochOpened", "not the first event of its stream")]
    one.restart()
    assert one.replica.links[stream(9)] is None


def test_a_segment_that_is_not_what_it_claims_is_refused_whole() -> None:
    one = Peer(1)
    good = foreign(*payloads(memory("a")))
    header, salt, payload = good.events[0]
    one.receive([Segment(good.stream, 1, NO_HASH, ((header, salt, (payload or b"") + b"x"),))])
    assert one.replica.log.heads() == {}
    one.receive([good])
    assert len(one.replica.log.heads()) == 1


def test_a_damaged_cell_does_not_stop_what_comes_later() -> None:
    one, two = Peer(1), Peer(2)
    one.store("a")
    one.store("b")
    one.db.execute("UPDATE events SET payload=x'00' WHERE sequence=2")
    two.place("north")
    one.pull(two)  # both memories lie beyond it
    one.store("c")
    assert one.entries() == {"created b": [10_000], "created c": [10_000]}


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
        one.replica.write(drafts, [foreign(*payloads(memory("c")))], one.wall_ms * 1000)
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
    one.receive([foreign(*payloads(memory("a")), wall_ms=START_MS + 10**8)])
    one.restart()
    stored = one.store("b")
    assert stored.event.header.wall_ms <= one.wall_ms + REMOTE_CLOCK_LEAD_MS


def test_a_restart_remembers_the_clocks_it_has_seen() -> None:
    one = Peer(1)
    one.receive([foreign(*payloads(memory("a")), wall_ms=START_MS + 1_200)])
    one.restart()
    assert one.store("b").event.header.hlc > Hlc(START_MS + 1_200, 1)


# -- the whole


def test_a_replica_needs_nothing_but_its_arguments() -> None:
    first, second = (
        Replica(database.open_writer(":memory:"), peer(1), MESH, SPACE, random.Random(1).randbytes)
        for _ in range(2)
    )
    draft = Draft.of(NO_TENANT, AgentId(bytes(16)), PageListed(page=b"p" * 16))
    for replica in (first, second):
        replica.write([draft], (), START_MS * 1000)
    assert first.log.heads() == second.log.heads()


def test_a_closed_database_fails_the_write_and_nothing_else() -> None:
    one = Peer(1)
    one.db.close()
    with pytest.raises(apsw.Error):
        one.replica.write([Draft.of(TENANT, agent("ben"), memory("a"))], (), START_MS * 1000)


def test_a_stored_memory_without_a_vector_matches_only_interests_in_everything() -> None:
    one = Peer(1)
    one.place("north", threshold=-10_000)
    one.place("all", interest="*", vector=None)
    one.store("a", vector=None)
    assert one.entries() == {"created a": [10_000]}
    assert isinstance(memory("a"), CellStored)
