"""What must not creep in over time: memory, threads, locks between readers and the writer, hanging children."""

from __future__ import annotations

import asyncio
import multiprocessing
import threading
from pathlib import Path

import psutil
import pytest

from node import database
from node.onnx_embedder import OnnxEmbedder
from node.reading import ReadPool
from tests.support.open_service import OpenPeer, open_peer

STORES, RECALLS = 1_500, 1_500
PROJECTS = ("billing", "web", "ops")


async def _work(peer: OpenPeer, start: int) -> None:
    for n in range(start, start + STORES):
        cell = {"content": f"memory {n} of harbour {n % 97}", "cell_type": "Fact", "project": PROJECTS[n % 3]}
        await peer.call("store", cell)
    for n in range(RECALLS):
        await peer.call("recall", {"query": f"harbour {n % 97}", "project": PROJECTS[n % 3]})


def test_thousands_of_calls_leave_the_memory_of_a_peer_flat(tmp_path: Path) -> None:
    async def case() -> tuple[int, int]:
        async with open_peer(tmp_path / "peer") as peer:
            await _work(peer, 0)
            before = psutil.Process().memory_info().rss
            await _work(peer, STORES)
            return before, psutil.Process().memory_info().rss

    before, after = asyncio.run(case())
    assert after < before * 1.10, f"{before / 1e6:.0f} MB became {after / 1e6:.0f} MB"


def test_one_writer_and_four_readers_never_meet_a_lock(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    writer = database.open_writer(path)
    pool = ReadPool(path, threads=4)
    stop = threading.Event()

    async def reader() -> int:
        count = 0
        while not stop.is_set():
            await pool.read(lambda db: database.value(db, "SELECT count(*) FROM meta"))
            count += 1
        return count

    def write() -> None:
        for n in range(400):
            with writer:
                writer.execute("INSERT INTO meta VALUES(?, ?)", (f"name {n}", n))
        stop.set()

    async def case() -> list[int]:
        thread = threading.Thread(target=write)
        thread.start()
        counts = await asyncio.gather(*(reader() for _ in range(4)))
        thread.join()
        return counts

    assert all(count > 0 for count in asyncio.run(case()))
    assert database.value(writer, "SELECT count(*) FROM meta") == 400
    pool.close()
    writer.close()


def test_reading_takes_no_lock_and_cannot_write(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    writer = database.open_writer(path)
    writer.execute("BEGIN IMMEDIATE")
    writer.execute("INSERT INTO meta VALUES('held', 1)")
    reader = database.open_reader(path)
    assert database.value(reader, "SELECT count(*) FROM meta") == 0
    try:
        reader.execute("INSERT INTO meta VALUES('mine', 1)")
        wrote = True
    except Exception as error:
        wrote = "readonly" not in type(error).__name__.lower()
    assert not wrote
    writer.execute("COMMIT")
    assert database.value(reader, "SELECT count(*) FROM meta") == 1
    reader.close()
    writer.close()


async def _embed_once() -> int:
    embedder = OnnxEmbedder(threads=1)
    try:
        return len((await embedder.query("a child embeds too")).vector)
    finally:
        embedder.close()


def _in_child(answers: multiprocessing.Queue[int]) -> None:
    answers.put(asyncio.run(_embed_once()))


def test_a_child_started_after_the_first_embedding_embeds_too() -> None:
    dimensions = asyncio.run(_embed_once())
    context = multiprocessing.get_context("spawn")
    answers: multiprocessing.Queue[int] = context.Queue()
    child = context.Process(target=_in_child, args=(answers,))
    child.start()
    assert answers.get(timeout=60) == dimensions
    child.join(30)
    assert child.exitcode == 0


def _threads_added(count: int, answers: multiprocessing.Queue[int]) -> None:
    async def embed() -> None:
        embedder = OnnxEmbedder(threads=count)
        before = psutil.Process().num_threads()
        await embedder.query("how many threads")
        answers.put(psutil.Process().num_threads() - before)
        embedder.close()

    asyncio.run(embed())


@pytest.mark.parametrize("count", [1, 3])
def test_the_model_takes_as_many_threads_as_it_was_given(count: int) -> None:
    context = multiprocessing.get_context("spawn")
    answers: multiprocessing.Queue[int] = context.Queue()
    child = context.Process(target=_threads_added, args=(count, answers))
    child.start()
    assert answers.get(timeout=60) == count  # the embedding thread itself, and further ones of the runtime
    child.join(30)
    assert child.exitcode == 0
