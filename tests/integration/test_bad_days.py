"""Bad days of a real peer: killed, stopped at any moment, without disk, port, model or directory of its own."""

from __future__ import annotations

import contextlib
import itertools
import random
import resource
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta

import psutil
import pytest

from tests.support.hyphae_command import Home, Up, eventually
from tests.support.places import short_directory
from tests.support.running_mesh import RunningPeer, running_peer
from tests.support.small_disk import SmallDisk, can_mount, file_system, quota, remount

FACT = {"cell_type": "Fact"}
MOUNTS = can_mount()
DISKS: dict[str, Callable[[], AbstractContextManager[SmallDisk]]] = {"every write fails": quota}
if MOUNTS:
    DISKS["no byte is free"] = file_system


@pytest.fixture
def peer() -> Iterator[RunningPeer]:
    with running_peer() as peer:
        yield peer


class Storing:
    """Some threads that store until they are told to stop or the peer is gone, and remember what was acknowledged."""

    def __init__(self, peer: RunningPeer, acked: dict[str, str], threads: int = 4) -> None:
        self._peer, self._acked = peer, acked
        self._stop = threading.Event()
        self._numbers = itertools.count(len(acked))
        self._threads = [threading.Thread(target=self._run) for _ in range(threads)]

    def __enter__(self) -> Storing:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def until(self, count: int) -> None:
        """Return when that many were acknowledged in all."""
        eventually(lambda: len(self._acked) >= count, f"{count} stores are acknowledged", 60)

    def _run(self) -> None:
        agent = self._peer.agent()
        with contextlib.suppress(Exception):  # the peer went away in the middle of a call
            while not self._stop.is_set():
                content = f"memory {next(self._numbers)}"
                answer = agent.by_wire("store", {"content": content, **FACT})
                if answer.result is not None:
                    self._acked[answer.result["node_id"]] = content


def all_there(peer: RunningPeer, acked: dict[str, str]) -> None:
    agent = peer.agent()
    for node, content in acked.items():
        assert agent("get_node", node_id=node)["content"] == content
    assert peer.operator()("verify_log")["ok"]
    status = peer.operator()("status")
    assert (status["state"], status["problems"]) == ("ok", [])


class TestASignal:
    def test_of_kill_at_any_point_of_500_stores_loses_nothing_acknowledged(self, peer: RunningPeer) -> None:
        rng, acked = random.Random(5), dict[str, str]()
        for goal in [*sorted(rng.sample(range(40, 460), 4)), 500]:
            with Storing(peer, acked) as storing:
                storing.until(goal)
                peer.kill()
            peer.start()
            all_there(peer, acked)
        assert len(acked) >= 500
        found = peer.agent()("recall", query="memory 250", k=100)["results"]
        assert len({r["node_id"] for r in found}) == 100

    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
    def test_to_stop_while_it_stores_ends_it_cleanly(self, peer: RunningPeer, number: int) -> None:
        acked: dict[str, str] = {}
        with Storing(peer, acked) as storing:
            storing.until(20)
            process = psutil.Process(peer.pid)
            assert peer.stop(number) == 0
        assert not process.is_running()
        left = sorted(p.name for p in peer.directory.iterdir())
        assert left == ["ballast", "heads", "index", "lock", "log.db", "peer.json", "secrets"]
        peer.start()
        all_there(peer, acked)

    def test_at_any_moment_of_a_start_leaves_what_can_be_started_again(self) -> None:
        rng = random.Random(3)
        with short_directory() as root:
            peer = RunningPeer(root)
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGKILL) * 2:
                process = peer.launch()
                with contextlib.suppress(Exception):
                    psutil.Process(process.pid).wait(rng.random() * 0.9)
                peer.send_signal(number)
                assert process.wait(20) is not None
                peer.kill()
            try:
                peer.start()
                node = peer.agent()("store", content="after all that", **FACT)["node_id"]
                all_there(peer, {node: "after all that"})
            finally:
                peer.kill()

    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
    def test_to_up_while_it_starts_leaves_no_process(self, number: int) -> None:
        with short_directory() as root:
            home = Home(root)
            up = Up(home, "--peers", "2")
            try:
                eventually(lambda: len(home.processes()) >= 3, "its children are being started")
                up.stop(number)
                eventually(lambda: home.processes() == [], "nothing of it runs", 15)
            finally:
                home.down()


