"""The local peer that gateways start in the background: exactly one, shared, found again when it was replaced."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import psutil
import pytest

from node.background import ensure_local_peer, find_local_peer
from node.data_directory import MeshDirectory
from tests.support.hyphae_command import Home, eventually, running_up
from tests.support.places import short_directory
from tests.support.stdio_process import HANDSHAKE, StdioProcess

SERVE = ("-P", "-m", "node", "mcp", "serve")


@pytest.fixture
def home() -> Iterator[Home]:
    with short_directory() as root:
        home = Home(root)
        try:
            yield home
        finally:
            home.down()


def gateway(home: Home, **extra: str) -> StdioProcess:
    process = StdioProcess({**home.environment(), **extra}, SERVE[:1], SERVE[1:])
    process.send(HANDSHAKE)
    assert process.answer("init")["result"]["serverInfo"]["name"] == "hyphae"
    return process


def call(process: StdioProcess, tool: str, **arguments: Any) -> dict[str, Any]:
    """Return the result of a tool; tries again while the peer is still starting, as an agent would."""
    until = time.monotonic() + 60
    while True:
        process.call(f"{tool}-{time.monotonic_ns()}", tool, **arguments)
        (answer,) = [process.receive()]
        if "result" in answer and not answer["result"]["isError"]:
            return dict(answer["result"]["structuredContent"])
        assert "starting" in json.dumps(answer), answer
        assert time.monotonic() < until, answer


def peers_of(home: Home) -> list[int]:
    """Return the ids of the peer processes."""
    return [p.pid for p in home.processes() if "node" in p.cmdline() and "--data-dir" in p.cmdline()]


def test_ten_gateways_that_start_together_share_one_peer(home: Home) -> None:
    with ExitStack() as stack:
        gateways = [stack.enter_context(gateway(home)) for _ in range(10)]
        for number, process in enumerate(gateways):
            process.call(number, "store", content=f"Build {number} passed", cell_type="Fact")
        answers = [process.answer(number) for number, process in enumerate(gateways)]
        assert [a for a in answers if "result" not in a] == []
        run = find_local_peer(home.data)
        assert run is not None
        assert peers_of(home) == [run.pid]
        found = call(gateways[0], "recall", query="which builds passed?", k=20)
        assert len(found["results"]) == 10
    assert peers_of(home) == [run.pid], "it lives on when its gateways have ended"
    stopped = home.json("down")["stopped"]
    assert [s["pid"] for s in stopped] == [run.pid]
    eventually(lambda: home.processes() == [], "it has ended")


def test_without_a_key_a_gateway_acts_as_the_first_agent_of_the_local_peer(home: Home) -> None:
    with gateway(home) as process:
        assert call(process, "list_beacons")["agent"] == "agent"


def test_the_peer_is_started_though_no_tool_is_called(home: Home) -> None:
    with gateway(home):
        eventually(lambda: find_local_peer(home.data) is not None, "the peer is ready")


def test_a_gateway_goes_on_after_its_peer_ended_and_another_took_its_place(home: Home) -> None:
    with gateway(home) as process:
        stored = call(process, "store", content="The queue holds a day", cell_type="Fact")
        first = find_local_peer(home.data)
        home.run("down")
        assert call(process, "recall", query=stored["node_id"])["results"][0]["distance"] == 0
        second = find_local_peer(home.data)
        assert first is not None
        assert second is not None
        assert second.pid != first.pid
        with running_up(home) as up:
            assert up.ready["peers"][0]["peer_id"] == first.peer_id
            assert peers_of(home) != [second.pid]
            assert call(process, "recall", query=stored["node_id"])["results"][0]["distance"] == 0


def test_a_peer_that_is_just_ending_is_replaced_by_another(home: Home) -> None:
    first = ensure_local_peer(home.data)
    os.kill(first.pid, signal.SIGTERM)
    second = ensure_local_peer(home.data)
    while second.pid == first.pid:  # it was still there: the next look finds it gone
        second = ensure_local_peer(home.data)
    assert peers_of(home) == [second.pid]


def test_a_gateway_uses_a_mesh_that_runs_instead_of_starting_a_peer(home: Home) -> None:
    with running_up(home, "--peers", "2"), gateway(home) as process:
        assert call(process, "list_beacons")["agent"] == "agent"
        assert not MeshDirectory(home.data).background_file.exists()


def test_a_peer_that_cannot_start_is_an_error_of_the_call_and_the_gateway_lives_on(home: Home) -> None:
    home.data.write_text("a file")
    with gateway(home) as process:
        process.call(1, "store", content="x", cell_type="Fact")
        answer = process.answer(1)
        assert "is a file, not a directory" in answer["error"]["message"]
        process.ping()


def test_a_key_file_that_is_missing_is_an_error_of_the_call(home: Home) -> None:
    with gateway(home, HYPHAE_API_KEY_FILE="/none") as process:
        process.call(1, "recall", query="x")
        assert "unauthenticated" in process.answer(1)["error"]["message"]
        assert "/none" in process.stderr.decode()


def test_a_wrong_setting_file_ends_the_gateway_with_its_name(home: Home) -> None:
    home.config.mkdir()
    (home.config / "hyphae.toml").write_text("=")
    process = home.start("mcp", "serve")
    out, err = process.communicate(timeout=20)
    assert (process.returncode, out) == (2, "")
    assert "hyphae.toml is not TOML" in err


def test_the_background_peer_is_given_no_secret_and_no_setting_of_its_gateway(home: Home) -> None:
    key = "hyp_aaaaaaaaaaaaaaaa_" + "a" * 52
    with gateway(home, HYPHAE_API_KEY=key, HYPHAE_PROJECT="shop"):
        eventually(lambda: find_local_peer(home.data) is not None, "the peer is ready")
        (pid,) = peers_of(home)
        environ = psutil.Process(pid).environ()
        assert key not in environ.values()
        assert "HYPHAE_PROJECT" not in environ
