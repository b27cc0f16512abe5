"""Real peers that are retired while they are dead and come back, and directories that run twice."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from node import database
from proto.events import SALT_BYTES, parse_header, seal
from proto.ids import parse_base32
from tests.support.hyphae_command import eventually
from tests.support.nats_server import NatsServer
from tests.support.places import short_directory
from tests.support.running_mesh import RunningPeer

FACT = {"cell_type": "Fact"}


class Mesh:
    """Peers of one mesh; the first one founded it, and its keys are everybody's."""

    def __init__(self, nats: NatsServer, first: RunningPeer) -> None:
        self.nats, self.first = nats, first
        self.peers = [first]

    def join(self, name: str) -> RunningPeer:
        """Let another peer join."""
        token = self.operator(self.first)("invite_peer")["token"]
        peer = RunningPeer(self.first.root, "--join", token, name=name)
        self.peers.append(peer)
        return peer.start()

    def operator(self, peer: RunningPeer) -> Any:
        return peer.caller(self.first.secret("operator"))

    def agent(self, peer: RunningPeer) -> Any:
        return peer.agent(self.first.secret("agent"))

    def status(self, peer: RunningPeer) -> dict[str, Any]:
        found: dict[str, Any] = self.operator(peer)("status")
        return found

    def seen(self, by: RunningPeer, name: str) -> dict[str, Any]:
        """Return a member as a peer sees it."""
        found: list[dict[str, Any]] = self.operator(by)("peers")["peers"]
        return next(p for p in found if p["name"] == name)

    def streams(self, peer: RunningPeer) -> list[tuple[str, int, str]]:
        found = self.operator(peer)("verify_log")
        return sorted((s["stream"], s["sequence"], s["hash"]) for s in found["streams"])

    def converged(self, *peers: RunningPeer) -> None:
        def alike() -> bool:
            return all(self.streams(p) == self.streams(peers[0]) for p in peers)

        eventually(alike, "all hold the same streams")

    def finds(self, peer: RunningPeer, text: str) -> bool:
        found = self.agent(peer)("recall", query=text, include_content=True, mode="lexical")
        return any(r["content"] == text for r in found["results"])


@pytest.fixture
def mesh() -> Iterator[Mesh]:
    with short_directory() as nats_root, short_directory() as root:
        nats = NatsServer(nats_root)
        nats.start()
        found = Mesh(nats, RunningPeer(root, "--nats-url", nats.url, name="one"))
        try:
            found.first.start()
            yield found
        finally:
            for peer in found.peers:
                peer.kill()
            nats.kill()


def test_a_retired_peer_comes_back_is_told_so_and_what_it_brings_is_kept_aside(mesh: Mesh) -> None:
    one, two, gone = mesh.first, mesh.join("two"), mesh.join("gone")
    mesh.agent(gone)("store", content="heard by all before the end", **FACT)
    mesh.converged(one, two, gone)

    gone.stop()
    gone.options = ("--no-nats",)
    gone.start()
    mesh.agent(gone)("store", content="written alone in the dark", **FACT)
    gone.kill()
    eventually(lambda: mesh.seen(one, "gone")["state"] == "silent", "it is silent")

    retired = mesh.operator(one)("retire_peer", peer="gone", why="its disk failed")
    assert retired["late_events"] == 0
    assert mesh.operator(one)("retire_peer", peer=retired["peer_id"]) == retired, "once is enough"
    eventually(lambda: mesh.seen(two, "gone")["state"] == "retired", "the other peer knows")
    for peer in (one, two):
        status = mesh.status(peer)
        assert (status["state"], status["members"], status["peers_up"]) == ("ok", 2, 2)

    gone.options = ("--nats-url", mesh.nats.url)
    gone.start()
    eventually(lambda: any("was retired on" in p for p in mesh.status(gone)["problems"]), "it was told")
    assert any("its disk failed" in p for p in mesh.status(gone)["problems"])
    said = mesh.agent(gone).refused("store", "unavailable", content="after its end", **FACT)
    assert "was retired on" in said
    mesh.converged(one, two, gone)
    for peer in (one, two, gone):
        assert mesh.seen(peer, "gone")["late_events"] == 2, "the opening of an epoch and a memory"
        assert mesh.finds(peer, "heard by all before the end")
        assert not mesh.finds(peer, "written alone in the dark")
    assert mesh.status(one)["state"] == mesh.status(two)["state"] == "ok"

    assert mesh.operator(two)("retire_peer", peer="gone", let_in=True)["late_events"] == 0
    for peer in (one, two, gone):
        eventually(lambda p=peer: mesh.finds(p, "written alone in the dark"), "it counts now")  # type: ignore[misc]
    assert mesh.status(one)["late_events"] == 0

    gone.stop()
    shutil.rmtree(gone.directory)
    gone.options = ("--join", mesh.operator(one)("invite_peer")["token"])
    gone.start()
    eventually(lambda: mesh.status(one)["members"] == 3, "it has joined anew")
    mesh.agent(gone)("store", content="a new beginning", **FACT)
    eventually(lambda: mesh.finds(one, "a new beginning"), "what it stores counts again")