@pytest.mark.parametrize("disk", DISKS.values(), ids=DISKS.keys())
class TestADiskThatIsFull:
    def test_refuses_stores_while_reading_goes_on_and_heals_when_there_is_room(
        self, disk: Callable[[], AbstractContextManager[SmallDisk]]
    ) -> None:
        with disk() as small:
            peer = RunningPeer(small.root)
            try:
                peer.start()
                reader = peer.new_agent()
                reader("place_beacon", interest="*")
                agent = peer.agent()
                acked = {agent("store", content=f"m {n}", **FACT)["node_id"]: f"m {n}" for n in range(5)}
                small.fill(peer.pid)
                for content in ("no room", "still no room"):
                    for method, arguments in (
                        ("store", {"content": content, **FACT}),
                        ("store_bulk", {"cells": [{"content": content, **FACT}]}),
                    ):
                        answer = agent.by_wire(method, arguments)
                        text = answer.refused("unavailable")
                        assert "cannot be written" in text or "nearly full" in text
                        assert "reading goes on" in text.lower()
                status = agent("status")
                assert status["state"] == "degraded"
                assert any("full" in p or "cannot be written" in p for p in status["problems"])
                assert {r["node_id"] for r in agent("recall", query="m", k=100)["results"]} == {*acked}
                looked = reader("drain_inbox", advance=False)
                assert [d["node_id"] for d in looked["diffs"]] == [*acked]
                reader.ask("drain_inbox", {})

                small.free(peer.pid)
                node = agent("store", content="room again", **FACT)["node_id"]
                acked[node] = "room again"
                all_there(peer, acked)
                assert {d["node_id"] for d in reader("drain_inbox")["diffs"]} >= {node}
                peer.kill()
                peer.start()
                all_there(peer, acked)
            finally:
                peer.kill()

    def test_does_not_keep_a_peer_from_stopping(
        self, disk: Callable[[], AbstractContextManager[SmallDisk]]
    ) -> None:
        with disk() as small:
            peer = RunningPeer(small.root)
            try:
                peer.start()
                node = peer.agent()("store", content="kept", **FACT)["node_id"]
                small.fill(peer.pid)
                assert peer.stop() in {0, 120}  # 120: Python itself could not flush the log on that disk
                if small.root.joinpath("ballast").exists():
                    small.free(0)
                peer.start()
                all_there(peer, {node: "kept"})
            finally:
                peer.kill()


class TestADirectory:
    def test_that_a_live_peer_holds_is_refused_with_its_pid(self, peer: RunningPeer) -> None:
        second = RunningPeer(peer.root)
        said = second.refusal()
        assert said.startswith("error: conflict: ")
        assert f"is in use by process {peer.pid} (peer, since " in said
        node = peer.agent()("store", content="untouched", **FACT)["node_id"]
        all_there(peer, {node: "untouched"})

    def test_that_a_dead_peer_held_is_simply_taken_over(self, peer: RunningPeer) -> None:
        node = peer.agent()("store", content="kept", **FACT)["node_id"]
        peer.kill()
        assert (peer.directory / "run.json").exists()
        assert (peer.directory / "lock").read_text().startswith('{"pid"')
        peer.start()
        all_there(peer, {node: "kept"})

    def test_that_cannot_be_written_is_refused_by_name(self) -> None:
        with contextlib.ExitStack() as stack:
            if MOUNTS:
                root = stack.enter_context(file_system()).root
                remount(root, "ro")
                stack.callback(remount, root, "rw")
                root_of_log = stack.enter_context(short_directory())
                peer = RunningPeer(root)
                peer.log_path = root_of_log / "peer.log"
                expected = "is not writable"
            else:
                peer = RunningPeer(stack.enter_context(short_directory()))
                peer.directory.write_text("a file is where the directory should be")
                expected = "is a file, not a directory"
            said = peer.refusal()
            assert said.startswith("error: ")
            assert expected in said
            assert "Nothing was changed" in said

    def test_that_no_file_of_can_be_written_is_refused_by_name(self) -> None:
        with short_directory() as root:
            peer = RunningPeer(root)
            peer.start()
            assert peer.stop() == 0
            soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
            resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))  # inherited by the peer
            try:
                said = peer.refusal()
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
            assert said.startswith(("error: unavailable: ", "error: corrupted: "))
            assert "Traceback" not in said
            peer.start()
            peer.kill()


