"""The demo's corpus is well-formed real text.

Checks `deploy/demo/memories.jsonl` as data: its shape, its limits and its mixture. It knows nothing of
embeddings and runs no peer; which memories a beacon matches is measured elsewhere.
"""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

CORPUS = Path(__file__).parents[2] / "deploy" / "demo" / "memories.jsonl"
AGENTS = {"billing-claude", "web-cursor", "ops-cline", "data-agent", "mobile-agent", "security-reviewer"}
PROJECTS = {"billing", "web", "ops", "mobile", "data"}
CORE_TYPES = {"Decision", "Constraint", "Lesson"}
CELL_TYPES = CORE_TYPES | {"Risk", "Fact", "Pattern"}
TOPICS = {"payment-retries", "migrations", "offline-sync"}
REQUIRED_FIELDS = {"agent", "project", "cell_type", "salience", "tags", "content"}
CONTENT_BYTES_MAX = 65_536
CONTENT_CHARS_MIN, CONTENT_CHARS_MAX = 80, 500


def reject_repeated_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Build an object from its pairs, refusing a key that occurs twice (plain `json` keeps the last)."""
    fields = dict(pairs)
    assert len(fields) == len(pairs), f"a key occurs twice: {[key for key, _ in pairs]}"
    return fields


@pytest.fixture(scope="module")
def memories() -> list[dict[str, Any]]:
    lines = CORPUS.read_bytes().decode("utf-8").removesuffix("\n").split("\n")
    return [json.loads(line, object_pairs_hook=reject_repeated_keys) for line in lines]


def test_every_memory_has_exactly_the_documented_fields(memories: list[dict[str, Any]]) -> None:
    for memory in memories:
        assert set(memory) - {"about"} == REQUIRED_FIELDS
        assert type(memory["salience"]) is float
        assert 0.0 <= memory["salience"] <= 1.0


def test_agents_projects_and_types_are_the_listed_ones(memories: list[dict[str, Any]]) -> None:
    assert {memory["agent"] for memory in memories} == AGENTS
    assert {memory["project"] for memory in memories} == PROJECTS
    assert {memory["cell_type"] for memory in memories} == CELL_TYPES


def test_at_least_200_are_decisions_constraints_and_lessons(memories: list[dict[str, Any]]) -> None:
    counts = Counter(memory["cell_type"] for memory in memories)
    assert len(memories) >= 220
    assert sum(counts[cell_type] for cell_type in CORE_TYPES) >= 200
    assert min(counts[cell_type] for cell_type in CORE_TYPES) >= 60


def test_every_agent_wrote_several_decisions_constraints_and_lessons(memories: list[dict[str, Any]]) -> None:
    counts = Counter((memory["agent"], memory["cell_type"]) for memory in memories)
    assert all(counts[agent, cell_type] >= 5 for agent in AGENTS for cell_type in CORE_TYPES)


def test_no_two_memories_have_the_same_words(memories: list[dict[str, Any]]) -> None:
    wordings = Counter(" ".join(memory["content"].casefold().split()) for memory in memories)
    assert [wording for wording, count in wordings.items() if count > 1] == []


def test_every_content_is_within_the_limits(memories: list[dict[str, Any]]) -> None:
    for memory in memories:
        content = memory["content"]
        assert content == content.strip()
        assert CONTENT_CHARS_MIN <= len(content) <= CONTENT_CHARS_MAX
        assert 1 <= len(content.encode("utf-8")) <= CONTENT_BYTES_MAX
        assert content.isprintable(), "control characters belong into a test of bad input, not here"


def test_no_text_holds_a_lone_surrogate(memories: list[dict[str, Any]]) -> None:
    for memory in memories:
        text = json.dumps(memory, ensure_ascii=False)
        assert not any("\ud800" <= character <= "\udfff" for character in text)


def test_tags_are_within_the_limits_and_distinct(memories: list[dict[str, Any]]) -> None:
    for memory in memories:
        tags = memory["tags"]
        assert 1 <= len(tags) <= 32
        assert len(set(tags)) == len(tags)
        assert all(1 <= len(tag) <= 64 for tag in tags)


def test_each_labelled_topic_has_at_least_ten_memories(memories: list[dict[str, Any]]) -> None:
    labels = Counter(topic for memory in memories for topic in memory.get("about", []))
    assert set(labels) == TOPICS
    assert min(labels.values()) >= 10
    assert sum("about" not in memory for memory in memories) >= 150


def test_the_corpus_speaks_more_than_english(memories: list[dict[str, Any]]) -> None:
    everything = "".join(memory["content"] for memory in memories)
    assert any("\u3040" <= character <= "\u30ff" for character in everything), "Japanese"
    assert any("\u0400" <= character <= "\u04ff" for character in everything), "Ukrainian"
    assert any(character in "äöüß" for character in everything), "German"
    assert "\u2693" in everything, "an emoji"
