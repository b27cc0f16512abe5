"""What every embedder promises, for each adapter; the ONNX one with its real model."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from node.embedding import TOKENS_MAX, Embedder
from node.hash_embedder import HashEmbedder
from node.onnx_embedder import OnnxEmbedder
from proto.errors import Invalid

TEXTS = [
    "The billing service retries a failed payment three times.",
    "Payments that fail are retried three times by the billing service.",
    "Penguins huddle together against the Antarctic wind.",
]
MAKERS: dict[str, Callable[[], Embedder]] = {"hash": HashEmbedder, "onnx": OnnxEmbedder}


@pytest.fixture(scope="module", params=list(MAKERS))
def embedder(request: pytest.FixtureRequest) -> Iterator[Embedder]:
    made = MAKERS[request.param]()
    yield made
    made.close()


def test_vectors_have_length_one_and_the_dimensions_of_the_space(embedder: Embedder) -> None:
    for embedding in asyncio.run(embedder.bulk(TEXTS)):
        assert embedding.vector.shape == (embedder.dimensions,)
        assert embedding.vector.dtype == np.float32
        assert np.linalg.norm(embedding.vector) == pytest.approx(1.0, abs=1e-5)


def test_the_space_has_a_printable_ascii_name(embedder: Embedder) -> None:
    assert embedder.space.isascii()
    assert embedder.space.isprintable()
    assert 0 < len(embedder.space) <= 200


def test_bulk_answers_in_the_order_of_its_input(embedder: Embedder) -> None:
    texts = [f"{'word ' * n}number {n}" for n in (40, 1, 90, 7, 3, 60, 2)]
    many = asyncio.run(embedder.bulk(texts))
    for text, embedding in zip(texts, many, strict=True):
        alone = asyncio.run(embedder.query(text))
        assert alone.vector @ embedding.vector == pytest.approx(1.0, abs=1e-4)


def test_query_store_and_bulk_give_the_same_vector(embedder: Embedder) -> None:
    async def all_three() -> list[np.ndarray]:
        query, store = await embedder.query(TEXTS[0]), await embedder.store(TEXTS[0])
        return [query.vector, store.vector, (await embedder.bulk(TEXTS[:1]))[0].vector]

    first, *others = asyncio.run(all_three())
    for other in others:
        assert first @ other == pytest.approx(1.0, abs=1e-5)


def test_nothing_embedded_is_an_empty_answer(embedder: Embedder) -> None:
    assert asyncio.run(embedder.bulk([])) == []


def test_texts_that_share_words_are_more_alike_than_others(embedder: Embedder) -> None:
    same, alike, other = (e.vector for e in asyncio.run(embedder.bulk(TEXTS)))
    assert same @ alike > 0.5 > 0.3 > same @ other


def test_only_text_beyond_the_window_is_cut(embedder: Embedder) -> None:
    async def cuts() -> list[bool]:
        lengths = (1, TOKENS_MAX - 2, TOKENS_MAX + 1, 20 * TOKENS_MAX)
        return [(await embedder.query("word " * n)).cut for n in lengths]

    assert asyncio.run(cuts()) == [False, False, True, True]


@pytest.mark.parametrize(
    "text", ["a\0b", " ", "\u200b", "🚀", "東京", "ﬁ\u0301", "x" * 70_000, "\n" * 70_000]
)
def test_odd_text_gets_a_vector(embedder: Embedder, text: str) -> None:
    assert np.isfinite(asyncio.run(embedder.query(text)).vector).all()


def test_a_lone_surrogate_is_refused_and_the_next_call_is_answered(embedder: Embedder) -> None:
    async def both() -> None:
        refused = embedder.bulk(["fine", "broken \ud800"])
        answered = embedder.bulk(["fine as well"])
        results = await asyncio.gather(refused, answered, return_exceptions=True)
        assert isinstance(results[0], Invalid)
        assert not isinstance(results[1], BaseException)

    asyncio.run(both())


def test_closing_twice_is_harmless() -> None:
    for make in MAKERS.values():
        made = make()
        made.close()
        made.close()


def test_a_cut_text_says_how_much_of_it_counts(embedder: Embedder) -> None:
    text = "word " * 400

    async def both() -> tuple[int, int]:
        return (await embedder.query(text)).chars, (await embedder.query("short text")).chars

    long, short = asyncio.run(both())
    assert short == len("short text")
    assert 1_000 < long < len(text)
    assert text[:long].endswith("word")
