"""A database of an older version is brought to this format in place, with a copy of it beside."""

from __future__ import annotations

import asyncio
from pathlib import Path

import apsw
import pytest

from node import database, scenes_query
from node.data_directory import PeerDirectory
from node.inbox_query import Scope
from node.replica import Replica
from proto.errors import Unavailable
from tests.support.open_service import open_peer
from tests.support.replicas import MESH, SPACE, TENANT
from tests.support.sealed import peer

WRITTEN = Path(__file__).parents[1] / "golden" / "databases"
OLDER = ("scene_parts", "scene_runs", "scenes", "scene_members", "quarantine", "joinings", "retiring_events")


def written_by(number: int, at: Path) -> Path:
    """Write the database that a version of this format left."""
    db = apsw.Connection(str(at))
    db.execute((WRITTEN / f"format-{number}.sql").read_text(encoding="utf-8"))
    db.close()
    return at


def schema(db: apsw.Connection) -> set[str]:
    """Return what makes the tables and indexes; those of words come with the first word."""
    sql = "SELECT sql FROM sqlite_schema WHERE sql NOT NULL AND name NOT LIKE 'lexical%'"
    return {row[0] for row in database.rows(db, sql)}


def test_a_database_of_format_1_is_migrated_beside_a_copy(tmp_path: Path) -> None:
    path = written_by(1, tmp_path / "log.db")
    db = database.open_writer(path)
    assert db.pragma("user_version") == database.FORMAT
    assert schema(db) == schema(database.open_writer(":memory:"))
    copy = apsw.Connection(str(tmp_path / "log.db.format-1"))
    assert copy.pragma("user_version") == 1
    assert database.rows(copy, "SELECT hash FROM events") == database.rows(db, "SELECT hash FROM events")
    copy.close()
    db.close()
    (tmp_path / "log.db.format-1").unlink()
    database.open_writer(path).close()
    assert [p.name for p in tmp_path.glob("*format*")] == [], "what is new is not migrated again"


def test_a_database_of_format_2_is_migrated_and_its_members_are_known(tmp_path: Path) -> None:
    db = database.open_writer(written_by(2, tmp_path / "log.db"))
    assert schema(db) == schema(database.open_writer(":memory:"))
    replica = Replica(db, peer(1), MESH, SPACE, bytes)
    assert database.rows(db, "SELECT name FROM members ORDER BY name") == [("first",), ("second",)]
    state = replica.state_hash()
    replica.rebuild()
    assert replica.state_hash() == state
    assert len(database.rows(db, "SELECT 1 FROM joinings")) == 2


def test_a_fork_that_an_older_version_has_seen_is_in_quarantine(tmp_path: Path) -> None:
    path = written_by(2, tmp_path / "log.db")
    old = apsw.Connection(str(path))
    for sequence in (3, 2):
        old.execute("INSERT INTO forks VALUES(1,?,x'00',NULL,NULL,9)", (sequence,))
    old.close()
    replica = Replica(database.open_writer(path), peer(1), MESH, SPACE, bytes)
    ((_, agreed),) = replica.log.quarantined.items()
    (first,) = database.row(replica.db, "SELECT hash FROM events WHERE stream_no=1 AND sequence=1") or ()
    assert (agreed.sequence, agreed.hash) == (1, first)


def test_what_it_says_is_as_it_was_and_what_it_did_not_know_is_folded(tmp_path: Path) -> None:
    db = database.open_writer(written_by(1, tmp_path / "log.db"))
    entries = database.rows(db, "SELECT agent_id, diff, kind FROM entries ORDER BY agent_id, diff")
    replica = Replica(db, peer(1), MESH, SPACE, bytes)
    (scene,) = scenes_query.latest_scenes(db, TENANT, Scope("ann"), 9, None)
    assert (scene.title, scene.cells) == ("Payments", 3)
    assert database.rows(db, "SELECT kind FROM unfolded") == [("LateKind",)]
    state = replica.state_hash()
    replica.rebuild()
    assert replica.state_hash() == state
    assert database.rows(db, "SELECT agent_id, diff, kind FROM entries ORDER BY agent_id, diff") == entries


def test_a_migration_that_died_is_done_again(tmp_path: Path) -> None:
    path = written_by(1, tmp_path / "log.db")
    (tmp_path / "log.db.format-1.unfinished").write_bytes(b"half a copy")
    database.open_writer(path).close()
    assert sorted(p.name for p in tmp_path.glob("*format*")) == ["log.db.format-1"]


def test_a_copy_that_cannot_be_written_leaves_the_database_as_it_was(tmp_path: Path) -> None:
    path = written_by(1, tmp_path / "log.db")
    (tmp_path / "log.db.format-1.unfinished").mkdir()
    with pytest.raises(Unavailable, match="Nothing was changed"):
        database.open_writer(path)
    assert apsw.Connection(str(path)).pragma("user_version") == 1


def test_a_peer_opens_a_directory_of_format_1(tmp_path: Path) -> None:
    fact = {"content": "the payment retry job runs every hour", "cell_type": "Fact", "project": "web"}

    async def use() -> None:
        async with open_peer(tmp_path) as one:
            node = (await one.call("store", fact))["node_id"]
        _back_to_format_1(PeerDirectory(tmp_path).log)
        async with open_peer(tmp_path) as one:
            assert (await one.call("recall", {"query": "payment retry"}))["results"][0]["node_id"] == node
            for when in ("every night", "at noon"):
                await one.call("store", {**fact, "content": f"the payment retry job runs {when}"})
            assert (await one.call("consolidate_scenes", {"project": "web"}))["created"] == 1

    asyncio.run(use())


def _back_to_format_1(path: Path) -> None:
    db = apsw.Connection(str(path))
    for table in OLDER:
        db.execute(f"DROP TABLE {table}")
    db.execute("PRAGMA user_version=1")
    db.close()
