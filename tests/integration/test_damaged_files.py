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

import pytest

from tests.support.hyphae_command import eventually
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
    """Change one byte of the only place in a file that holds `mark`."""
    data = path.read_bytes()
    assert data.count(mark) == 1, f"{mark!r} is there {data.count(mark)} times"
    at = data.index(mark) + offset
    with path.open("r+b") as file:
        file.seek(at)
        file.write(bytes([data[at] ^ 0x20]))


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

    def test_no_database_at_all_is_refused_by_name(self, peer: RunningPeer) -> None:
        store(peer, "something")
        assert peer.stop() == 0
        (peer.directory / "log.db").write_bytes(b"this is no database " * 1000)
        said = peer.refusal()
        assert said.startswith("error: corrupted: ")
        assert "log.db is no database" in said


def _flip_header(path: Path, sequence: int) -> None:
    """Change the wall time in the header of an event, where it lies in the file."""
    import apsw

    db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    (header,) = db.execute(
        "SELECT header FROM events WHERE sequence=? ORDER BY local DESC LIMIT 1", (sequence,)
    ).fetchone()
    db.close()
    flip(path, header, len(header) - 40)


class TestTheHeadsFile:
    @pytest.mark.parametrize(
        "damage",
        [
            lambda p: p.unlink(),
            lambda p: p.write_bytes(b""),
            lambda p: p.write_bytes(os.urandom(1024)),
            lambda p: p.write_bytes(p.read_bytes()[:700]),
            lambda p: p.write_bytes(b"HYH1\xff\xff" + b"\0" * 1018),
        ],
        ids=["missing", "empty", "garbage", "cut", "absurd length"],
    )
    def test_that_is_damaged_is_made_anew(self, peer: RunningPeer, damage: Callable[[Path], Any]) -> None:
        ids = store(peer, "one", "two")
        peer.kill()
        damage(peer.directory / "heads")
        peer.start()
        assert present(peer, ids) == ids
        assert problems(peer) == ""
        ids += store(peer, "three")
        peer.kill()
        peer.start()
        assert (present(peer, ids), problems(peer)) == (ids, "")

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
    @pytest.mark.parametrize(
        "damage",
        [
            lambda p, _: p.unlink(),
            lambda p, _: p.write_bytes(b""),
            lambda p, _: os.truncate(p, p.stat().st_size // 2),
            lambda p, _: os.truncate(p, p.stat().st_size - 1),
            lambda p, _: p.write_bytes(bytes([p.read_bytes()[0] ^ 1]) + p.read_bytes()[1:]),
            lambda p, _: p.write_bytes(p.read_bytes()[:-7] + bytes([p.read_bytes()[-7] ^ 1]) + b"x" * 6),
            lambda p, _: p.write_bytes(os.urandom(10_000)),
            lambda p, older: shutil.copy(older, p),
            lambda p, _: (p.unlink(), p.mkdir()),
        ],
        ids=["missing", "zero bytes", "half", "one byte short", "first byte", "last bytes", "garbage", "older",
             "a directory"],
    )  # fmt: skip
    def test_that_cannot_be_trusted_is_built_again_from_the_log(
        self, peer: RunningPeer, damage: Callable[[Path, Path], Any]
    ) -> None:
        snapshot, older = peer.directory / "index" / "vectors.snapshot", peer.root / "older"
        contents = ["caches", "payments", "deploys", "logins", "backups"]
        ids = store(peer, *contents[:3])
        assert peer.stop() == 0
        shutil.copy(snapshot, older)
        peer.start()
        ids += store(peer, *contents[3:])
        assert peer.stop() == 0
        damage(snapshot, older)
        peer.start()
        agent = peer.agent()
        assert _vectors(peer) == 5
        for content, node in zip(contents, ids, strict=True):
            best = agent("recall", query=content, mode="vector", k=100)["results"]
            assert (len(best), best[0]["node_id"]) == (5, node)
            assert best[0]["distance"] < 0.001
        assert problems(peer) == ""
        store(peer, "one more")
        assert peer.stop() == 0
        peer.start()
        assert _vectors(peer) == 6

    def test_is_saved_at_a_stop_and_need_not_be_for_a_start(self, peer: RunningPeer) -> None:
        store(peer, "one")
        peer.kill()
        peer.start()
        assert _vectors(peer) == 1
        eventually(lambda: problems(peer) == "", "the peer is well")


def _vectors(peer: RunningPeer) -> int:
    """Return how many vectors the peer's index holds."""
    text = peer.operator().send("GET", "/metrics", None)[1].decode()
    (line,) = [part for part in text.splitlines() if part.startswith("hyphae_vectors ")]
    return int(float(line.split()[1]))
