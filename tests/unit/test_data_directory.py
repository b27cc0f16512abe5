"""Data directories: the layout, who holds them, what is checked before anything is changed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import namedtuple
from pathlib import Path

import pytest

from node.background import stop_holder
from node.data_directory import (
    SOCKET_PATH_BYTES,
    MeshDirectory,
    PeerDirectory,
    RunFile,
    peers_of,
    running_peers,
)
from node.directory_checks import DISK_FREE_BYTES_MIN, check_usable
from node.directory_lock import DirectoryLock, Holder, boot_id, holder_of
from node.locations import config_dir, configured_key, data_dir
from node.private_files import read_secret, write_private, write_record
from proto.errors import Conflict, Invalid, Unauthenticated, Unavailable
from tests.support.places import as_ordinary_user, short_directory

DISK_USAGE = "node.directory_checks.shutil.disk_usage"
HOLD = """
import sys
from pathlib import Path
from node.directory_lock import DirectoryLock
DirectoryLock.acquire(Path(sys.argv[1]), "hyphae up")
print("held", flush=True)
sys.stdin.read()
"""


def run_file_of(pid: int) -> RunFile:
    return RunFile(pid, boot_id(), "p", "peer-1", "m", "/s", "http://127.0.0.1:1", "2026-01-01T00:00:00Z")


def hold_in_another_process(lock: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(lock)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


class TestTheLock:
    def test_a_second_process_is_refused_with_the_pid_of_the_first(self, tmp_path: Path) -> None:
        process = hold_in_another_process(tmp_path / "lock")
        try:
            with pytest.raises(Conflict) as refused:
                DirectoryLock.acquire(tmp_path / "lock", "peer")
        finally:
            end(process)
        assert f"process {process.pid} (hyphae up, since " in refused.value.message
        assert f"hyphae down --data-dir {tmp_path}" in refused.value.message

    def test_the_holder_is_known_to_others(self, tmp_path: Path) -> None:
        process = hold_in_another_process(tmp_path / "lock")
        try:
            holder = holder_of(tmp_path / "lock")
        finally:
            end(process)
        assert holder is not None
        assert (holder.pid, holder.role, holder.boot_id) == (process.pid, "hyphae up", boot_id())

    def test_the_lock_of_a_killed_process_is_free_and_recognised_as_stale(self, tmp_path: Path) -> None:
        process = hold_in_another_process(tmp_path / "lock")
        end(process)
        assert holder_of(tmp_path / "lock") is None
        with DirectoryLock.acquire(tmp_path / "lock", "peer") as lock:
            assert lock.stale is not None
            assert lock.stale.pid == process.pid

    def test_a_released_lock_is_free_and_leaves_no_holder_behind(self, tmp_path: Path) -> None:
        DirectoryLock.acquire(tmp_path / "lock", "peer").release()
        assert holder_of(tmp_path / "lock") is None
        with DirectoryLock.acquire(tmp_path / "lock", "peer") as lock:
            assert lock.stale is None

    def test_asking_for_the_holder_never_makes_a_start_fail(self, tmp_path: Path) -> None:
        for _ in range(50):
            holder_of(tmp_path / "lock")
            DirectoryLock.acquire(tmp_path / "lock", "peer").release()

    def test_a_lock_file_with_nonsense_in_it_can_be_taken(self, tmp_path: Path) -> None:
        (tmp_path / "lock").write_bytes(b"\x00\xff nonsense")
        DirectoryLock.acquire(tmp_path / "lock", "peer").release()

    def test_nobody_holds_a_lock_file_that_is_not_there(self, tmp_path: Path) -> None:
        assert holder_of(tmp_path / "lock") is None

    def test_a_holder_that_has_not_said_who_it_is_is_never_signalled(self, tmp_path: Path) -> None:
        with pytest.raises(Unavailable, match="has not said so yet"):
            stop_holder(tmp_path / "lock", Holder(0, "", "a process", ""))


class TestChecks:
    def test_a_directory_that_can_be_made_is_fine_and_not_made(self, tmp_path: Path) -> None:
        check_usable(tmp_path / "a" / "b")
        assert not (tmp_path / "a").exists()

    @pytest.mark.parametrize("below", ["file", "file/deeper"])
    def test_a_file_in_the_way_is_named(self, tmp_path: Path, below: str) -> None:
        (tmp_path / "file").write_text("x")
        with pytest.raises(Invalid, match=r"file is a file, not a directory\. Nothing was changed"):
            check_usable(tmp_path / below)
        assert (tmp_path / "file").read_text() == "x"

    def test_a_directory_that_is_not_writable_is_named(self) -> None:
        with short_directory() as path:
            path.chmod(0o555)
            with (
                as_ordinary_user(path),
                pytest.raises(Unavailable, match=r"is not writable for this user\. Nothing was changed"),
            ):
                MeshDirectory(path / "new").prepare()
            assert list(path.iterdir()) == []

    def test_a_full_disk_is_told_with_what_is_free_and_what_is_needed(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        usage = namedtuple("usage", "total used free")
        monkeypatch.setattr(DISK_USAGE, lambda _: usage(0, 0, DISK_FREE_BYTES_MIN - 1))
        with pytest.raises(Unavailable, match=r"has 15 MiB free; 16 MiB are needed\. Nothing was changed"):
            PeerDirectory(tmp_path / "new").prepare()
        assert not (tmp_path / "new").exists()
        monkeypatch.setattr(DISK_USAGE, lambda _: usage(0, 0, DISK_FREE_BYTES_MIN))
        PeerDirectory(tmp_path / "new").prepare()

    def test_directories_are_made_for_their_owner_only(self, tmp_path: Path) -> None:
        mesh = MeshDirectory(tmp_path / "up")
        mesh.prepare()
        for path in (mesh.path, mesh.secrets, mesh.logs):
            assert path.stat().st_mode & 0o777 == 0o700

    def test_up_refuses_the_directory_of_one_peer(self, tmp_path: Path) -> None:
        write_record(PeerDirectory(tmp_path).identity, {"peer_id": "p"})
        with pytest.raises(Invalid, match="is the directory of one peer"):
            MeshDirectory(tmp_path).prepare()


class TestFindingPeers:
    def test_the_directory_of_up_gives_its_peers_by_number(self, tmp_path: Path) -> None:
        for name in ("peer-10", "peer-2", "peer-1", "peer-0", "peer-x", "secrets"):
            (tmp_path / name).mkdir()
        (tmp_path / "peer-3").write_text("a file")
        assert [p.path.name for p in peers_of(tmp_path)] == ["peer-1", "peer-2", "peer-10"]

    def test_the_directory_of_a_peer_gives_that_peer(self, tmp_path: Path) -> None:
        write_record(PeerDirectory(tmp_path).identity, {"peer_id": "p"})
        assert peers_of(tmp_path) == (PeerDirectory(tmp_path),)

    @pytest.mark.parametrize("name", ["missing", ""])
    def test_a_directory_where_nobody_lived_gives_none(self, tmp_path: Path, name: str) -> None:
        assert peers_of(tmp_path / name) == ()

    def test_a_peer_runs_when_the_writer_of_its_run_file_holds_its_lock(self, tmp_path: Path) -> None:
        peer = MeshDirectory(tmp_path).peer(1)
        peer.prepare()
        with DirectoryLock.acquire(peer.lock, "peer"):
            assert running_peers(tmp_path) == ()
            peer.write_run_file(run_file_of(os.getpid()))
            assert running_peers(tmp_path) == (run_file_of(os.getpid()),)
        assert running_peers(tmp_path) == ()

    def test_the_run_file_of_an_earlier_process_does_not_count(self, tmp_path: Path) -> None:
        peer = PeerDirectory(tmp_path)
        peer.write_run_file(run_file_of(os.getpid() + 1))
        with DirectoryLock.acquire(peer.lock, "peer"):
            assert peer.running() is None

    @pytest.mark.parametrize("text", ["", "{", "[]", '{"pid": 1}', "\xff"])
    def test_a_damaged_run_file_counts_as_none(self, tmp_path: Path, text: str) -> None:
        peer = PeerDirectory(tmp_path)
        peer.run_file.write_text(text, encoding="latin-1")
        with DirectoryLock.acquire(peer.lock, "peer"):
            assert peer.running() is None


class TestTheSocket:
    def test_it_lies_in_the_directory_when_the_path_is_short(self) -> None:
        with short_directory() as path:
            assert PeerDirectory(path).socket() == path / "peer.sock"

    def test_it_lies_in_the_users_own_runtime_directory_when_the_path_is_long(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        long = tmp_path / ("x" * SOCKET_PATH_BYTES)
        with short_directory() as runtime:
            runtime.chmod(0o700)
            monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
            socket = PeerDirectory(long).socket()
            assert socket.parent == runtime / "hyphae"
            assert socket.parent.stat().st_mode & 0o777 == 0o700
            assert PeerDirectory(long).socket() == socket
            assert PeerDirectory(tmp_path / ("y" * SOCKET_PATH_BYTES)).socket() != socket

    def test_a_runtime_directory_that_others_may_enter_is_not_used(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with short_directory() as shared, short_directory() as home:
            shared.chmod(0o777)
            monkeypatch.setenv("XDG_RUNTIME_DIR", str(shared))
            monkeypatch.setenv("HOME", str(home))
            socket = PeerDirectory(tmp_path / ("x" * SOCKET_PATH_BYTES)).socket()
            assert socket.parent == home / ".cache" / "hyphae" / "run"


class TestSecrets:
    def test_a_secret_is_read_back_and_is_readable_by_its_owner_only(self, tmp_path: Path) -> None:
        write_private(tmp_path / "key", "hyp_abc\n")
        assert read_secret(tmp_path / "key") == "hyp_abc"
        assert (tmp_path / "key").stat().st_mode & 0o777 == 0o600

    def test_writing_again_leaves_one_file_with_mode_0600(self, tmp_path: Path) -> None:
        (tmp_path / "key").write_text("old")
        (tmp_path / "key").chmod(0o644)
        write_private(tmp_path / "key", "new\n")
        assert [p.name for p in tmp_path.iterdir()] == ["key"]
        assert (tmp_path / "key").stat().st_mode & 0o777 == 0o600

    @pytest.mark.parametrize("data", [b"", b"\n", b"two words", b"a\nb\n", b"x" * 5000])
    def test_a_file_that_is_no_key_is_refused_without_being_shown(self, tmp_path: Path, data: bytes) -> None:
        (tmp_path / "key").write_bytes(data)
        with pytest.raises(Unauthenticated) as refused:
            read_secret(tmp_path / "key")
        assert f"({len(data[:4097])} bytes)" in refused.value.message
        assert "two words" not in refused.value.message

    def test_a_missing_key_file_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(Unauthenticated, match=r"key-file cannot be read: No such file"):
            read_secret(tmp_path / "key-file")


class TestWhereThingsLie:
    def test_the_data_directory_is_the_one_given_else_the_variable_else_the_file_else_the_one_line(
        self, tmp_path: Path
    ) -> None:
        (tmp_path / "data-dir").write_text("/from/line\n")
        environ, file = {"HYPHAE_DATA_DIR": "/from/variable"}, {"data_dir": "/from/file"}
        assert data_dir(environ, tmp_path, file, Path("/given")) == Path("/given")
        assert data_dir(environ, tmp_path, file) == Path("/from/variable")
        assert data_dir({}, tmp_path, file) == Path("/from/file")
        assert data_dir({}, tmp_path, {}) == Path("/from/line")

    def test_a_relative_path_counts_from_where_the_user_is(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        assert data_dir({}, tmp_path, {}, Path("team")) == tmp_path / "team"
        assert config_dir({"HYPHAE_CONFIG_DIR": "conf"}) == tmp_path / "conf"

    def test_no_key_is_configured_until_one_of_three_places_has_one(self, tmp_path: Path) -> None:
        key = "hyp_aaaaaaaaaaaaaaaa_" + "a" * 52
        assert configured_key({}, tmp_path, {}) is None
        write_private(tmp_path / "token", key + "\n")
        for environ in ({}, {"HYPHAE_API_KEY": key}, {"HYPHAE_API_KEY_FILE": str(tmp_path / "token")}):
            read = configured_key(environ, tmp_path, {})
            assert read is not None
            assert read() == key

    def test_the_record_of_a_mesh_is_no_secret_file_of_others(self, tmp_path: Path) -> None:
        write_record(tmp_path / "up.json", {"name": "Zoë"})
        assert json.loads((tmp_path / "up.json").read_text(encoding="utf-8")) == {"name": "Zoë"}
        assert (tmp_path / "up.json").stat().st_mode & 0o777 == 0o600
