"""`hyphae up` with real processes: ready, restarted, stopped, killed; and the commands that talk to it."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from node.data_directory import MeshDirectory
from tests.support.hyphae_command import Home, Up, eventually, running_up, secrets_in
from tests.support.places import short_directory


@pytest.fixture
def home() -> Iterator[Home]:
    with short_directory() as root:
        yield Home(root)


@pytest.fixture(scope="module")
def mesh() -> Iterator[Up]:
    """One mesh of two peers for the tests that leave it as it was."""
    first = next(p for p in range(20000, 60000, 7) if free(p) and free(p + 1))
    with (
        short_directory() as root,
        running_up(Home(root), "--peers", "2", "--http-port", str(first)) as up,
    ):
        yield up


def nothing_is_left(home: Home) -> None:
    eventually(lambda: home.processes() == [], "every process has ended", timeout_s=10)
    mesh = MeshDirectory(home.data)
    left = [mesh.up_file, mesh.invitation, *(p.run_file for p in mesh.peers())]
    assert [p for p in left if p.exists()] == []


def verified(home: Home) -> list[dict[str, Any]]:
    """Return what `hyphae log verify` says of each peer, which is that all is well."""
    peers: list[dict[str, Any]] = home.json("log", "verify")["peers"]
    return peers


def well(home: Home) -> bool:
    """Tell whether `hyphae status` finds nothing wrong; while something is, it ends with exit code 1."""
    process = home.start("status", "--json")
    out, _ = process.communicate(timeout=60)
    return process.returncode == 0 and json.loads(out)["state"] == "ok"


class TestAMeshThatIsReady:
    def test_the_line_that_it_prints_holds_what_scripts_need(self, mesh: Up) -> None:
        ready = mesh.ready
        assert list(ready) == ["ready", "peers", "nats_url", "admin_key", "agent_key"]
        assert [list(p) for p in ready["peers"]] == [["peer_id", "mcp_url", "rest_url"]] * 2
        for peer in ready["peers"]:
            assert peer["mcp_url"] == peer["rest_url"] + "/mcp"
            with urllib.request.urlopen(f"{peer['rest_url']}/healthz") as answer:
                assert answer.status == 200

    def test_ports_count_up_from_the_given_one(self, mesh: Up) -> None:
        first, second = (int(p["rest_url"].rpartition(":")[2]) for p in mesh.ready["peers"])
        assert str(first) in mesh.arguments
        assert second == first + 1

    def test_the_keys_that_it_prints_lie_in_files_for_their_owner_only(self, mesh: Up) -> None:
        directory = MeshDirectory(mesh.home.data)
        for path, name in ((directory.operator_key, "admin_key"), (directory.agent_key, "agent_key")):
            assert path.read_text().strip() == mesh.ready[name]
            assert path.stat().st_mode & 0o777 == 0o600

    def test_no_secret_is_in_an_argument_or_a_variable_of_any_process(self, mesh: Up) -> None:
        processes = mesh.home.processes()
        assert len(processes) >= 3
        for process in processes:
            seen = [*process.cmdline(), *process.environ().values()]
            for secret in secrets_in(mesh.ready):
                assert not [part for part in seen if secret in part]

    def test_no_secret_is_in_a_log(self, mesh: Up) -> None:
        for path in (*MeshDirectory(mesh.home.data).logs.iterdir(), mesh.home.data / "nats" / "nats.log"):
            text = path.read_text()
            assert [s for s in secrets_in(mesh.ready) if s in text] == []

    def test_everything_is_readable_by_its_owner_only(self, mesh: Up) -> None:
        open_to_others = [p for p in mesh.home.data.rglob("*") if p.lstat().st_mode & 0o077]
        assert [p for p in open_to_others if not p.is_socket()] == []

    def test_nothing_is_written_outside_the_data_and_configuration_directories(self, mesh: Up) -> None:
        mesh.home.run("store", "Nothing is written elsewhere", "--type", "Fact")
        ours = {"data", "config", "shop", "web", "broken", "writer.key"}
        assert {p.name for p in mesh.home.root.iterdir()} <= ours

    def test_a_second_one_in_the_same_directory_is_refused_with_the_pid_of_the_first(self, mesh: Up) -> None:
        said = mesh.home.run("up", "--http-port", "0", code=1)
        assert f"is in use by process {mesh.process.pid} (hyphae up" in said

    def test_a_peer_of_it_cannot_be_run_beside_it(self, mesh: Up) -> None:
        said = mesh.home.run("node", "--data-dir", str(mesh.home.data / "peer-1"), "--no-nats", code=1)
        assert "is in use by process" in said

    def test_a_peer_of_it_is_no_directory_for_another_mesh(self, mesh: Up) -> None:
        said = mesh.home.run("up", "--detach", "--data-dir", str(mesh.home.data / "peer-1"), code=1)
        assert "is in use by process" in said

    def test_a_peer_of_it_is_not_stopped_alone(self, mesh: Up) -> None:
        said = mesh.home.run("down", "--data-dir", str(mesh.home.data / "peer-2"), code=1)
        assert f"is kept running by process {mesh.process.pid} (hyphae up)" in said

    def test_status_shows_both_peers(self, mesh: Up) -> None:
        status = mesh.home.json("status")
        assert (status["state"], status["members"], status["running"]) == ("ok", 2, True)
        assert {p["peer_id"] for p in status["peers"]} == {p["peer_id"] for p in mesh.ready["peers"]}

    def test_a_memory_stored_by_one_agent_is_found_and_arrives_at_another_peer(self, mesh: Up) -> None:
        home, second = mesh.home, ("--data-dir", str(mesh.home.data / "peer-2"))
        home.run("beacon", "place", "payment retries", *second)
        key_file = home.root / "writer.key"
        home.run("key", "issue", "--agent", "writer", "--out", str(key_file))
        writer = Home(home.root, {"HYPHAE_API_KEY_FILE": str(key_file)})
        stored = writer.json("store", "Payment retries stop after the third one", "--type", "Decision")
        arrived: list[str] = []

        def drained() -> bool:
            page = json.loads(home.run("inbox", "--json", *second))
            arrived.extend(d["node_id"] for d in page["diffs"])
            return bool(arrived)

        eventually(drained, "the memory is in the inbox on the other peer")
        assert arrived == [stored["node_id"]]
        assert home.json("inbox", *second)["diffs"] == []
        found = home.json("recall", "when do payment retries stop?", *second)
        assert stored["node_id"] in [r["node_id"] for r in found["results"]]

    def test_keys_are_listed_rotated_and_revoked(self, mesh: Up) -> None:
        issued = mesh.home.json("key", "issue", "--agent", "temporary", "--projects", "web:r,billing")
        assert issued["projects"] == {"web": "r", "billing": "rw"}
        rotated = mesh.home.json("key", "rotate", issued["id"])
        mesh.home.json("key", "revoke", rotated["id"])
        keys = {k["id"]: k for k in mesh.home.json("key", "list")["keys"]}
        assert all("revoked_at" in keys[k["id"]] for k in (issued, rotated))
        assert not any("key" in k for k in keys.values())
        revoked = Home(mesh.home.root, {"HYPHAE_API_KEY": rotated["key"]})
        assert "error: unauthenticated" in revoked.run("recall", "anything", code=5)

    def test_what_is_not_there_is_exit_code_3(self, mesh: Up) -> None:
        nobody = "00000000-0000-4000-8000-000000000000"
        assert "error: not_found" in mesh.home.run("beacon", "withdraw", nobody, code=3)
        assert "error: not_found" in mesh.home.run("key", "revoke", "a" * 16, code=3)

    def test_the_log_verifies_through_the_running_peers(self, mesh: Up) -> None:
        result = mesh.home.json("log", "verify")
        assert result["ok"] is True
        assert [p["name"] for p in result["peers"]] == ["peer-1", "peer-2"]

    def test_a_rebuild_is_refused_while_the_peers_run(self, mesh: Up) -> None:
        assert "is in use by process" in mesh.home.run("node", "rebuild", code=1)

    def test_the_tail_shows_what_happened(self, mesh: Up) -> None:
        kinds = [json.loads(line)["kind"] for line in mesh.home.run(*TAIL).splitlines()]
        assert "PeerJoined" in kinds

    def test_an_invitation_is_printed_alone_on_stdout(self, mesh: Up) -> None:
        assert mesh.home.run("peer", "invite").startswith("hyj_")
        assert len(mesh.home.run("peer", "invite").splitlines()) == 1

    def test_an_invitation_that_leads_to_loopback_says_whom_it_is_good_for(self, mesh: Up) -> None:
        out, said = mesh.home.start("peer", "invite").communicate(timeout=60)
        assert out.startswith("hyj_")
        assert "Only for this machine" in said


TAIL = ("tail", "--after", "0", "--no-follow", "--json")


class TestConnectingAClient:
    def test_init_gives_the_client_a_key_of_its_own_and_keeps_it(self, mesh: Up) -> None:
        project = mesh.home.root / "shop"
        project.mkdir()
        (project / ".mcp.json").write_text('{\n  "mcpServers": {\n    "other": {"command": "x"}\n  }\n}\n')
        init = ("init", "--client", "claude-code", "--directory", str(project))
        first, second = mesh.home.json(*init), mesh.home.json(*init)
        assert (first["agent"], first["key_issued"], first["changed"]) == ("claude-code@shop", True, True)
        assert (second["key_id"], second["key_issued"], second["changed"]) == (first["key_id"], False, False)
        text = (project / ".mcp.json").read_text()
        entry = json.loads(text)["mcpServers"]["memory"]
        key = Path(entry["env"]["HYPHAE_API_KEY_FILE"]).read_text().strip()
        assert key.startswith(f"hyp_{first['key_id']}_")
        assert key not in text
        assert entry["args"][-2:] == ["mcp", "serve"]
        assert Path(entry["command"]).is_absolute()
        assert json.loads(text)["mcpServers"]["other"] == {"command": "x"}

    def test_init_makes_no_mesh_of_its_own_where_one_is_named_over_nats(self, mesh: Up) -> None:
        with short_directory() as root:
            distant = Home(root, {"HYPHAE_NATS_URL": "nats://gateway:secret@127.0.0.1:9"})
            said = distant.run("init", "--client", "cursor", "--directory", str(root), code=2)
            assert "keys are not issued over NATS" in said
            assert "secret" not in said
            assert not distant.data.exists()

    def test_what_was_replaced_says_so(self, mesh: Up) -> None:
        old = mesh.home.json("store", "We deploy on Fridays.", "--type", "Decision")["node_id"]
        store = ("store", "We deploy on Mondays.", "--type", "Decision", "--supersedes", old[:8])
        new = mesh.home.json(*store)["node_id"]
        assert f"(replaced by {new[:8]}) We deploy on Fridays." in mesh.home.run("recall", old)

    def test_a_key_that_was_revoked_is_replaced(self, mesh: Up) -> None:
        project = mesh.home.root / "web"
        project.mkdir()
        init = ("init", "--client", "cursor", "--directory", str(project))
        first = mesh.home.json(*init)
        mesh.home.json("key", "revoke", first["key_id"])
        second = mesh.home.json(*init)
        assert second["key_issued"] is True
        assert second["key_id"] != first["key_id"]
        assert second["key_file"] == first["key_file"]

    def test_a_file_that_is_not_json_stays_and_no_key_is_issued(self, mesh: Up) -> None:
        project = mesh.home.root / "broken"
        project.mkdir()
        (project / ".mcp.json").write_text("{oops")
        before = len(mesh.home.json("key", "list")["keys"])
        said = mesh.home.run("init", "--client", "claude-code", "--directory", str(project), code=2)
        assert "is not JSON" in said
        assert (project / ".mcp.json").read_text() == "{oops"
        assert len(mesh.home.json("key", "list")["keys"]) == before

    def test_the_http_entry_names_a_peer_of_the_running_mesh(self, mesh: Up) -> None:
        entry = mesh.home.json("mcp", "print-config", "--client", "claude-code", "--http")
        assert entry["mcpServers"]["memory"]["url"] == mesh.ready["peers"][0]["mcp_url"]


class TestStopping:
    def test_a_signal_stops_everything_and_the_next_start_has_the_same_data_and_keys(
        self, home: Home
    ) -> None:
        with running_up(home, "--peers", "2") as up:
            home.run("store", "The cache is warmed at five in the morning", "--type", "Fact")
            code, out, _ = up.stop(signal.SIGTERM)
            assert (code, out) == (0, "")
            nothing_is_left(home)
            first = up.ready
        with running_up(home) as up:
            again = up.ready
            assert [p["peer_id"] for p in again["peers"]] == [p["peer_id"] for p in first["peers"]]
            assert (again["admin_key"], again["agent_key"]) == (first["admin_key"], first["agent_key"])
            assert home.json("recall", "when is the cache warmed?")["results"][0]["cell_type"] == "Fact"
            code, out, _ = up.stop(signal.SIGINT)
            assert (code, out) == (0, "")
            nothing_is_left(home)

    def test_a_signal_during_the_start_leaves_nothing_behind(self, home: Home) -> None:
        up = Up(home, "--peers", "2")
        try:
            peer = MeshDirectory(home.data).peer(1)
            eventually(peer.path.exists, "the first peer is being started")
            code, out, err = up.stop(signal.SIGINT)
            assert (code, out) == (0, ""), err
            nothing_is_left(home)
        finally:
            up.process.kill()
            home.down()

    def test_when_the_supervisor_is_killed_its_children_end_too(self, home: Home) -> None:
        with running_up(home) as up:
            up.process.kill()
            up.process.wait()
            eventually(lambda: home.processes() == [], "peers and NATS have ended", timeout_s=15)
        with running_up(home) as up:
            assert home.json("status")["state"] == "ok"

    def test_a_key_whose_file_was_put_elsewhere_does_not_keep_it_from_starting(self, home: Home) -> None:
        with running_up(home) as up:
            up.stop()
        MeshDirectory(home.data).operator_key.unlink()
        with running_up(home) as up:
            assert up.ready["admin_key"] is None
            assert "operator.key is not there" in home.run("up", "--detach", "--http-port", "0")
            assert home.json("status")["state"] == "ok"

    def test_down_stops_what_runs_detached(self, home: Home) -> None:
        try:
            first = home.json("up", "--detach", "--http-port", "0")
            assert home.json("up", "--detach", "--http-port", "0") == first
            stopped = home.json("down")["stopped"]
            assert [s["role"] for s in stopped] == ["hyphae up"]
            nothing_is_left(home)
        finally:
            home.down()

    def test_a_detached_start_that_fails_says_why(self, home: Home) -> None:
        home.data.write_text("a file")
        assert "is a file, not a directory" in home.run("up", "--detach", code=2)


class TestWhatDies:
    def test_a_killed_peer_and_a_killed_nats_server_come_back_at_their_places(self, home: Home) -> None:
        with running_up(home, "--peers", "2") as up:
            mesh = MeshDirectory(home.data)
            before = mesh.peer(2).running()
            assert before is not None
            (nats,) = [p for p in home.processes() if "nats-server" in p.name()]
            os.kill(before.pid, signal.SIGKILL)
            nats.kill()
            eventually(
                lambda: (r := mesh.peer(2).running()) is not None and r.pid != before.pid, "it is back"
            )
            after = mesh.peer(2).running()
            assert after is not None
            assert (after.http_url, after.peer_id) == (before.http_url, before.peer_id)
            eventually(lambda: _is_well(home), "both peers hear each other again")
            _, _, err = up.stop()
            assert "peer-2 ended with exit code -9; starting it again in 0.2 s" in err
            assert "nats-server ended with exit code -9" in err

    def test_the_first_peer_without_its_log_has_all_of_it_back_from_the_other(self, home: Home) -> None:
        with running_up(home, "--peers", "2") as up:
            home.run("store", "The cache is warmed at five in the morning", "--type", "Fact")
            first = secrets_in(up.ready)[1:]
            eventually(lambda: len({p["events"] for p in verified(home)}) == 1, "both peers hold it")
            up.stop()
        before = verified(home)[1]["events"]
        MeshDirectory(home.data).peer(1).log.unlink()
        with running_up(home) as up:
            assert secrets_in(up.ready)[1:] == first
            eventually(lambda: {p["events"] for p in verified(home)} == {before}, "every stream is back")
            eventually(lambda: well(home), "nothing is lost any more")
            assert home.json("recall", "when is the cache warmed?")["results"][0]["cell_type"] == "Fact"
            assert home.json("status")["members"] == 2

    @pytest.mark.parametrize("number", [1, 2])
    def test_a_directory_that_was_removed_is_filled_by_a_new_peer_of_the_same_mesh(
        self, home: Home, number: int
    ) -> None:
        with running_up(home, "--peers", "3") as up:
            home.run("store", "The cache is warmed at five in the morning", "--type", "Fact")
            before = up.ready
            eventually(lambda: len({p["events"] for p in verified(home)}) == 1, "all peers hold it")
            up.stop()
        gone = MeshDirectory(home.data).peer(number).path
        shutil.rmtree(gone)
        with running_up(home) as up:
            assert secrets_in(up.ready)[1:] == secrets_in(before)[1:]
            ids = [[p["peer_id"] for p in ready["peers"]] for ready in (before, up.ready)]
            assert [k for k in (1, 2, 3) if ids[0][k - 1] != ids[1][k - 1]] == [number]
            found = home.json("recall", "when is the cache warmed?", "--data-dir", str(gone))["results"]
            assert [r["cell_type"] for r in found] == ["Fact"]

    def test_one_that_keeps_dying_stops_everything_and_is_named(self, home: Home) -> None:
        with running_up(home) as up:
            peer = MeshDirectory(home.data).peer(1)
            run = peer.running()
            assert run is not None
            peer.identity.write_text("{}")
            os.kill(run.pid, signal.SIGKILL)
            code, _, err = up.ended()
            assert code == 4
            assert "peer-1 died 5 times within 60 s, so everything was stopped" in err.splitlines()[-1]
            assert "error: corrupted: " in err.splitlines()[-1]
            nothing_is_left(home)


class TestPortsAndDirectories:
    def test_a_port_that_is_taken_is_refused_with_its_holder_and_nothing_is_made(self, home: Home) -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            said = home.run("up", "--http-port", str(port), code=1)
        assert f"port {port} of 127.0.0.1, for peer-1, is taken by process {os.getpid()}" in said
        assert "--http-port" in said
        assert not home.data.exists()

    def test_a_peer_alone_runs_without_nats_and_is_administered_offline_afterwards(self, home: Home) -> None:
        process = home.start("node", "--no-nats", "--json")
        try:
            assert process.stdout is not None
            ready = json.loads(process.stdout.readline())
            assert ready["ready"] is True
            stored = home.json("store", "Alone but not lost", "--type", "Fact")
            assert home.json("recall", stored["node_id"])["results"][0]["content"] == "Alone but not lost"
            home.run("down")
            assert process.wait(10) == 0
        finally:
            process.kill()
            process.communicate()
        assert home.json("key", "issue", "--agent", "offline")["key"].startswith("hyp_")
        assert home.json("log", "verify")["ok"] is True
        assert home.json("node", "rebuild")["peers"][0]["name"] == "data"
        assert "stopped" in home.start("status").communicate()[0]

    def test_a_bad_invitation_ends_the_start_with_a_reason(self, home: Home) -> None:
        said = home.run("node", "--join", "hyj_nonsense", code=2)
        assert said.startswith("error: invalid: ")
        with contextlib.suppress(OSError):
            assert not (home.data / "run.json").exists()


def free(port: int) -> bool:
    with socket.socket() as s:
        try:
            s.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _is_well(home: Home) -> bool:
    """Tell whether both peers are up; until they are, `status` says that it is degraded with its exit code."""
    process = home.start("status", "--json")
    said = process.communicate(timeout=60)[0]
    return process.returncode == 0 and json.loads(said)["peers_up"] == 2
