"""The tables of calls against the limits and names that other parts hold."""

from __future__ import annotations

import json

from mcp_gateway import argument_kinds, operations
from mcp_gateway.arguments import check
from mcp_gateway.tools import TOOLS
from proto import limits, payloads

EVERY_CALL = [*TOOLS.values(), *operations.OPERATIONS.values()]


def test_the_cell_types_are_those_of_the_events() -> None:
    assert argument_kinds.CELL_TYPES == payloads.CELL_TYPES


def test_every_method_is_found_once_and_by_its_name() -> None:
    names = [call.name for call in EVERY_CALL]
    assert len(names) == len(set(names))
    assert all(operations.find(name) is call for name, call in zip(names, EVERY_CALL, strict=True))
    assert operations.find("no_such_method") is None


def test_every_example_is_accepted_by_its_own_table() -> None:
    for call in EVERY_CALL:
        needed = {a.name: json.loads(a.example) if a.example else "text" for a in call.required}
        for argument in call.arguments:
            if argument.example:
                value = json.loads(argument.example)
                assert argument.name in check(call, {**needed, argument.name: value})


def test_limits_that_agents_must_know_are_said_to_them() -> None:
    assert str(limits.CONTENT_BYTES) in TOOLS["store"].description
    assert str(limits.CONTENT_ADVISED_CHARS) in TOOLS["store"].description
    budget = TOOLS["recall"].by_name["max_bytes"]
    assert str(limits.RESULT_BYTES) in budget.description


def test_what_only_reads_is_marked_apart_from_its_hints() -> None:
    for tool in TOOLS.values():
        assert tool.reads == tool.hints.read_only
