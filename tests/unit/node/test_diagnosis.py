"""The checks of `hyphae doctor` on real directories in each bad state, and their verdicts as plain functions."""

from __future__ import annotations

import asyncio
import hashlib
import json
import resource
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from node.client_config import CLIENTS, http_entry, stdio_entry
from node.data_directory import PeerDirectory
from node.diagnosis import checks, clients, directory, environment, keys, peers, programs, stored
from node.diagnosis.checks import CHECKS, Check, run_checks
from node.diagnosis.findings import Finding, well
from node.diagnosis.peer_look import Door, SeenPeer
from node.diagnosis.surroundings import Surroundings
from node.directory_lock import DirectoryLock
from node.heads_file import HeadsFile, RecordedHead
from node.private_files import make_directory, write_private
from node.version import version
from tests.support.open_service import open_peer
from tests.support.places import as_ordinary_user, short_directory

KEY = "hyp_abcdefgh23_" + "a" * 52
WELL = {"state": "ok", "problems": [], "version": "1", "cells": 7, "nats": "up", "peers_up": 2}


def around(root: Path, *, given: bool = True, **variables: str) -> Surroundings:
    """Return a user of an empty machine below `root`."""
    environ = {"HYPHAE_CONFIG_DIR": str(root / "config"), "PATH": "/usr/bin:/bin", **variables}
    (root / "project").mkdir(exist_ok=True)
    data = root / "data" if given else None
    if not given:
        environ.setdefault("HYPHAE_DATA_DIR", str(root / "data"))
    return Surroundings(data, environ, root / "project", root)


def verdicts(found: Sequence[Finding]) -> list[str]:
    return [f.verdict for f in found]


def the_one(found: Sequence[Finding], verdict: str, *words: str) -> Finding:
    """Return the only finding, which must have this verdict and say these words."""
    assert verdicts(found) == [verdict], found
    said = f"{found[0].message} | {found[0].mend}"
    assert [w for w in words if w not in said] == [], said
    assert found[0].verdict == "ok" or found[0].mend
    return found[0]


