"""Files of a peer that were cut, flipped, lost or rolled back: found, said, and never in the way of the rest."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from node.database import FORMAT
from tests.support.running_mesh import RunningPeer, running_peer

FACT = {"cell_type": "Fact"}


@pytest.fixture
def peer() -> Iterator[RunningPeer]:
    with running_peer() as peer:
        yield peer


def store(peer: RunningPeer, *contents: str) -> list[str]:
    """Store memories one after the other; return their ids."""
    agent = peer.agent()
    return [agent("store", content=c, **FACT)["node_id"] for c in contents]


def present(peer: RunningPeer, ids: list[str]) -> list[str]:
    """Return those of the memories that can be read whole."""
    agent = peer.agent()
    return [n for n in ids if agent.ask("get_node", {"node_id": n}).result is not None]


def flip(path: Path, mark: bytes, offset: int = 0) -> None:
    """Change one byte of `mark` wherever a file holds it: SQLite leaves copies behind where it splits pages."""
    data = path.read_bytes()
    assert mark in data
    changed = mark[:offset] + bytes([mark[offset] ^ 0x20]) + mark[offset + 1 :]
    path.write_bytes(data.replace(mark, changed))


def verify_offline(peer: RunningPeer) -> tuple[int, dict[str, Any]]:
    """Return exit code and result of `hyphae log verify` on files that no process has open."""
    environment = {"HOME": str(peer.root), "HYPHAE_CONFIG_DIR": str(peer.root / "config")}
    environment |= {n: os.environ[n] for n in ("PATH", "PYTHONPATH") if n in os.environ}
    program = [sys.executable, "-P", "-m", "node", "log", "verify", "--json", "--data-dir"]
    done = subprocess.run(
        [*program, str(peer.directory)], capture_output=True, env=environment, timeout=60, check=False
    )
    return done.returncode, json.loads(done.stdout)["peers"][0]


def problems(peer: RunningPeer) -> str:
    status = peer.operator()("status")
    assert (status["state"] == "degraded") == bool(status["problems"])
    return " ".join(status["problems"])


class TestTheWriteAheadLog:
    def test_cut_anywhere_loses_only_the_end_and_the_peer_says_how_much(self, peer: RunningPeer) -> None:
        ids = store(peer, *(f"memory number {n}" for n in range(8)))
        wal = peer.directory / "log.db-wal"
        for cut in (1, 5_000):
            peer.kill()
            os.truncate(wal, wal.stat().st_size - cut)
            peer.start()
            kept = present(peer, ids)
            assert kept == ids[: len(kept)], "what is left is a prefix"
            assert len(ids) - 3 <= len(kept) < len(ids)
            assert "the disk lost own events" in problems(peer)
            assert peer.operator()("verify_log")["ok"]
            ids = [*kept, *store(peer, f"after a cut of {cut}")]
        assert peer.stop() == 0
        peer.start()
        assert present(peer, ids) == ids
        assert problems(peer) == ""

    def test_flipped_in_its_last_page_is_as_if_it_ended_before(self, peer: RunningPeer) -> None:
        ids = store(peer, *(f"memory number {n}" for n in range(8)), "the very last one")
        peer.kill()
        wal = peer.directory / "log.db-wal"
        data = bytearray(wal.read_bytes())
        data[-100] ^= 1
        wal.write_bytes(data)
        peer.start()
        assert present(peer, ids) == ids[:8]
        assert "the disk lost own events" in problems(peer)
        assert peer.operator()("verify_log")["ok"]


class TestAByteOfTheLog:
    def flipped(self, peer: RunningPeer, *marks: str) -> None:
        """Change a byte of each of these texts where they lie in the stopped peer's file; start again."""
        assert peer.stop() == 0
        for mark in marks:
            flip(peer.directory / "log.db", mark.encode())

    def test_that_flipped_is_named_by_its_sequence_and_the_rest_is_served(self, peer: RunningPeer) -> None:
        reader = peer.new_agent()
        key = reader.key
        beacon = reader("place_beacon", interest="*")["beacon_id"]
        contents = [f"memory number {n} of many" for n in range(12)]
        ids = store(peer, *contents)
        sequence = peer.agent()("get_node", node_id=ids[5])["provenance"]["sequence"]
        self.flipped(peer, contents[5])

        code, found = verify_offline(peer)
        assert (code, found["ok"], found["first_bad"]["sequence"]) == (6, False, sequence)
        peer.start()
        assert peer.operator()("verify_log")["first_bad"] == found["first_bad"]
        assert "damaged" in problems(peer)

        agent, reader = peer.agent(), peer.agent(key)
        assert present(peer, ids) == ids[:5] + ids[6:]
        assert "log verify" in agent.refused("get_node", "corrupted", node_id=ids[5])
        seen = agent("recall", query="memory number", k=100, include_content=True)["results"]
        assert {r["content"] for r in seen} == {*contents} - {contents[5]}
        drained = reader("drain_inbox", limit=100)
        assert drained["remaining"] == 0
        assert [d.get("node_id") for d in drained["diffs"]] == [*ids[:5], None, *ids[6:]]
        assert "damaged" in drained["diffs"][5]["note"]
        assert reader("list_beacons")["beacons"][0]["beacon_id"] == beacon
        agent.refused("store", "corrupted", content="replaces it", supersedes=ids[5], **FACT)
        (later,) = store(peer, "and life goes on")
        assert [d["node_id"] for d in reader("drain_inbox")["diffs"]] == [later]
        kinds = [e["kind"] for e in peer.operator()("tail", limit=1000)["entries"]]
        assert (kinds.count("Damaged"), kinds[-1]) == (1, "CellStored")

    def test_that_flipped_in_a_beacon_leaves_its_agent_with_the_others(self, peer: RunningPeer) -> None:
        reader = peer.new_agent()
        key = reader.key
        reader("place_beacon", interest="anything about caches", threshold=0)
        reader("place_beacon", interest="*", min_salience=0.1)
        (before,) = store(peer, "the cache is cold")
        self.flipped(peer, "anything about caches")
        peer.start()
        reader = peer.agent(key)
        assert [d["node_id"] for d in reader("drain_inbox")["diffs"]] == [before]
        reader("list_beacons")
        (after,) = store(peer, "the cache is warm")
        assert [d["node_id"] for d in reader("drain_inbox")["diffs"]] == [after]
        assert reader("place_beacon", interest="anything about caches")["created"] in {True, False}
        assert "damaged" in problems(peer)

    def test_that_flipped_in_the_newest_record_does_not_stop_a_start(self, peer: RunningPeer) -> None:
        ids = store(peer, "the first", "the newest of them all")
        self.flipped(peer, "the newest of them all")
        peer.start()
        assert "damaged" in problems(peer)
        assert present(peer, ids) == ids[:1]
        store(peer, "a newer one")
        assert not peer.operator()("verify_log")["ok"]

    def test_that_flipped_in_a_header_is_found_by_the_chain(self, peer: RunningPeer) -> None:
        ids = store(peer, *(f"memory number {n}" for n in range(4)))
        sequence = peer.agent()("get_node", node_id=ids[1])["provenance"]["sequence"]
        assert peer.stop() == 0
        _flip_header(peer.directory / "log.db", sequence)
        code, found = verify_offline(peer)
        assert code == 6
        assert found["first_bad"]["sequence"] in {sequence, sequence + 1}
        peer.start()
        assert "damaged" in problems(peer)

    def test_pages_of_the_database_that_are_garbage_are_an_error_and_no_crash(
        self, peer: RunningPeer
    ) -> None:
        store(peer, *(f"memory number {n} " + "x" * 3_000 for n in range(40)))
        assert peer.stop() == 0
        with (peer.directory / "log.db").open("r+b") as file:
            size = file.seek(0, os.SEEK_END)
            for page in range(size // 2 // 4096, size // 2 // 4096 + 8):
                file.seek(page * 4096)
                file.write(os.urandom(4096))
        code, found = verify_offline(peer)
        assert (code, found["ok"]) == (6, False)
        with contextlib.suppress(AssertionError):
            peer.start()
        if peer.process is not None and peer.process.poll() is None:
            assert "damaged" in problems(peer)
            for method, arguments in (("recall", {"query": "x"}), ("store", {"content": "x", **FACT})):
                answer = peer.agent().ask(method, arguments)
                assert answer.code in {"", "corrupted", "unavailable"}, answer
        else:
            assert "error: corrupted: " in peer.log()

    def test_a_page_that_fits_no_other_is_named_although_each_event_is_as_written(
        self, peer: RunningPeer
    ) -> None:
        ids = store(peer, *(f"memory number {n}" for n in range(4)))
        assert peer.stop() == 0
        db = apsw.Connection(str(peer.directory / "log.db"))
        (page,) = next(db.execute("SELECT rootpage FROM sqlite_schema WHERE name='cells_by_agent'"))
        db.close()
        with (peer.directory / "log.db").open("r+b") as file:
            file.seek((page - 1) * 4096)
            file.write(b"\x0a" + bytes(4095))
        code, found = verify_offline(peer)
        assert (code, found["ok"], "first_bad" in found) == (6, False, False)
        assert "the database is damaged" in found["unreadable"]
        peer.start()
        assert not peer.operator()("verify_log")["ok"]
        assert "the database is damaged" in problems(peer)
        assert present(peer, ids) == ids

    def test_no_database_at_all_is_refused_by_name(self, peer: RunningPeer) -> None:
        store(peer, "something")
        assert peer.stop() == 0
        (peer.directory / "log.db").write_bytes(b"this is no database " * 1000)
        said = peer.refusal()
        assert said.startswith("error: corrupted: ")
        assert "log.db is no database" in said

    def test_of_a_newer_version_is_refused_by_name_and_left_alone(self, peer: RunningPeer) -> None:
        ids = store(peer, "something")
        assert peer.stop() == 0
        for number in (99, FORMAT):
            db = apsw.Connection(str(peer.directory / "log.db"))
            db.pragma("user_version", number)
            db.close()
            if number == 99:
                said = peer.refusal()
                assert said.startswith("error: unavailable: ")
                assert "has format 99, written by a newer version" in said
        peer.start()
        assert present(peer, ids) == ids


def _flip_header(path: Path, sequence: int) -> None:
    """Change who the header of an event says to have written it, where it lies in the file."""
    db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    (header,) = next(
        db.execute("SELECT header FROM events WHERE sequence=? ORDER BY local DESC", (sequence,))
    )
    db.close()
    flip(path, header, len(header) - 40)


class TestTheHeadsFile:
    def test_that_is_damaged_is_made_anew(self, peer: RunningPeer) -> None:
        heads = peer.directory / "heads"
        damages: dict[str, Callable[[], Any]] = {
            "missing": heads.unlink,
            "empty": lambda: heads.write_bytes(b""),
            "garbage": lambda: heads.write_bytes(os.urandom(1024)),
            "cut": lambda: heads.write_bytes(heads.read_bytes()[:700]),
            "of absurd length": lambda: heads.write_bytes(b"HYH1\xff\xff" + b"\0" * 1018),
            "a shorter life": lambda: heads.write_bytes(heads.read_bytes()[512:] + bytes(512)),
        }
        ids: list[str] = []
        for name, damage in damages.items():
            ids += store(peer, f"before it is {name}")
            peer.kill()
            damage()
            peer.start()
            assert (present(peer, ids), problems(peer)) == (ids, ""), name

    def test_that_is_ahead_of_a_log_that_was_rolled_back_says_what_was_lost(self, peer: RunningPeer) -> None:
        ids = store(peer, "one", "two")
        assert peer.stop() == 0
        shutil.copy(peer.directory / "log.db", peer.root / "older.db")
        peer.start()
        ids += store(peer, "three", "four")
        last = peer.agent()("get_node", node_id=ids[-1])["provenance"]
        assert peer.stop() == 0
        shutil.copy(peer.root / "older.db", peer.directory / "log.db")
        peer.start()
        said = problems(peer)
        assert f"to {last['sequence']} of epoch {last['epoch']}" in said
        assert present(peer, ids) == ids[:2]
        again = store(peer, "five")
        epoch = peer.agent()("get_node", node_id=again[0])["provenance"]["epoch"]
        assert epoch == last["epoch"], "the ordinal may return; the random bits of an epoch never do"
        assert peer.operator()("verify_log")["ok"]


class TestTheIndexSnapshot:
    def test_that_cannot_be_trusted_is_built_again_from_the_log(self, peer: RunningPeer) -> None:
        snapshot, older = peer.directory / "index" / "vectors.snapshot", peer.root / "older"
        contents = ["caches", "payments", "deploys"]
        ids = store(peer, *contents)
        assert peer.stop() == 0
        shutil.copy(snapshot, older)
        peer.start()
        damages: dict[str, Callable[[], Any]] = {
            "missing": snapshot.unlink,
            "zero bytes": lambda: snapshot.write_bytes(b""),
            "half": lambda: os.truncate(snapshot, snapshot.stat().st_size // 2),
            "flipped": lambda: _flip_middle(snapshot),
            "older": lambda: shutil.copy(older, snapshot),
        }
        for name, damage in damages.items():
            contents.append(f"before it is {name}")
            ids += store(peer, contents[-1])
            assert peer.stop() == 0
            damage()
            peer.start()
            agent = peer.agent()
            assert _vectors(peer) == len(ids), name
            for content, node in zip(contents, ids, strict=True):
                best = agent("recall", query=content, mode="vector", k=100)["results"]
                assert (len(best), best[0]["node_id"]) == (len(ids), node), name
                assert best[0]["distance"] < 0.001, name
            assert problems(peer) == "", name

    def test_need_not_be_there_for_a_start(self, peer: RunningPeer) -> None:
        store(peer, "one")
        peer.kill()
        peer.start()
        assert (_vectors(peer), problems(peer)) == (1, "")

    def test_that_was_missing_is_written_at_the_end_though_nothing_was_stored(
        self, peer: RunningPeer
    ) -> None:
        store(peer, "one")
        peer.kill()
        peer.start()
        assert peer.stop() == 0
        assert (peer.directory / "index" / "vectors.snapshot").stat().st_size > 0


def _flip_middle(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def _vectors(peer: RunningPeer) -> int:
    """Return how many vectors the peer's index holds."""
    text = peer.operator().send("GET", "/metrics", None)[1].decode()
    (line,) = [part for part in text.splitlines() if part.startswith("hyphae_vectors ")]
    return int(float(line.split()[1]))
