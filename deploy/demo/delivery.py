"""What an agent finds in its inbox, and whether it is what was foreseen: each entry once, whole and right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from deploy.demo.agents import McpAgent
from deploy.demo.checking import claim, until
from deploy.demo.corpus import Memory
from deploy.demo.forecast import Forecast

PAGE_BYTES = 45_000


def waiting_entries(agent: McpAgent) -> list[dict[str, Any]]:
    """Return what waits in an agent's inbox, without marking anything as read."""
    look = agent.call("drain_inbox", advance=False, limit=500, max_bytes=PAGE_BYTES).result
    return list(look["diffs"])


def by_content(diffs: Sequence[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """Return entries of an inbox by their content."""
    return {str(diff.get("content", "")): diff for diff in diffs}


def until_in_inbox(agent: McpAgent, content: str, deadline_s: float) -> None:
    """Look into an inbox until a memory is there.

    Raises:
        StoryFailed: the deadline passed.
    """

    def seen() -> bool | None:
        return content in by_content(waiting_entries(agent)) or None

    until(seen, deadline_s, lambda: f'"{content[:60]}..." is not in the inbox of {agent.name}.')


def check_exact(
    forecast: Forecast,
    memories: Sequence[Memory],
    diffs: Sequence[Mapping[str, Any]],
    node_ids: dict[str, str],
) -> None:
    """Claim that entries are exactly the foreseen ones, each once, complete and with the foreseen score."""
    found, due = by_content(diffs), forecast.due(memories)
    strange, missing = sorted(set(found) - due), sorted(due - set(found))
    claim(not strange, f"{len(strange)} entries arrived that ought not to have, such as {strange[:1]}.")
    claim(not missing, f"{len(missing)} entries did not arrive that ought to have, such as {missing[:1]}.")
    claim(len(diffs) == len(due), f"{len(diffs)} entries arrived for {len(due)} memories.")
    memory_of = {memory.content: memory for memory in memories}
    for content, diff in found.items():
        memory = memory_of[content]
        wanted = {
            "kind": "created",
            "node_id": node_ids[content],
            "source_agent": memory.agent,
            "project": memory.project,
            "cell_type": memory.cell_type,
        }
        wrong = {name: diff.get(name) for name, value in wanted.items() if diff.get(name) != value}
        claim(not wrong, f'the entry of "{content[:60]}..." says {wrong}, not {wanted}.')
        score = round(similarity(diff) * 10_000)
        claim(
            score == forecast.scores[content],
            f'"{content[:60]}..." has score {score} on the peer, but {forecast.scores[content]} here.',
        )


def similarity(diff: Mapping[str, Any]) -> float:
    """Return how near the best matching interest of an entry is; 0 for none."""
    return max((float(match["similarity"]) for match in diff.get("matched", ())), default=0.0)