class TestATimeZone:
    def test_changes_nothing_about_times(self) -> None:
        with short_directory() as root:
            peer = RunningPeer(root, environment={"TZ": "Asia/Tokyo"})
            try:
                peer.start()
                node = peer.agent()("store", content="it is nine", **FACT)["node_id"]
                told = peer.agent()("get_node", node_id=node)["created_at"]
                assert told.endswith("Z")
                assert abs(datetime.now(UTC) - datetime.fromisoformat(told)) < timedelta(minutes=5)
                assert peer.stop() == 0
                peer.environment["TZ"] = "America/Los_Angeles"
                peer.start()
                assert peer.agent()("get_node", node_id=node)["created_at"] == told
                assert len(peer.agent()("recall", query="nine", since="5m")["results"]) == 1
            finally:
                peer.kill()


class TestAPort:
    def test_that_is_taken_is_refused_with_its_holder(self) -> None:
        with socket.socket() as holder, short_directory() as root:
            holder.bind(("127.0.0.1", 0))
            holder.listen()
            port = holder.getsockname()[1]
            peer = RunningPeer(root, "--no-nats", "--http-port", str(port))
            said = peer.refusal()
            assert said.startswith("error: unavailable: ")
            assert f"127.0.0.1:{port} cannot be listened on" in said
            assert f"process {psutil.Process().pid}" in said
            holder.close()
            peer.start()
            peer.kill()


class TestAModelThatIsMissing:
    @pytest.fixture(scope="class")
    @classmethod
    def blind(cls) -> Iterator[RunningPeer]:
        with running_peer(environment={"HYPHAE_MODEL_DIR": "/nowhere/at/all"}) as peer:
            yield peer

    def test_does_not_keep_agents_from_connecting(self, blind: RunningPeer) -> None:
        agent = blind.agent()
        began = time.monotonic()
        body = '{"jsonrpc":"2.0","id":1,"method":"tools/list","params":null}'
        assert b'"drain_inbox"' in agent.send("POST", "/mcp", body)[1]
        assert agent("list_beacons")["beacons"] == []
        assert agent("open_session")["session_id"]
        assert agent("place_beacon", interest="*")["created"]
        assert time.monotonic() - began < 60

    def test_is_named_with_its_path_by_whatever_needs_it(self, blind: RunningPeer) -> None:
        agent = blind.agent()
        before = blind.operator()("status")["events"]
        for method, arguments in (
            ("store", {"content": "x", **FACT}),
            ("place_beacon", {"interest": "x"}),
        ):
            text = agent.refused(method, "unavailable", **arguments)
            assert "/nowhere/at/all/tokenizer.json" in text
        bulk = agent.by_rest("store_bulk", {"cells": [{"content": "x", **FACT}]})
        assert "/nowhere/at/all/tokenizer.json" in bulk.refused("unavailable")
        assert blind.operator()("status")["events"] == before

    def test_is_a_problem_that_status_names(self, blind: RunningPeer) -> None:
        status = blind.agent()("status")
        assert status["state"] == "degraded"
        (problem,) = status["problems"]
        assert problem.startswith("the embedding model is unavailable")
        assert "/nowhere/at/all" in problem

    def test_leaves_what_was_stored_before_readable_and_found_again_later(self, peer: RunningPeer) -> None:
        node = peer.agent()("store", content="the cache is warm", **FACT)["node_id"]
        assert peer.stop() == 0
        peer.environment["HYPHAE_MODEL_DIR"] = "/nowhere/at/all"
        peer.start()
        assert peer.agent()("get_node", node_id=node)["content"] == "the cache is warm"
        assert peer.agent()("status")["unsearchable_cells"] == 1
        said = peer.agent().refused("recall", "unavailable", query="cache")
        assert "/nowhere/at/all/tokenizer.json" in said
        by_words = peer.agent()("recall", query="cache", mode="lexical")
        assert [r["node_id"] for r in by_words["results"]] == [node]
        assert peer.stop() == 0
        del peer.environment["HYPHAE_MODEL_DIR"]
        peer.start()
        assert peer.agent()("recall", query="is the cache warm?")["results"][0]["node_id"] == node
        all_there(peer, {node: "the cache is warm"})