def test_the_last_events_of_a_peer_whose_disk_is_gone_are_shown_as_lost(mesh: Mesh) -> None:
    one, gone = mesh.first, mesh.join("gone")
    mesh.agent(gone)("store", content="heard by both", **FACT)
    mesh.converged(one, gone)
    gone.stop()
    gone.options = ("--no-nats",)
    gone.start()
    for n in range(3):
        mesh.agent(gone)("store", content=f"written alone, {n}", **FACT)
    gone.kill()
    lose_all_but_the_last_event(gone, mesh.seen(one, "gone")["peer_id"])
    gone.options = ("--nats-url", mesh.nats.url)
    gone.start()
    mesh.agent(gone)("store", content="its epoch names the one before", **FACT)
    eventually(lambda: mesh.finds(one, "its epoch names the one before"), "it has come")
    gone.kill()
    shutil.rmtree(gone.directory)
    eventually(lambda: mesh.seen(one, "gone")["state"] == "silent", "it is silent")
    mesh.operator(one)("retire_peer", peer="gone", why="its disk is lost")

    (tail,) = mesh.seen(one, "gone")["lost_tails"]
    assert (tail["from"], tail["to"]) == (1, 4), "the opening of an epoch and three memories"
    assert mesh.status(one)["lost_tails"] == [tail]
    assert mesh.status(one)["state"] == "ok", "nothing can be done about it"
    assert "events 1 to 4 of" in hyphae(one, "peer", "list")[1]
    assert "4 events that nobody who is heard holds any more" in hyphae(one, "status")[1]
    assert "holds events 1 to 4 of" in hyphae(one, "doctor", "--json")[1]


def test_who_cannot_be_retired(mesh: Mesh) -> None:
    operator = mesh.operator(mesh.first)
    two = mesh.join("two")
    mesh.converged(mesh.first, two)
    assert "does not retire itself" in operator.refused("retire_peer", "conflict", peer="one")
    operator.refused("retire_peer", "not_found", peer="nobody")
    mesh.agent(mesh.first).refused("retire_peer", "forbidden", peer="two")
    assert {p["state"] for p in operator("peers")["peers"]} == {"up"}


def test_the_command_line_retires_a_peer_that_is_alive_and_it_stops_storing(mesh: Mesh) -> None:
    one, two = mesh.first, mesh.join("two")
    mesh.converged(one, two)
    code, said = hyphae(one, "peer", "retire", "two", "--why", "moved to another machine", "--json")
    assert (code, json.loads(said)["name"]) == (0, "two")
    eventually(lambda: any("moved to another machine" in p for p in mesh.status(two)["problems"]), "told")
    mesh.agent(two).refused("store", "unavailable", content="too late", **FACT)
    code, said = hyphae(one, "peer", "list")
    assert code == 0
    assert "retired" in said
    assert mesh.status(one)["state"] == "ok"
    code, said = hyphae(one, "doctor", "--json")
    assert "silent" not in said


def hyphae(peer: RunningPeer, *words: str) -> tuple[int, str]:
    """Run a command on the data directory of a peer; return exit code and output."""
    environment = {"HOME": str(peer.root), "HYPHAE_CONFIG_DIR": str(peer.root / "config")}
    environment |= {n: os.environ[n] for n in ("PATH", "PYTHONPATH") if n in os.environ}
    program = [sys.executable, "-P", "-m", "node", *words, "--data-dir", str(peer.directory)]
    done = subprocess.run(program, capture_output=True, env=environment, timeout=60, check=False, text=True)
    return done.returncode, done.stdout


