"""The judge of the fuzzers finds what it is there to find."""

from __future__ import annotations

from typing import Any

import pytest

from tests.fuzz.effects import Watched, check, parsed
from tests.support.running_mesh import running_peer

OK = {"jsonrpc": "2.0", "id": 1, "result": {"structuredContent": {}, "isError": False, "content": []}}


def error(number: int, message: str, **data: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "error": {"code": number, "message": message, "data": data}}


@pytest.mark.parametrize(
    "answer",
    [
        error(-32603, "internal: a defect"),
        error(4040, "no such thing", code="not_found"),
        error(4040, "not_found: " + "x" * 300, code="not_found"),
        {"jsonrpc": "2.0", "id": 1.5, "result": {}},
        {"jsonrpc": "2.0", "id": 1},
        {**OK, "error": {}},
        {"jsonrpc": "2.0", "id": 1, "result": {"isError": True, "content": [{"type": "text", "text": "oh"}]}},
        [OK],
    ],
)
def test_answers_that_break_a_rule_fail(answer: Any) -> None:
    with pytest.raises((AssertionError, KeyError)):
        check(answer)


def test_numbers_that_json_does_not_have_fail() -> None:
    with pytest.raises(AssertionError):
        parsed(b'{"distance": NaN}')


def test_an_event_behind_a_refusal_or_a_read_fails() -> None:
    with running_peer() as peer:
        watched = Watched(peer.operator())
        agent = peer.new_agent()
        watched.events = watched.count()
        agent("place_beacon", interest="*")
        with pytest.raises(AssertionError, match="1 events behind"):
            watched.judge([error(4040, "not_found: none", code="not_found")])
        agent("place_beacon", interest="payments")
        with pytest.raises(AssertionError, match="1 events behind"):
            watched.judge([OK], reads=True)
        watched.judge([OK], reads=True)
