"""Replies that are lost, peers that are away or full: what an agent is told, and what it does then."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest

from mcp_gateway.calling import Calls, Door
from proto.errors import HyphaeError, Internal, Overloaded, Unavailable, Uncertain
from proto.messages import KeyCredential, Reply, Request
from tests.situations.stage import Stage, situation_without_model
from tests.support.mcp_agent import McpAgent

DECISION = {"content": "Deploys happen at noon.", "cell_type": "Decision"}


async def at_once(seconds: float) -> None:
    """Wait for nothing: how long a gateway waits is not the matter here."""


class Broken:
    """A way to a peer that answers with these errors first, before or after the peer has done its work.

    Args:
        done: the peer does what was asked before the reply is lost.
    """

    def __init__(self, stage: Stage, key: str, errors: list[HyphaeError], *, done: bool) -> None:
        self._service, self._credential = stage.peer.core.service, KeyCredential(key)
        self._errors, self._done = errors, done
        self.asked = 0

    async def door(self, method: str, args: Mapping[str, Any], deadline_ms: int) -> Reply:
        self.asked += 1
        request = Request(method, args, deadline_ms, self._credential)
        if not self._errors:
            return await self._service.request(request)
        if self._done:
            await self._service.request(request)
        return Reply(error=self._errors.pop(0))


async def with_broken_way(
    stage: Stage, errors: list[HyphaeError], *, done: bool = False, attempts: int = 1
) -> McpAgent:
    key = (await stage.key("alice"))["key"]
    door: Door = Broken(stage, key, errors, done=done).door
    return McpAgent(stage.peer, key, door=door, calls=Calls(sleep=at_once, attempts=attempts))


@situation_without_model
async def test_a_store_in_doubt_is_repeated_with_the_key_that_the_error_names(stage: Stage) -> None:
    alice = await with_broken_way(stage, [Uncertain("no answer in time.")], done=True)
    doubt = await alice("store", **DECISION)
    found = re.fullmatch(
        r"unavailable: no answer in time\. It may have been stored\. To repeat it safely call store again with"
        r' idempotency_key "(k[a-z2-7]{12})"\.',
        doubt.error,
    )
    assert found is not None
    stored = await alice("store", **DECISION, idempotency_key=found[1])
    held = await alice("recall", query="deploys", include_content=True)
    assert [r["node_id"] for r in held["results"]] == [stored["node_id"]], "one memory, not two"


@situation_without_model
async def test_an_idempotency_key_is_not_taken_for_another_memory(stage: Stage) -> None:
    alice = await stage.agent("alice")
    await alice("store", **DECISION, idempotency_key="noon")
    other = {**DECISION, "content": "Deploys happen at midnight."}
    assert (await alice("store", **other, idempotency_key="noon")).error == (
        "conflict: this idempotency_key already names another memory. Nothing was stored."
        " Leave idempotency_key out: it is only to repeat the same store, unchanged."
    )
    assert "node_id" in await alice("store", **other)


@situation_without_model
async def test_a_short_overload_is_waited_out_without_a_word(stage: Stage) -> None:
    full = Overloaded("too many calls wait. Nothing was stored.", retry_after_ms=100)
    alice = await with_broken_way(stage, [full], attempts=6)
    assert "node_id" in await alice("store", **DECISION)


@pytest.mark.parametrize(
    ("tool", "arguments", "error", "text"),
    [
        (
            "store",
            DECISION,
            Unavailable("no peer could be reached within 5 s."),
            "unavailable: no peer could be reached within 5 s. Nothing was stored. Work on; store it again later.",
        ),
        (
            "recall",
            {"query": "deploys"},
            Unavailable("no peer could be reached within 5 s."),
            "unavailable: no peer could be reached within 5 s. Nothing was searched."
            " Work on; call recall again later.",
        ),
        (
            "store",
            DECISION,
            Overloaded(
                "40 calls of this key are under way, limit 32. Nothing was done.", retry_after_ms=2_000
            ),
            "overloaded: 40 calls of this key are under way, limit 32. Nothing was stored. Try again in 2 s.",
        ),
        (
            "recall",
            {"query": "deploys"},
            Overloaded("2049 texts would wait to be embedded, limit 2048. Nothing was embedded."),
            "overloaded: 2049 texts would wait to be embedded, limit 2048. Nothing was searched."
            " Try again in 1 s.",
        ),
        (
            "drain_inbox",
            {},
            Overloaded("this key makes more than 500 calls/s (bursts of 1000). Nothing was done."),
            "overloaded: this key makes more than 500 calls/s (bursts of 1000)."
            " Your place in the inbox is unchanged. Try again in 1 s.",
        ),
        (
            "open_session",
            {},
            Uncertain("no answer within 30 s."),
            "unavailable: no answer within 30 s. It may have been done."
            " Call open_session again: its open_sessions shows whether one was opened.",
        ),
        (
            "recall",
            {"query": "deploys"},
            Internal("a defect of the peer; details are in its log. It may have been stored."),
            "internal: a defect of the peer; details are in its log. Nothing was searched."
            " Call recall once more; if it fails again, tell the operator of the mesh.",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) and value.isidentifier() else "",
)
def test_what_is_away_or_full_says_what_became_of_the_call_and_works_later(
    small_stage: Stage, tool: str, arguments: dict[str, Any], error: HyphaeError, text: str
) -> None:
    async def play() -> None:
        alice = await with_broken_way(small_stage, [error])
        assert (await alice(tool, **arguments)).error == text
        assert not (await alice(tool, **arguments)).failed, "again, as the text says"

    small_stage.runner.run(play())