def test_a_copied_directory_that_runs_beside_the_original_is_said_so(mesh: Mesh) -> None:
    one, two = mesh.first, mesh.join("two")
    mesh.converged(one, two)
    two.stop()
    twin = RunningPeer(one.root, "--nats-url", mesh.nats.url, name="twin")
    shutil.copytree(two.directory, twin.directory)
    two.options = ("--nats-url", mesh.nats.url)
    mesh.peers.append(twin)
    two.start()
    twin.start()
    for peer in (two, twin):
        eventually(
            lambda p=peer: any("another process runs as this peer" in t for t in mesh.status(p)["problems"]),  # type: ignore[misc]
            f"{peer.name} warns",
        )
    for peer in (two, twin):
        mesh.agent(peer)("store", content=f"said at {peer.name}", **FACT)
    mesh.converged(one, two, twin)
    for peer in (one, two, twin):
        assert mesh.finds(peer, "said at two")
        assert mesh.finds(peer, "said at twin")
        assert mesh.status(peer)["forks"] == 0
    twin.stop()
    eventually(lambda: mesh.status(two)["state"] == "ok", "the warning ends with the twin")


def test_a_stream_with_two_histories_is_set_apart_and_everything_else_goes_on(mesh: Mesh) -> None:
    one, two, gone = mesh.first, mesh.join("two"), mesh.join("gone")
    mesh.agent(gone)("store", content="both have this one", **FACT)
    mesh.agent(gone)("store", content="and each another version of this one", **FACT)
    mesh.converged(one, two, gone)
    gone.kill()
    two.stop()
    rewrite_last_event(two, mesh.seen(one, "gone")["peer_id"])
    two.start()
    for peer in (one, two):
        eventually(lambda p=peer: bool(apart(mesh, p)), f"{peer.name} says so")  # type: ignore[misc]
        (problem,) = apart(mesh, peer)
        assert "differ after event 2" in problem
        assert "stop it, and restart the peer" in problem
        assert mesh.status(peer)["state"] == "degraded"

    three = mesh.join("three")
    mesh.agent(two)("store", content="everything else goes on", **FACT)
    for peer in (one, two, three):
        eventually(lambda p=peer: mesh.finds(p, "everything else goes on"), "it has come")  # type: ignore[misc]
    eventually(lambda: mesh.finds(three, "both have this one"), "what is agreed is handed on")
    assert not mesh.finds(three, "and each another version of this one")

    two.kill()
    one.stop()
    one.start()
    assert apart(mesh, one), "it is remembered"
    gone.options = ("--nats-url", mesh.nats.url)
    gone.start()
    mesh.agent(gone)("store", content="a new epoch", **FACT)
    eventually(lambda: mesh.finds(one, "a new epoch"), "a new epoch is not concerned")


def lose_all_but_the_last_event(at: RunningPeer, of: str) -> None:
    """Take events of a peer's newest epoch out of its log, which goes on to say that it holds them."""
    db = database.open_writer(at.directory / "log.db")
    number, head = database.rows(
        db,
        "SELECT stream_no, head FROM streams WHERE peer=? ORDER BY ordinal DESC LIMIT 1",
        parse_base32(of, "peer"),
    )[0]
    with db:
        db.execute("DELETE FROM events WHERE stream_no=? AND sequence<?", (number, head))
    db.close()


def apart(mesh: Mesh, peer: RunningPeer) -> list[str]:
    """Return what a peer says of streams with two histories."""
    return [p for p in mesh.status(peer)["problems"] if p.startswith("two histories")]


def rewrite_last_event(at: RunningPeer, of: str) -> None:
    """Put another event at the end of a peer's stream, as true to its own hashes as the one that was there."""
    db = database.open_writer(at.directory / "log.db")
    number, last = database.rows(
        db, "SELECT stream_no, head FROM streams WHERE peer=?", parse_base32(of, "peer")
    )[0]
    local, header_bytes, payload, before = database.rows(
        db,
        "SELECT e.local, e.header, e.payload, b.hash FROM events e JOIN events b"
        " ON b.stream_no=e.stream_no AND b.sequence=e.sequence-1 WHERE e.stream_no=? AND e.sequence=?",
        *(number, last),
    )[0]
    h, salt = parse_header(header_bytes), bytes(SALT_BYTES)
    event = seal(h.stream, h.sequence, h.hlc, h.kind, h.tenant, h.actor, payload, salt, before)
    with db:
        db.execute(
            "UPDATE events SET header=?, salt=?, hash=? WHERE local=?",
            (event.header_bytes, salt, event.hash, local),
        )
        db.execute("UPDATE streams SET head_hash=? WHERE stream_no=?", (event.hash, number))
    db.close()
