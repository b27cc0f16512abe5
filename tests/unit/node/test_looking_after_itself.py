"""A peer that is blocked, has lost its file or has no room says so, refuses what it must, and recovers by itself."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from node import ballast, disk
from node.loop_watch import GOOD_BEATS, LATE_MS, LoopWatch
from node.peer_core import PeerCore
from node.replica import Draft
from proto.errors import Overloaded, Unavailable
from proto.ids import NO_TENANT, AgentId
from proto.payloads import KeyRevoked
from tests.support.open_service import open_peer

FACT = {"content": "the ballast goes last", "cell_type": "Fact"}

# -- a loop that is late


def test_one_late_beat_is_a_pause_and_two_in_a_row_are_a_blocked_loop() -> None:
    watch = LoopWatch()
    for late_ms in (LATE_MS * 5, 0, LATE_MS, LATE_MS - 1):
        watch.beat(late_ms)
        assert not watch.is_out
    watch.beat(LATE_MS)
    watch.beat(LATE_MS)
    assert watch.is_out
    assert "1.0 s late" in (watch.problem() or "")


def test_it_is_back_after_some_beats_in_time_and_not_before() -> None:
    watch = LoopWatch()
    watch.beat(LATE_MS)
    watch.beat(LATE_MS)
    for _ in range(GOOD_BEATS - 1):
        watch.beat(3)
    assert watch.is_out
    watch.beat(LATE_MS)
    for _ in range(GOOD_BEATS):
        assert watch.is_out
        watch.beat(-1)
    assert (watch.is_out, watch.lag_ms, watch.problem()) == (False, 0, None)


def test_the_watch_sees_that_its_loop_was_blocked() -> None:
    async def blocked() -> int:
        watch = LoopWatch()
        task = asyncio.create_task(watch.watch())
        await asyncio.sleep(0)
        time.sleep(0.3)
        while not watch.lag_ms:
            await asyncio.sleep(0.01)
        task.cancel()
        return watch.lag_ms

    assert asyncio.run(blocked()) >= 100


def test_a_blocked_peer_refuses_calls_of_keys_and_answers_its_own_user(tmp_path: Path) -> None:
    async def use() -> None:
        async with open_peer(tmp_path) as peer:
            key = await peer.key("ann")
            for _ in range(2):
                peer.core.watch.beat(LATE_MS)
            with pytest.raises(Overloaded, match=r"runs 1\.0 s late") as caught:
                await peer.call("store", FACT, key)
            assert caught.value.retry_after_ms
            assert any("event loop runs" in p for p in (await peer.call("status", {}))["problems"])
            assert not peer.core.readiness()["ready"]
            assert not peer.core._vitals().in_service
            for _ in range(GOOD_BEATS):
                peer.core.watch.beat(0)
            await peer.call("store", FACT, key)
            assert peer.core.readiness()["ready"]

    asyncio.run(use())


# -- a file that is gone


def test_a_log_deleted_under_a_running_peer_is_said_and_nothing_is_stored_into_it(tmp_path: Path) -> None:
    async def use() -> None:
        async with open_peer(tmp_path) as peer:
            await peer.call("store", FACT)
            log = tmp_path / "log.db"
            aside = log.rename(tmp_path / "aside.db")
            refused = await _refusal(peer.core, "lost at the end")
            assert "was deleted while the peer runs" in refused.message
            assert "Nothing was stored" in refused.message
            said = peer.core.readiness()
            assert (said["ready"], "was deleted" in said["problems"][0]) == (False, True)
            log.write_bytes(b"")
            assert "was replaced" in peer.core.readiness()["problems"][0]
            aside.replace(log)
            await peer.call("store", {**FACT, "content": "it was put back"})
            assert peer.core.readiness()["state"] == "ok"

    asyncio.run(use())


async def _refusal(core: PeerCore, content: str) -> Unavailable:
    """Return why the writer refuses an event; a reading connection might not open either."""
    draft = Draft.of(NO_TENANT, AgentId(bytes(16)), KeyRevoked(key_id=f"of {content}"))
    with pytest.raises(Unavailable) as caught:
        await core.writer.append([draft])
    return caught.value


# -- room


def test_a_peer_lays_ballast_down_with_blocks_of_its_own(tmp_path: Path) -> None:
    async def use() -> None:
        async with open_peer(tmp_path):
            pass

    asyncio.run(use())
    found = (tmp_path / "ballast").stat()
    assert found.st_size == ballast.SIZE_BYTES
    assert found.st_blocks * 512 >= ballast.SIZE_BYTES
    assert found.st_mode & 0o777 == 0o600


def test_ballast_is_given_up_for_the_work_on_a_full_disk_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "ballast"
    assert ballast.lay(path)
    with ballast.released(path):
        assert path.exists(), "there is room enough"
    monkeypatch.setattr(disk, "free_bytes", lambda _path: 1_000)
    with ballast.released(path):
        assert not path.exists()
    assert not path.exists(), "there is still no room to spare"
    monkeypatch.undo()
    assert ballast.lay(path)
