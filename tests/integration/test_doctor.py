"""`hyphae doctor`, `session` and `scene` against real peers: what is well, what hangs, what was broken."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from node.data_directory import MeshDirectory
from tests.support.hyphae_command import Home, Up, running_up, secrets_in
from tests.support.places import short_directory
from tests.support.running_mesh import running_peer


@pytest.fixture(scope="module")
def mesh() -> Iterator[Up]:
    with short_directory() as root, running_up(Home(root), "--peers", "2") as up:
        yield up


def diagnosis(home: Home, *arguments: str, ok: bool = True) -> dict[str, Any]:
    """Return what doctor prints with --json; the exit code must say the same."""
    process = home.start("doctor", "--json", *arguments, cwd=home.root)
    out, err = process.communicate(timeout=90)
    result: dict[str, Any] = json.loads(out)
    assert err == ""
    assert (process.returncode, result["ok"]) == ((0, True) if ok else (1, False)), result
    return result


def of(result: dict[str, Any], name: str) -> list[dict[str, str]]:
    """Return the findings of one check."""
    return [c for c in result["checks"] if c["name"] == name]


def problems(result: dict[str, Any]) -> set[str]:
    return {c["name"] for c in result["checks"] if c["verdict"] == "problem"}


def files(path: Path) -> dict[str, str]:
    """Return a hash of each file; the pages that SQLite shares between processes are no file of ours."""
    found = (p for p in path.rglob("*") if p.is_file() and not p.name.endswith("-shm"))
    return {str(p): hashlib.sha256(p.read_bytes()).hexdigest() for p in found}


class TestWhereAllIsWell:
    def test_every_check_of_a_running_mesh_is_ok(self, mesh: Up) -> None:
        result = diagnosis(mesh.home)
        assert [c for c in result["checks"] if c["verdict"] != "ok"] == []
        assert [c["message"].split(" ")[0] for c in of(result, "peers")] == ["peer-1", "peer-2"]
        assert "2 of 2 peers up" in of(result, "mesh")[0]["message"]
        assert "of agent agent" in of(result, "key")[0]["message"]

    def test_people_get_a_line_for_each_check_a_last_word_and_no_secret(self, mesh: Up) -> None:
        said = mesh.home.run("doctor", "--deep")
        lines = said.splitlines()
        assert lines[-1] == "All is well."
        assert all(line.startswith("ok ") for line in lines[:-1])
        assert [s for s in secrets_in(mesh.ready) if s in said] == []

    def test_a_key_that_was_revoked_is_told_with_its_id(self, mesh: Up) -> None:
        issued = mesh.home.json("key", "issue", "--agent", "doctor-1", "--projects", "billing:r")
        holder = Home(mesh.home.root, {"HYPHAE_API_KEY": issued["key"]})
        assert "billing:r" in of(diagnosis(holder), "key")[0]["message"]
        mesh.home.json("key", "revoke", issued["id"])
        (found,) = of(diagnosis(holder, ok=False), "key")
        assert (
            f"The key {issued['id']} in HYPHAE_API_KEY is not accepted: it was revoked at" in found["message"]
        )
        assert issued["key"] not in found["message"]

    def test_the_entry_that_init_wrote_is_followed_to_its_key(self, mesh: Up) -> None:
        made = mesh.home.json("init", "--client", "claude-code", "--directory", str(mesh.home.root))
        assert "what is named there exists" in of(diagnosis(mesh.home), "clients")[0]["message"]
        mesh.home.json("key", "revoke", made["key_id"])
        (found,) = of(diagnosis(mesh.home, ok=False), "clients")
        assert found["mend"] == f"hyphae init --client claude-code --file {made['file']}"
        mesh.home.run("init", "--client", "claude-code", "--file", made["file"])
        assert of(diagnosis(mesh.home), "clients")[0]["verdict"] == "ok"

    def test_a_peer_that_hangs_is_named_and_the_diagnosis_ends(self, mesh: Up) -> None:
        run = MeshDirectory(mesh.home.data).peer(2).running()
        assert run is not None
        os.kill(run.pid, signal.SIGSTOP)
        try:
            result = diagnosis(mesh.home, ok=False)
        finally:
            os.kill(run.pid, signal.SIGCONT)
        assert problems(result) == {"peers"}
        assert f"peer-2 (process {run.pid}) does not answer" in of(result, "peers")[0]["message"]

    def test_a_wrong_option_is_exit_code_2(self, mesh: Up) -> None:
        assert "No such option" in mesh.home.run("doctor", "--bogus", code=2)


class TestWhereNothingRuns:
    def test_a_mesh_that_was_stopped_is_looked_at_without_changing_a_byte(self) -> None:
        with short_directory() as root:
            home = Home(root)
            with running_up(home) as up:
                home.run("store", "The cache is warmed at five in the morning", "--type", "Fact")
                up.stop()
                before = files(root)
                result = diagnosis(home, "--deep")
                assert "vectors in" in of(result, "index")[0]["message"]
                assert files(root) == before
                assert not (home.data / "peer-1" / "log.db-shm").exists()

    def test_a_peer_that_was_killed_is_looked_at_without_changing_a_byte(self) -> None:
        with running_peer() as peer:
            peer.agent()("store", content="The cache is emptied at noon", cell_type="Fact")
            peer.kill()
            before = files(peer.directory)
            result = diagnosis(Home(peer.root), "--data-dir", str(peer.directory))
            assert "was killed, and the next start takes over" in of(result, "lock")[0]["message"]
            assert "as written" in of(result, "log")[0]["message"]
            assert files(peer.directory) == before

    def test_an_empty_machine_is_well_and_stays_empty(self) -> None:
        with short_directory() as root:
            diagnosis(Home(root))
            assert list(root.iterdir()) == []

    def test_everything_is_looked_at_although_the_settings_file_is_garbage(self) -> None:
        with short_directory() as root:
            home = Home(root, {"HYPHAE_MODEL_DIR": str(root / "none")})
            home.config.mkdir()
            (home.config / "hyphae.toml").write_bytes(b"\xff\xfe[[[")
            home.data.write_text("a file")
            result = diagnosis(home, ok=False)
            assert problems(result) == {"settings", "data", "model", "gateway"}
            assert all(c["mend"] for c in result["checks"] if c["verdict"] == "problem")


class TestSessions:
    def test_a_session_is_opened_listed_and_closed(self, mesh: Up) -> None:
        opened = mesh.home.json("session", "open", "--project", "billing", "--title", "retries")
        mine = [s for s in mesh.home.json("session", "list")["sessions"] if s["project"] == "billing"]
        assert [(s["session_id"], s["title"]) for s in mine] == [(opened["session_id"], "retries")]
        assert "retries" in mesh.home.run("session", "list", "--project", "billing")
        closed = mesh.home.json("session", "close", opened["session_id"])
        assert closed["session_id"] == opened["session_id"]
        assert "No open sessions" in mesh.home.run("session", "list", "--project", "billing")

    def test_people_are_told_of_sessions_that_are_still_open(self, mesh: Up) -> None:
        first = mesh.home.json("session", "open", "--project", "web", "--title", "the first")
        said = mesh.home.run("session", "open", "--project", "web")
        assert "1 other session of yours still open here" in said
        assert first["session_id"] in said
        assert f"closed {first['session_id']}" in mesh.home.run("session", "close", first["session_id"])

    def test_a_session_that_is_not_there_is_exit_code_3(self, mesh: Up) -> None:
        nobody = "00000000-0000-4000-8000-000000000000"
        assert "error: not_found" in mesh.home.run("session", "close", nobody, code=3)


class TestScenes:
    TEXTS = (
        "We retry a payment three times, because the bank drops one request in fifty",
        "Retries of payments wait ten seconds, because the bank's switch needs eight",
        "A payment is never retried without its idempotency key, because guests were charged twice",
        "Payment retries moved to the queue, because a restart lost those in memory",
    )

    def test_memories_become_scenes_that_are_listed_and_shown(self, mesh: Up) -> None:
        for text in self.TEXTS:
            mesh.home.run("store", text, "--type", "Decision", "--project", "payments")
        made = mesh.home.json("scene", "consolidate", "--project", "payments")
        assert (made["state"], made["project"]) == ("done", "payments")
        assert made["created"] == made["scenes"] >= 1
        scenes = mesh.home.json("scene", "list", "--project", "payments")["scenes"]
        assert len(scenes) == made["scenes"]
        shown = mesh.home.json("scene", "show", scenes[0]["scene_id"])["scene"]
        assert shown["title"] == scenes[0]["title"]
        assert {m["content"] for m in shown["members"]} <= set(self.TEXTS)
        again = mesh.home.run("scene", "consolidate", "--project", "payments")
        assert f"0 new, 0 changed, {made['scenes']} as before" in again
        assert scenes[0]["title"] in mesh.home.run("scene", "list")
        assert shown["summary"] in mesh.home.run("scene", "show", scenes[0]["scene_id"])

    def test_where_nothing_was_consolidated_the_command_is_named(self, mesh: Up) -> None:
        said = mesh.home.run("scene", "list", "--project", "empty")
        assert said == "No scenes. Make them: hyphae scene consolidate\n"
        unknown = "6f9619ff-8b86-d011-b42d-00cf4fc964ff"
        assert "error: not_found" in mesh.home.run("scene", "show", unknown, code=3)


class TestUpAndDown:
    def test_where_another_number_of_peers_runs_it_is_said_why(self, mesh: Up) -> None:
        process = mesh.home.start("up", "--detach", "--peers", "3", "--json")
        out, err = process.communicate(timeout=60)
        assert len(json.loads(out)["peers"]) == 2
        assert "It was running already, with 2 peers" in err

    def test_init_over_http_says_that_nothing_starts_the_peer(self, mesh: Up) -> None:
        folder = mesh.home.root / "over-http"
        folder.mkdir()
        said = mesh.home.run("init", "--client", "cursor", "--http", "--directory", str(folder))
        assert "keep `hyphae up` running" in said

    def test_the_advice_of_a_conflict_can_be_followed(self, mesh: Up) -> None:
        peer = MeshDirectory(mesh.home.data).peer(2).path
        said = mesh.home.run("node", "--no-nats", "--data-dir", str(peer), code=1)
        assert f"`hyphae down --data-dir {mesh.home.data}`" in said


def test_an_address_that_swallows_everything_is_given_up() -> None:
    with short_directory() as root, socket.socket() as swallowing:
        swallowing.bind(("127.0.0.1", 0))
        swallowing.listen()
        url = f"http://127.0.0.1:{swallowing.getsockname()[1]}"
        result = diagnosis(Home(root, {"HYPHAE_URL": url}), ok=False)
        assert {"peers", "key"} <= problems(result)
