"""Whether the bytes of a log are what was written: every single change is found, and named by its place."""

from __future__ import annotations

import contextlib
from pathlib import Path

import apsw
import pytest

from mesh.ports import Head
from node import database
from node.log_verification import structure_flaw, verify_newest, verify_stream
from proto.streams import StreamId
from tests.support.replicas import Peer


@pytest.fixture
def one() -> Peer:
    peer = Peer(1)
    for name in "abcdefgh":
        peer.store(name)
    return peer


def own(peer: Peer) -> tuple[StreamId, int, Head]:
    ((stream, (number, head)),) = peer.replica.log.numbered().items()
    return stream, number, head


def first_bad(peer: Peer) -> int | None:
    stream, number, head = own(peer)
    bad = verify_stream(peer.db, number, stream, head)
    return None if bad is None else bad.sequence


CHANGES: dict[str, tuple[str, int]] = {
    "a payload": ("UPDATE events SET payload=payload || x'00' WHERE sequence=4", 4),
    "a salt": ("UPDATE events SET salt=zeroblob(16) WHERE sequence=4", 4),
    "the type of a payload": ("UPDATE events SET payload=7 WHERE sequence=4", 4),
    "a header": ("UPDATE events SET header=(SELECT header FROM events WHERE sequence=5) WHERE sequence=4", 4),
    "a hash": ("UPDATE events SET hash=zeroblob(32) WHERE sequence=4", 4),
    "an event taken out": ("DELETE FROM events WHERE sequence=4", 4),
    "the last one taken out": ("DELETE FROM events WHERE sequence=9", 9),
    "a head set back": ("UPDATE streams SET head=7", 9),
    "a salt without its payload": ("UPDATE events SET payload=NULL WHERE sequence=4", 4),
}


def test_what_was_written_is_found_sound(one: Peer) -> None:
    assert first_bad(one) is None
    assert verify_newest(one.db, one.replica.log.numbered(), 3) is None


@pytest.mark.parametrize(("change", "sequence"), CHANGES.values(), ids=CHANGES.keys())
def test_any_change_is_named_by_its_sequence(one: Peer, change: str, sequence: int) -> None:
    one.db.execute(change)
    assert first_bad(one) == sequence


def test_a_payload_that_was_erased_with_its_salt_leaves_the_chain_whole(one: Peer) -> None:
    one.db.execute("UPDATE events SET payload=NULL, salt=NULL WHERE sequence=4")
    assert first_bad(one) is None


def test_the_newest_are_looked_at_without_the_older_ones(one: Peer) -> None:
    one.db.execute("UPDATE events SET payload=x'00' WHERE sequence=2")
    streams = one.replica.log.numbered()
    assert verify_newest(one.db, streams, 3) is None
    bad = verify_newest(one.db, streams, 100)
    assert bad is not None
    assert bad.sequence == 2


def test_events_appended_during_a_verification_are_no_damage(one: Peer) -> None:
    stream, number, head = own(one)
    one.store("later")
    assert verify_stream(one.db, number, stream, head) is None


def test_an_erased_event_at_the_end_counts(one: Peer) -> None:
    one.db.execute("UPDATE events SET payload=NULL, salt=NULL WHERE sequence=9")
    assert first_bad(one) is None


def test_pages_that_do_not_fit_together_are_found_where_each_event_is_as_written(tmp_path: Path) -> None:
    peer = Peer(1, tmp_path / "log.db")
    peer.store("a")
    assert structure_flaw(peer.db) is None
    stream, number, head = own(peer)
    (page,) = next(peer.db.execute("SELECT rootpage FROM sqlite_schema WHERE name='cells_by_scope'"))
    peer.db.close()
    with (tmp_path / "log.db").open("r+b") as file:
        file.seek((page - 1) * 4096)
        file.write(b"\x0a" + bytes(4095))  # an index without a row
    db = apsw.Connection(str(tmp_path / "log.db"))
    assert verify_stream(db, number, stream, head) is None
    flaw = structure_flaw(db)
    assert flaw is not None
    db.close()


def test_a_connection_that_has_searched_before_finds_no_damage_in_what_was_written_since(
    tmp_path: Path,
) -> None:
    peer = Peer(1, tmp_path / "log.db")
    peer.store("cache")
    (table,) = next(peer.db.execute("SELECT name FROM sqlite_schema WHERE sql LIKE '%fts5%'"))
    with contextlib.closing(database.open_reader(tmp_path / "log.db")) as reader:
        for number in range(40):
            reader.execute(f"SELECT count(*) FROM {table} WHERE {table} MATCH 'cache'").fetchall()
            peer.store(f"cache {number}")
            assert structure_flaw(reader) is None
    peer.db.close()
