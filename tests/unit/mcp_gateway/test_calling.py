"""Deadlines, idempotency keys and retries of one call, in virtual time."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from typing import Any

import pytest

from mcp_gateway.calling import Calls, defect, new_idempotency_key
from mcp_gateway.operations import OPERATIONS
from mcp_gateway.tools import TOOLS
from proto.errors import Conflict, Forbidden, HyphaeError, Internal, Overloaded, Unavailable, Uncertain
from proto.messages import Reply

ARGS = {"content": "x", "cell_type": "Fact"}
STORED = Reply(result={"node_id": "n"})


class Scripted:
    """A door that answers from a list, and a clock that only sleeping and answering move."""

    def __init__(self, *outcomes: HyphaeError | Reply, took_ms: int = 0) -> None:
        self.outcomes = list(outcomes)
        self.took_ms = took_ms
        self.now_ms = 1_000_000
        self.slept: list[float] = []
        self.asked: list[tuple[str, Mapping[str, Any], int]] = []

    async def door(self, method: str, args: Mapping[str, Any], deadline_ms: int) -> Reply:
        self.asked.append((method, args, deadline_ms))
        self.now_ms += self.took_ms
        outcome = self.outcomes.pop(0) if len(self.outcomes) > 1 else self.outcomes[0]
        return outcome if isinstance(outcome, Reply) else Reply(error=outcome)

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now_ms += round(seconds * 1000)

    def call(self, method: str = "store", args: Mapping[str, Any] = ARGS) -> Reply:
        calls = Calls(30_000, lambda: self.now_ms, self.sleep, lambda: "kabc")
        spec = TOOLS.get(method) or OPERATIONS[method]
        return asyncio.run(calls.call(spec, args, self.door))


def error_of(reply: Reply) -> HyphaeError:
    assert reply.error is not None
    assert len(f"{reply.error.code}: {reply.error.message}") <= 300
    return reply.error


def test_a_store_without_key_is_given_one_and_one_with_a_key_keeps_it() -> None:
    made, given = Scripted(STORED), Scripted(STORED)
    assert made.call() == STORED
    given.call(args={**ARGS, "idempotency_key": "mine"})
    assert made.asked[0][1]["idempotency_key"] == "kabc"
    assert given.asked[0][1]["idempotency_key"] == "mine"


def test_a_made_key_is_short_random_text() -> None:
    keys = {new_idempotency_key() for _ in range(1000)}
    assert len(keys) == 1000
    assert all(re.fullmatch(r"k[a-z2-7]{12}", key) for key in keys)


@pytest.mark.parametrize("error", [Uncertain("lost."), Unavailable("away."), Overloaded("full.")])
def test_a_store_is_repeated_with_the_same_key_until_it_is_answered(error: HyphaeError) -> None:
    script = Scripted(error, error, STORED)
    assert script.call() == STORED
    assert [args["idempotency_key"] for _, args, _ in script.asked] == ["kabc"] * 3


@pytest.mark.parametrize("error", [Forbidden("no."), Conflict("used."), Internal("broken.")])
def test_what_another_attempt_cannot_mend_is_not_repeated(error: HyphaeError) -> None:
    script = Scripted(error)
    error_of(script.call())
    assert len(script.asked) == 1


def test_the_retry_hint_is_honoured() -> None:
    script = Scripted(Overloaded("full.", retry_after_ms=2_500), STORED)
    script.call()
    assert script.slept == [2.5]


def test_attempts_are_bounded_in_number_and_time() -> None:
    quick = Scripted(Overloaded("full."))
    error_of(quick.call())
    assert len(quick.asked) == 6
    slow = Scripted(Uncertain("lost."), took_ms=10_000)
    error_of(slow.call())
    assert slow.now_ms - 1_000_000 <= 31_000
    few = Scripted(Overloaded("full."))
    calls = Calls(30_000, lambda: few.now_ms, few.sleep, lambda: "kabc", attempts=2)
    error_of(asyncio.run(calls.call(TOOLS["store"], ARGS, few.door)))
    assert len(few.asked) == 2
    late = Scripted(Overloaded("full.", retry_after_ms=60_000))
    error_of(late.call())
    assert late.slept == []


def test_a_peer_that_is_certainly_away_is_not_waited_for_long() -> None:
    script = Scripted(Unavailable("no peer could be reached within 5 s."), took_ms=5_000)
    error = error_of(script.call())
    assert script.now_ms - 1_000_000 <= 11_000
    assert error.message == (
        "no peer could be reached within 5 s. Nothing was stored. Work on; store it again later."
    )


def test_the_final_error_in_doubt_names_the_key() -> None:
    error = error_of(Scripted(Uncertain("no answer in time.")).call())
    assert not error.definite
    assert error.message == (
        "no answer in time. It may have been stored. "
        'To repeat it safely call store again with idempotency_key "kabc".'
    )


def test_doubt_of_one_attempt_remains_when_the_last_one_is_definite() -> None:
    error = error_of(Scripted(Uncertain("lost."), Forbidden("the key was revoked.")).call())
    assert error.code == "forbidden"
    assert not error.definite
    assert "It may have been stored." in error.message
    assert '"kabc"' in error.message


def test_a_definite_error_says_that_nothing_was_stored_once() -> None:
    assert error_of(Scripted(Forbidden("reads only.")).call()).message == "reads only. Nothing was stored."
    said = Forbidden("reads only. Nothing was stored. Ask for another key.")
    assert error_of(Scripted(said).call()).message == said.message
    full = error_of(Scripted(Overloaded("full.", retry_after_ms=60_000)).call())
    assert full.message == "full. Nothing was stored. Try again in 60 s."
    assert full.retry_after_ms == 60_000


def test_a_long_message_is_cut_before_what_the_caller_must_know() -> None:
    error = error_of(Scripted(Uncertain("x" * 1000)).call())
    assert error.message.endswith('"kabc".')


@pytest.mark.parametrize(
    ("method", "text"),
    [
        ("recall", "lost. Nothing was searched. Work on; call recall again later."),
        (
            "place_beacon",
            "lost. It may have been done. Call place_beacon again with the same arguments: it stays one beacon.",
        ),
        (
            "drain_inbox",
            "lost. It may have been done. Call drain_inbox again: a page that you did not get is listed again.",
        ),
        (
            "open_session",
            "lost. It may have been done."
            " Call open_session again: its open_sessions shows whether one was opened.",
        ),
    ],
)
def test_nothing_but_a_store_is_repeated(method: str, text: str) -> None:
    script = Scripted(Uncertain("lost."))
    assert error_of(script.call(method, {})).message == text
    assert len(script.asked) == 1


def test_a_bulk_store_is_explained_but_not_repeated() -> None:
    script = Scripted(Uncertain("lost."))
    text = error_of(script.call("store_bulk", {"cells": [{}]})).message
    assert text.startswith("lost. It may have been stored. Send it again if each cell has an idempotency_key")
    assert len(script.asked) == 1


def test_a_request_carries_its_deadline() -> None:
    script = Scripted(STORED)
    script.call("recall", {"query": "x"})
    assert script.asked[0][2] == 1_030_000


@pytest.mark.parametrize(
    ("method", "definite"), [("recall", True), ("place_beacon", False), ("store", False)]
)
def test_a_door_that_hangs_is_given_up(method: str, definite: bool) -> None:
    async def hang(method: str, args: Mapping[str, Any], deadline_ms: int) -> Reply:
        await asyncio.Event().wait()
        raise AssertionError

    calls = Calls(call_ms=0)
    reply = asyncio.run(calls.call(TOOLS[method], ARGS, hang))
    error = error_of(reply)
    assert (error.code, error.definite) == ("unavailable", definite)


def test_a_clock_set_back_within_a_call_does_not_make_it_wait_for_longer() -> None:
    readings = iter([10_000_000, 6_400_000])

    async def hangs(_method: str, _args: Mapping[str, Any], _deadline_ms: int) -> Reply:
        await asyncio.Event().wait()
        raise AssertionError

    calls = Calls(10, lambda: next(readings))
    assert error_of(asyncio.run(calls.call(TOOLS["recall"], {}, hangs))).code == "unavailable"


def test_a_defect_is_described_by_type_and_place_only() -> None:
    try:
        int("a secret")
    except ValueError as error:
        shown = defect(error)
    assert shown["error"] == "ValueError"
    assert shown["where"].startswith("test_calling.py:")
    assert "a secret" not in str(shown)
