"""The ONNX embedder with its real model: order, failure, and what is asked of its files."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnxruntime  # type: ignore[import-untyped]
import pytest

from node.cpus import available_cpus
from node.onnx_embedder import OnnxEmbedder
from node.onnx_graph import look_up_before_widening
from node.onnx_model import DIMENSIONS, MODEL_SHA256, OnnxModel, find_files
from proto.errors import Unavailable

WORDS = "word table "


@pytest.fixture(scope="module")
def embedder() -> Iterator[OnnxEmbedder]:
    made = OnnxEmbedder()
    asyncio.run(made.load())
    yield made
    made.close()


@pytest.fixture(scope="module")
def model() -> OnnxModel:
    return OnnxModel(find_files(None), threads=1)


def test_a_query_overtakes_a_bulk_that_waits(embedder: OnnxEmbedder) -> None:
    async def order() -> list[str]:
        done: list[str] = []
        bulk = asyncio.ensure_future(embedder.bulk([f"{'text ' * 100}{n}" for n in range(40)]))
        bulk.add_done_callback(lambda _: done.append("bulk"))
        await asyncio.sleep(0)
        await embedder.query("Who goes first?")
        done.append("query")
        await bulk
        await asyncio.sleep(0)
        return done

    assert asyncio.run(order()) == ["query", "bulk"]


def test_the_event_loop_turns_while_texts_are_embedded(embedder: OnnxEmbedder) -> None:
    async def turns() -> int:
        bulk = asyncio.ensure_future(embedder.bulk([f"{'text ' * 100}{n}" for n in range(12)]))
        count = 0
        while not bulk.done():
            await asyncio.sleep(0.001)
            count += 1
        return count

    assert asyncio.run(turns()) > 10


def test_a_cancelled_call_leaves_the_others_alone(embedder: OnnxEmbedder) -> None:
    async def cancel_one() -> int:
        doomed = asyncio.ensure_future(embedder.bulk(["never mind"] * 200))
        kept = asyncio.ensure_future(embedder.bulk(["stays", "stays too"]))
        await asyncio.sleep(0)
        doomed.cancel()
        with pytest.raises(asyncio.CancelledError):
            await doomed
        return len(await kept)

    assert asyncio.run(cancel_one()) == 2


def test_two_event_loops_may_share_one_embedder(embedder: OnnxEmbedder) -> None:
    async def one() -> np.ndarray:
        return (await embedder.query("the same question")).vector

    assert np.array_equal(asyncio.run(one()), asyncio.run(one()))


def test_the_default_space_is_known_before_the_model_is_loaded(embedder: OnnxEmbedder) -> None:
    fresh = OnnxEmbedder()
    assert (fresh.space, fresh.dimensions) == (embedder.space, embedder.dimensions)
    assert MODEL_SHA256[:16] in fresh.space
    assert fresh.dimensions == DIMENSIONS


def test_a_call_that_cannot_wait_for_the_model_is_told_to_come_back() -> None:
    async def early_and_late() -> None:
        fresh = OnnxEmbedder(load_deadline_s=0.0)
        with pytest.raises(Unavailable, match="still loading") as told:
            await fresh.query("too early")
        assert told.value.retry_after_ms
        await fresh.load()
        assert len((await fresh.query("now")).vector) == DIMENSIONS
        fresh.close()

    asyncio.run(early_and_late())


def test_calls_after_closing_are_unavailable() -> None:
    async def closed() -> None:
        fresh = OnnxEmbedder()
        await fresh.load()
        waiting = asyncio.ensure_future(fresh.bulk(["text " * 200] * 30))
        await asyncio.sleep(0)
        fresh.close()
        with pytest.raises(Unavailable, match="closed"):
            await waiting
        with pytest.raises(Unavailable, match="closed"):
            await fresh.query("anyone there?")

    asyncio.run(closed())


def test_closing_before_loading_makes_calls_unavailable() -> None:
    async def closed() -> None:
        fresh = OnnxEmbedder(load_deadline_s=0.1)
        fresh.close()
        with pytest.raises(Unavailable):
            await fresh.query("anyone there?")

    asyncio.run(closed())


def test_a_missing_model_is_named_at_each_call_and_found_when_it_is_there(tmp_path: Path) -> None:
    files = find_files(None)

    async def twice() -> None:
        fresh = OnnxEmbedder(tmp_path)
        with pytest.raises(Unavailable, match="load"):
            assert fresh.space
        for _ in range(2):
            with pytest.raises(Unavailable, match=str(tmp_path)):
                await fresh.query("hello")
        shutil.copy(files.model, tmp_path / "model.onnx")
        shutil.copy(files.tokenizer, tmp_path / "tokenizer.json")
        await fresh.load()
        assert (fresh.space, fresh.dimensions) == (OnnxEmbedder().space, DIMENSIONS)
        fresh.close()

    asyncio.run(twice())


def test_other_bytes_than_the_pinned_ones_are_refused_by_both_hashes(tmp_path: Path) -> None:
    files = find_files(None)
    changed = tmp_path / "tokenizer.json"
    changed.write_bytes(files.tokenizer.read_bytes() + b"\n")
    with pytest.raises(Unavailable) as refused:
        OnnxModel(replace(files, tokenizer=changed), threads=1)
    assert str(changed) in refused.value.message
    assert files.tokenizer_sha256
    assert files.tokenizer_sha256 in refused.value.message


def test_a_missing_pinned_file_is_named_with_its_hash(tmp_path: Path) -> None:
    files = replace(find_files(None), model=tmp_path / "model.onnx")
    with pytest.raises(Unavailable, match=MODEL_SHA256):
        OnnxModel(files, threads=1)


def test_a_file_that_is_no_model_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(b"\xff" * 100)
    shutil.copy(find_files(None).tokenizer, tmp_path / "tokenizer.json")
    with pytest.raises(Unavailable, match="cannot be loaded"):
        OnnxModel(find_files(tmp_path), threads=1)


def test_long_text_has_the_tokens_that_the_whole_text_would_have(model: OnnxModel) -> None:
    for text in ("word " * 20_000, " " * 30_000 + "late " * 400, "unbreakable" * 9_000, WORDS * 372 + "end"):
        whole = model._tokenizer.encode(text)
        tokens = model.tokenise(text)
        assert list(tokens.ids) == whole.ids
        assert tokens.cut == bool(whole.overflowing)


def test_padding_does_not_change_a_vector(model: OnnxModel) -> None:
    short, long = model.tokenise("short").ids, model.tokenise("a much longer text " * 10).ids
    padded, _ = model.run([short, long])
    assert padded @ model.run([short])[0] == pytest.approx(1.0, abs=1e-5)


def test_the_changed_graph_gives_the_same_numbers_bit_for_bit(model: OnnxModel) -> None:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    original = onnxruntime.InferenceSession(
        str(find_files(None).model), options, providers=["CPUExecutionProvider"]
    )
    ids = np.random.default_rng(3).integers(0, 30_522, (3, 20))
    feed = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
    assert np.array_equal(original.run(None, feed)[0], model._session.run(None, feed)[0])


def test_a_model_without_that_table_stays_as_it_is() -> None:
    data = find_files(None).model.read_bytes()
    assert look_up_before_widening(data, "no such table") == data


@pytest.mark.parametrize("data", [b"\x0a", b"\x0a\x05abc", b"\x0b", b"\xff" * 11, b"\x3a\x02\x0a\x09"])
def test_bytes_that_are_no_protobuf_message_are_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="byte"):
        look_up_before_widening(data, "table")


def test_a_container_quota_bounds_the_processors(tmp_path: Path) -> None:
    (tmp_path / "cpu.max").write_text("100000 100000\n")
    assert available_cpus(tmp_path) == 1
    (tmp_path / "cpu.max").write_text("max 100000\n")
    unbounded = available_cpus(tmp_path)
    assert unbounded == available_cpus(tmp_path / "absent") >= 1
    (tmp_path / "cpu.max").unlink()
    (tmp_path / "cpu").mkdir()
    (tmp_path / "cpu" / "cpu.cfs_quota_us").write_text("50000\n")
    (tmp_path / "cpu" / "cpu.cfs_period_us").write_text("100000\n")
    assert available_cpus(tmp_path) == 1
