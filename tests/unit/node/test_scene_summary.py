"""Extractive summaries: sentences of members, central first, none twice, within their room."""

from __future__ import annotations

import random

from node.scene_summary import (
    SENTENCES,
    SUMMARY_CHARS,
    TITLE_CHARS,
    ExtractiveSummariser,
    Member,
    split_sentences,
    title_of,
)


def members(*contents: str) -> list[Member]:
    return [Member(bytes([n]), content, 10_000 - 100 * n) for n, content in enumerate(contents)]


def test_every_line_is_a_sentence_of_a_member() -> None:
    given = members(
        "Payments are retried four times. The bank drops 1 in 50.",
        "A retried payment keeps its idempotency key.",
        "Retries of payments are logged with the key; nobody reads the log.",
    )
    summary = ExtractiveSummariser().summarise(given)
    sentences = {s for m in given for s in split_sentences(m.content)}
    assert set(summary.text.splitlines()) <= sentences
    assert summary.title == "Payments are retried four times"
    assert set(summary.quoted) <= {m.cell for m in given}


def test_what_two_members_say_alike_is_said_once() -> None:
    same = "Payments are retried four times."
    summary = ExtractiveSummariser().summarise(members(same, same, "The bank drops one payment in fifty."))
    assert summary.text.splitlines().count(same) == 1
    assert len(summary.text.splitlines()) == 2


def test_a_sentence_that_repeats_another_gives_way_to_one_that_does_not() -> None:
    near = [f"The payment job retries failed payments every hour number {n}." for n in range(6)]
    summary = ExtractiveSummariser().summarise(members(*near, "The payment job is owned by billing."))
    assert "The payment job is owned by billing." in summary.text.splitlines()


def test_a_summary_has_room_for_few_sentences_only() -> None:
    long = [f"Sentence {n} about payments " + "and more " * 30 + "." for n in range(50)]
    summary = ExtractiveSummariser().summarise(members(*long))
    assert len(summary.text) <= SUMMARY_CHARS
    assert 1 <= len(summary.text.splitlines()) <= SENTENCES


def test_the_same_members_give_the_same_summary() -> None:
    rng = random.Random(7)
    words = ["payment", "retry", "bank", "key", "ledger", "invoice", "hour", "night", "queue", "order"]
    given = members(*(" ".join(rng.choices(words, k=9)) + "." for _ in range(40)))
    assert ExtractiveSummariser().summarise(given) == ExtractiveSummariser().summarise(list(given))


def test_texts_without_words_still_give_a_summary() -> None:
    for content in (" ", ".", "\u3002", "\n\n", "!?", "\U0001f344"):
        summary = ExtractiveSummariser().summarise(members(content, content, content))
        assert summary.text
        assert summary.title


def test_sentences_end_at_their_marks_and_at_line_ends() -> None:
    assert split_sentences('He said "stop." Then\nhe left! 東京です。次は?') == [
        'He said "stop.',
        "Then",
        "he left!",
        "東京です。",
        "次は?",
    ]


def test_a_title_is_cut_at_a_word() -> None:
    title = title_of("word " * 100)
    assert len(title) <= TITLE_CHARS
    assert title.endswith("word\u2026")
    assert len(title_of("x" * 1000)) == TITLE_CHARS