@pytest.fixture
def open_root() -> Iterator[Path]:
    """A directory that another user reaches, unlike `tmp_path`."""
    with short_directory() as root:
        root.chmod(0o755)
        yield root


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of a peer that stored ten memories and was stopped cleanly; to be copied."""
    path = tmp_path_factory.mktemp("kept") / "data"

    async def fill() -> None:
        async with open_peer(path) as peer:
            for n in range(10):
                await peer.call("store", {"content": f"Harbour {n} is dredged in May.", "cell_type": "Fact"})

    asyncio.run(fill())
    return path


@pytest.fixture
def stopped(kept: Path, tmp_path: Path) -> PeerDirectory:
    """The data directory of a stopped peer, for one test to break."""
    for source in (p for p in kept.rglob("*") if p.is_file()):
        target = tmp_path / "data" / source.relative_to(kept)
        make_directory(target.parent)
        write = target.write_bytes
        write(source.read_bytes())
        target.chmod(0o600)
    (tmp_path / "data").chmod(0o700)
    return PeerDirectory(tmp_path / "data")


def contents(path: Path) -> dict[str, tuple[int, str]]:
    return {
        str(p): (p.stat().st_mtime_ns, hashlib.sha256(p.read_bytes()).hexdigest())
        for p in path.rglob("*")
        if p.is_file()
    }


class TestTheEnvironment:
    @pytest.mark.parametrize(
        ("running", "system", "installed", "verdict"),
        [
            ((3, 11), "linux", "1", "ok"),
            ((3, 13), "darwin", "1", "ok"),
            ((3, 10), "linux", "1", "problem"),
            ((3, 14), "linux", "1", "warning"),
            ((3, 12), "win32", "1", "problem"),
            ((3, 12), "linux", "0", "warning"),
        ],
    )
    def test_python_and_system_are_judged(
        self, running: tuple[int, int], system: str, installed: str, verdict: str
    ) -> None:
        assert environment.judge_python(running, system, installed).verdict == verdict

    def test_few_open_files_are_a_warning(self) -> None:
        assert environment.judge_open_files(256).verdict == "warning"
        assert environment.judge_open_files(resource.RLIM_INFINITY).verdict == "ok"

    def test_a_settings_file_of_garbage_is_named(self, tmp_path: Path) -> None:
        make_directory(tmp_path / "config")
        (tmp_path / "config" / "hyphae.toml").write_bytes(b"\xff\x00 = [")
        the_one(environment.settings(around(tmp_path)), "problem", "config/hyphae.toml", "is not TOML")

    def test_every_wrong_value_is_named_and_a_slip_of_the_pen_is_a_warning(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        wrong = {"HYPHAE_HTTP_PORT": "99999", "HYPHAE_URL": "ftp://x", "HYPHAE_HTTP_PROT": "1"}
        for name, value in wrong.items():
            monkeypatch.setenv(name, value)
        make_directory(tmp_path / "config")
        (tmp_path / "config" / "hyphae.toml").write_text("pears = 3\n")
        found = environment.settings(around(tmp_path, given=True, **wrong))
        assert verdicts(found) == ["problem", "problem", "problem", "warning"]
        text = " ".join(f.message for f in found)
        for part in ("did you mean peers", "HYPHAE_HTTP_PORT is", "HYPHAE_URL is", "HYPHAE_HTTP_PROT is no"):
            assert part in text

    def test_a_settings_file_that_cannot_be_read_is_a_problem(self, open_root: Path) -> None:
        make_directory(open_root / "config")
        (open_root / "config" / "hyphae.toml").write_text("peers = 3\n")
        s = around(open_root)
        (open_root / "config").chmod(0)
        with as_ordinary_user():
            found = environment.settings(s)
        (open_root / "config").chmod(0o700)
        the_one(found, "problem", "hyphae.toml cannot be read")


class TestTheDirectory:
    def test_one_that_is_not_there_yet_is_well(self, tmp_path: Path) -> None:
        the_one(directory.data_directory(around(tmp_path)), "ok", "is not there yet")

    def test_a_file_in_its_place_is_a_problem(self, tmp_path: Path) -> None:
        (tmp_path / "data").write_text("x")
        the_one(directory.data_directory(around(tmp_path)), "problem", "is a file")

    @pytest.mark.parametrize(("mode", "said"), [(0o000, "not writable"), (0o300, "cannot be looked at")])
    def test_one_that_cannot_be_read_is_a_problem_and_no_other_check_fails_on_it(
        self, open_root: Path, mode: int, said: str
    ) -> None:
        (open_root / "data").mkdir()
        s = around(open_root)
        with as_ordinary_user(open_root / "data"):
            (open_root / "data").chmod(mode)
            found = directory.data_directory(s)
            others = [f for look in (directory.lock, stored.log, stored.index, keys.key) for f in look(s)]
            (open_root / "data").chmod(0o700)
        the_one(found, "problem", said, "chmod")
        assert set(verdicts(others)) == {"ok"}

    def test_what_others_may_read_is_told_with_the_command(self, stopped: PeerDirectory) -> None:
        s = around(stopped.path.parent)
        stopped.path.chmod(0o755)
        (stopped.secrets / "agent.key").chmod(0o644)
        found = directory.data_directory(s)
        assert [(f.verdict, f.mend) for f in found] == [
            ("warning", f"chmod 700 {stopped.path}"),
            ("problem", f"chmod 600 {stopped.secrets / 'agent.key'}"),
        ]

    def test_free_space_is_judged_against_the_watermark(self) -> None:
        megabyte = 2**20
        free = {10 * megabyte: "problem", 100 * megabyte: "warning", 9_000 * megabyte: "ok"}
        assert {n: directory.judge_room(Path("/d"), n).verdict for n in free} == free

    def test_the_holder_and_a_killed_former_holder_are_told(self, stopped: PeerDirectory) -> None:
        s = around(stopped.path.parent)
        with DirectoryLock.acquire(stopped.lock, "hyphae log verify"):
            the_one(directory.lock(s), "ok", "hyphae log verify")
            left = stopped.lock.read_bytes()
        stopped.lock.write_bytes(left)
        the_one(directory.lock(s), "ok", "was killed", "takes over")


class TestWhatIsStored:
    def test_a_sound_peer_is_well_and_nothing_is_changed(self, stopped: PeerDirectory) -> None:
        s = around(stopped.path.parent)
        before = contents(stopped.path)
        the_one(stored.formats(s), "ok", "Log format")
        the_one(stored.log(s), "ok", "events in", "as written")
        assert verdicts(stored.index(s)) == ["warning"]  # the kept one was made with another embedder
        assert contents(stopped.path) == before

    def test_nothing_stored_is_well(self, tmp_path: Path) -> None:
        for look in (stored.formats, stored.log, stored.index):
            the_one(look(around(tmp_path)), "ok", "Nothing is stored")

    @pytest.mark.parametrize("deep", [False, True])
    def test_a_flipped_byte_in_an_event_is_found(self, stopped: PeerDirectory, deep: bool) -> None:
        with sqlite3.connect(stopped.log) as db:
            db.execute("UPDATE events SET payload=zeroblob(length(payload)) WHERE local=5")
        s = around(stopped.path.parent)
        s.deep = deep
        the_one(stored.log(s), "problem", "is damaged at sequence", "hyphae log verify --data-dir")

    def test_a_log_that_ends_before_its_heads_file_says_is_a_problem(self, stopped: PeerDirectory) -> None:
        heads = HeadsFile(stopped.heads)
        assert heads.recorded is not None
        last = heads.recorded
        heads.record(RecordedHead(last.stream, last.sequence + 3, bytes(32)))
        heads.close()
        said = f"lost own events {last.sequence + 1} to {last.sequence + 3}"
        the_one(stored.log(around(stopped.path.parent)), "problem", said)

    def test_a_log_of_garbage_is_a_problem(self, stopped: PeerDirectory) -> None:
        stopped.log.write_bytes(b"no database" * 1000)
        s = around(stopped.path.parent)
        the_one(stored.formats(s), "problem", "cannot be read")
        the_one(stored.log(s), "problem", "cannot be read")

    def test_a_newer_format_and_a_damaged_identity_are_told(self, stopped: PeerDirectory) -> None:
        s = around(stopped.path.parent)
        with sqlite3.connect(stopped.log) as db:
            db.execute("PRAGMA user_version=99")
        the_one(stored.formats(s), "problem", "has format 99", "Upgrade hyphae-mesh")
        stopped.identity.write_text("{oops")
        the_one(stored.formats(s), "problem", "peer.json")

    def test_a_log_that_is_gone_is_a_warning(self, stopped: PeerDirectory) -> None:
        stopped.log.unlink()
        the_one(stored.formats(around(stopped.path.parent)), "warning", "has no log")

    def test_a_truncated_snapshot_is_a_warning_that_mends_itself(self, stopped: PeerDirectory) -> None:
        snapshot = stopped.index / "vectors.snapshot"
        snapshot.write_bytes(snapshot.read_bytes()[:100])
        the_one(stored.index(around(stopped.path.parent)), "warning", "is damaged", "the next start")


class TestPrograms:
    def test_the_model_is_loaded_and_embeds(self, tmp_path: Path) -> None:
        the_one(programs.model(around(tmp_path)), "ok", "384 dimensions", "ms")

    @pytest.mark.parametrize("content", [None, b"garbage"])
    def test_a_model_that_is_missing_or_garbage_is_named(self, tmp_path: Path, content: bytes | None) -> None:
        models = tmp_path / "models"
        models.mkdir()
        for name in ("model.onnx", "tokenizer.json"):
            if content is not None:
                (models / name).write_bytes(content)
        found = programs.model(around(tmp_path, HYPHAE_MODEL_DIR=str(models)))
        the_one(found, "problem", str(models))

    def test_a_nats_server_that_is_none_is_named(self, tmp_path: Path) -> None:
        the_one(programs.nats_server(around(tmp_path)), "ok", "nats-server 2.")
        named = around(tmp_path, HYPHAE_NATS_SERVER="/bin/true")
        the_one(programs.nats_server(named), "problem", "/bin/true", "HYPHAE_NATS_SERVER")
        missing = around(tmp_path, HYPHAE_NATS_SERVER="/none/nats-server")
        the_one(programs.nats_server(missing), "problem", "/none/nats-server")

    def test_the_gateway_lists_its_tools_and_starts_no_peer(self, tmp_path: Path) -> None:
        the_one(programs.gateway(around(tmp_path, given=False)), "ok", "lists 11 tools")
        assert not (tmp_path / "data").exists()

    def test_a_gateway_that_a_setting_keeps_from_starting_says_which(self, tmp_path: Path) -> None:
        found = programs.gateway(around(tmp_path, HYPHAE_CONFIG="/none/hyphae.toml"))
        the_one(found, "problem", "/none/hyphae.toml")

    def test_a_gateway_is_judged_by_its_answers_and_its_time(self) -> None:
        tools = {"id": 1, "result": {"tools": [{}] * 11}}
        out = json.dumps({"id": 0, "result": {"serverInfo": {}}}) + "\n" + json.dumps(tools)
        assert programs.judge_gateway(out, "", 0.2).verdict == "ok"
        assert programs.judge_gateway(out, "", 2.5).verdict == "warning"
        assert programs.judge_gateway(out.replace("[{}, ", "["), "", 0.2).verdict == "warning"
        assert programs.judge_gateway("no JSON", "error: x", 0.2).verdict == "problem"


class TestThePeers:
    def judged(self, **status: Any) -> list[Finding]:
        return list(peers.judge_peer(SeenPeer("p", Door("/s"), None, {**WELL, **status}), "stop", "1"))

    def test_no_peer_is_no_problem(self, tmp_path: Path) -> None:
        the_one(peers.peers(around(tmp_path)), "ok", "No peer runs here")
        the_one(peers.mesh(around(tmp_path)), "ok", "No peer answers")

    def test_complaints_of_a_peer_and_another_version_are_told(self) -> None:
        assert verdicts(self.judged()) == ["ok"]
        complaining = self.judged(problems=["a", "b"], state="degraded")
        assert verdicts(complaining) == ["problem", "problem", "ok"]
        assert verdicts(self.judged(version="2")) == ["warning", "ok"]

    def test_a_distant_peer_that_does_not_answer_is_a_problem(self, tmp_path: Path) -> None:
        s = around(tmp_path, given=False, HYPHAE_URL="http://127.0.0.1:9")
        the_one(peers.peers(s), "problem", "http://127.0.0.1:9", "HYPHAE_URL")
        wrong = around(tmp_path, given=False, HYPHAE_URL="http://user:hunter2@h")
        assert "hunter2" not in the_one(peers.peers(wrong), "problem", "no address of a peer").message

    def mesh(self, member: dict[str, Any], **status: Any) -> list[str]:
        members = ({"name": "a", "state": "up"}, {"name": "b", "state": "up", **member})
        seen = SeenPeer("p", Door("/s"), None, {**WELL, **status}, members)
        return [f.message for f in peers.judge_mesh(seen) if f.verdict == "warning"]

    def test_silent_members_lag_and_clocks_are_told(self) -> None:
        assert self.mesh({}) == []
        assert (
            "1 of 2 members are silent: b (heard 90 s ago)"
            in self.mesh({"state": "silent", "heard_ms_ago": 90_000})[0]
        )
        assert self.mesh({"state": "silent", "retired_at": "x"}) == []
        assert "lacks 5,000 events of b" in self.mesh({"missing_events": 5_000})[0]
        assert "clock of b is 7.5 s behind" in self.mesh({"clock_off_ms": -7_500})[0]
        assert "does not reach NATS" in self.mesh({}, nats="down")[0]

    def test_fewer_peers_than_stores_should_be_on_is_told(self) -> None:
        assert self.mesh({}, write_concern=2, peers_up=2) == []
        assert "on 2 peers and 1 can be reached" in self.mesh({}, write_concern=2, peers_up=1)[0]


class TestTheKey:
    def test_none_is_well_for_a_local_peer_and_a_problem_for_a_distant_one(self, tmp_path: Path) -> None:
        the_one(keys.key(around(tmp_path)), "ok", "No key is configured")
        distant = around(tmp_path, given=False, HYPHAE_URL="http://127.0.0.1:9")
        the_one(keys.key(distant), "problem", "HYPHAE_URL is set, and no key")

    def test_where_it_is_and_who_can_read_it_is_told_without_showing_it(self, tmp_path: Path) -> None:
        file = tmp_path / "my.key"
        write_private(file, KEY + "\n")
        s = around(tmp_path, HYPHAE_API_KEY_FILE=str(file))
        found = the_one(keys.key(s), "ok", "abcdefgh23", str(file), "no peer answers")
        file.chmod(0o644)
        open_ = the_one(keys.key(s), "problem", f"chmod 600 {file}")
        assert KEY not in found.message + open_.message

    @pytest.mark.parametrize("text", ["", "hyp_short", "two\nlines", KEY[:-1]])
    def test_a_file_that_holds_no_key_is_named(self, tmp_path: Path, text: str) -> None:
        file = tmp_path / "my.key"
        write_private(file, text)
        found = the_one(keys.key(around(tmp_path, HYPHAE_API_KEY_FILE=str(file))), "problem", str(file))
        assert not text or text not in found.message

    def test_a_file_that_does_not_exist_is_named(self, tmp_path: Path) -> None:
        the_one(keys.key(around(tmp_path, HYPHAE_API_KEY_FILE="/none/my.key")), "problem", "does not exist")

    def test_a_variable_that_is_no_key_is_not_shown(self, tmp_path: Path) -> None:
        found = the_one(keys.key(around(tmp_path, HYPHAE_API_KEY="hyp_" + "z" * 60)), "problem")
        assert "zzz" not in found.message


class TestTheClients:
    def entry(self, root: Path, value: Any) -> Surroundings:
        s = around(root)
        (s.here / ".mcp.json").write_text(json.dumps({"mcpServers": {"memory": value}}))
        return s

    def test_what_an_entry_names_must_exist(self, tmp_path: Path) -> None:
        file = tmp_path / "my.key"
        value = stdio_entry(CLIENTS["claude-code"], ["/bin/sh"], {"HYPHAE_API_KEY_FILE": str(file)})
        s = self.entry(tmp_path, value)
        the_one(clients.clients(s), "problem", "my.key does not exist", "hyphae init --client claude-code")
        write_private(file, KEY)
        the_one(clients.clients(s), "ok", "what is named there exists")
        file.chmod(0o640)
        the_one(clients.clients(s), "problem", "chmod 600")
        file.chmod(0o600)
        s = self.entry(tmp_path, {**value, "command": "/moved/hyphae"})
        the_one(clients.clients(s), "problem", "/moved/hyphae, which cannot be run")

    def test_a_key_in_the_file_itself_is_a_warning_that_does_not_show_it(self, tmp_path: Path) -> None:
        value = stdio_entry(CLIENTS["cursor"], ["/bin/sh"], {"HYPHAE_API_KEY": KEY})
        assert KEY not in the_one(clients.clients(self.entry(tmp_path, value)), "warning").message

    def test_an_address_where_nobody_answers_is_a_problem(self, tmp_path: Path) -> None:
        value = http_entry(CLIENTS["claude-code"], "http://127.0.0.1:9/mcp")
        the_one(clients.clients(self.entry(tmp_path, value)), "problem", "nobody answers", "hyphae up")

    def test_servers_of_others_and_odd_files_are_left_alone(self, tmp_path: Path) -> None:
        for value in ({"command": "/moved/other", "args": []}, None, 5):
            the_one(clients.clients(self.entry(tmp_path, value)), "ok", "No client")
        s = around(tmp_path)
        (s.here / ".mcp.json").write_text("[]")
        the_one(clients.clients(s), "ok", "No client")
        (s.here / ".mcp.json").write_text("{oops")
        the_one(clients.clients(s), "problem", "is not JSON")


class TestRunning:
    @pytest.fixture
    def table(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
        """Three checks: one hangs until the test ends, one is defective, one is well."""
        end = threading.Event()

        def hang(_: Surroundings) -> list[Finding]:
            end.wait()
            return []

        def break_(_: Surroundings) -> list[Finding]:
            raise ZeroDivisionError("seven")

        table = (
            Check("a", "hangs", hang, 0.05),
            Check("b", "breaks", break_),
            Check("c", "is well", lambda _: [well("fine")]),
        )
        monkeypatch.setattr(checks, "CHECKS", table)
        yield end
        end.set()

    def test_a_check_that_hangs_or_breaks_does_not_keep_the_others_from_being_made(
        self, table: threading.Event, tmp_path: Path
    ) -> None:
        found = [(check.name, f.verdict) for check, many in run_checks(around(tmp_path)) for f in many]
        assert found == [("a", "problem"), ("b", "problem"), ("c", "ok")]

    def test_names_are_distinct_and_each_check_says_what_it_looks_at(self) -> None:
        assert len({check.name for check in CHECKS}) == len(CHECKS)
        assert all(check.looks_at for check in CHECKS)

    def test_everything_broken_at_once_is_diagnosed_without_a_secret(
        self, stopped: PeerDirectory, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        root = stopped.path.parent
        secrets = [p.read_text().strip() for p in stopped.secrets.iterdir()] + [KEY]
        stopped.log.write_bytes(b"no database")
        stopped.identity.write_text("{")
        stopped.path.chmod(0o777)
        for secret in stopped.secrets.iterdir():
            secret.chmod(0o666)
        make_directory(root / "config")
        (root / "config" / "hyphae.toml").write_text(f'api_key = "{KEY}"\nurl = [')
        s = around(root, HYPHAE_API_KEY=KEY + "x", HYPHAE_MODEL_DIR="/none", HYPHAE_NATS_SERVER="/none")
        (s.here / ".mcp.json").write_text(f'{{"{KEY}": ')
        found = [(check.name, f) for check, many in run_checks(s) for f in many]
        problems = {name for name, f in found if f.verdict == "problem"}
        assert problems >= {"settings", "data", "format", "log", "model", "nats-server", "key", "clients"}
        text = " ".join(f"{f.message} {f.mend}" for _, f in found)
        assert [s for s in secrets if s in text] == []
        assert "Traceback" not in text
        assert "could not be looked at" not in text


def test_the_version_is_that_of_the_distribution() -> None:
    assert version() != "0"
