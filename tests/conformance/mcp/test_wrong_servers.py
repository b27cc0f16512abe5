"""A suite that lets wrong servers through proves nothing: each wrong server here must fail the test beside it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest

from tests.conformance.mcp import (
    test_batches,
    test_errors,
    test_http,
    test_lifecycle,
    test_modern,
    test_tools_call,
    test_tools_list,
    test_wire,
)
from tests.conformance.mcp.harness import Client, Link
from tests.conformance.mcp.shared_peer import SharedPeer
from tests.conformance.mcp.spoils import (
    Spoil,
    WrongLink,
    all_parts_answered,
    always_answered,
    any_version,
    as_it_is,
    first_tools_swapped,
    id_as_text,
    instead,
    last_tool_missing,
    refused,
    setting,
)

Test = Callable[..., None]
Row = tuple[str, Spoil, tuple[Any, ...]]
"""Revision, way to be wrong, values of the test's other parameters."""

FAILURES = (AssertionError, KeyError, TypeError, AttributeError, jsonschema.SchemaError)
OLD, NEW = "2025-11-25", "2026-07-28"
WORDLESS = {"content": [{"type": "text", "text": "not_found: no"}], "isError": True}
TOOL = ("result", "tools", 0)
WRONG: dict[Test, list[Row]] = {
    test_lifecycle.test_any_other_version_or_none_is_answered_with_the_newest: [
        (OLD, any_version, ({"protocolVersion": NEW},)),
    ],
    test_lifecycle.test_the_answer_to_initialize_has_exactly_its_members: [
        (OLD, setting("result", "capabilities", to={"tools": {}, "logging": {}}), ()),
        (OLD, setting("result", "serverInfo", to=...), ()),
    ],
    test_lifecycle.test_initialized_is_accepted_without_an_answer: [
        (OLD, always_answered, ()),
    ],
    test_lifecycle.test_ping_is_answered_with_an_empty_object_at_any_time: [
        (OLD, setting("result", "ok", to=True), ()),
    ],
    test_lifecycle.test_results_have_nothing_of_a_later_revision: [
        (OLD, setting("result", "resultType", to="complete"), ()),
    ],
    test_wire.test_an_id_is_echoed_with_its_value_and_type: [
        (OLD, id_as_text, ()),
        (OLD, setting("id", to=None), ()),
        (NEW, setting("jsonrpc", to="1.0"), ()),
    ],
    test_wire.test_an_id_that_is_no_string_and_no_integer_is_an_invalid_request: [
        (OLD, setting("error", "code", to=-32602), (None,)),
        (OLD, setting("id", to=...), (1.5,)),
    ],
    test_wire.test_what_is_no_json_is_a_parse_error_with_the_id_null: [
        (OLD, setting("error", "code", to=-32600), (b"{",)),
    ],
    test_wire.test_what_is_no_request_is_an_invalid_request_with_the_id_that_could_be_read: [
        (
            OLD,
            setting("id", to=None),
            (
                {"jsonrpc": "2.0", "id": 1},
                1,
            ),
        ),
    ],
    test_wire.test_a_message_without_an_id_is_never_answered: [
        (OLD, always_answered, ()),
    ],
    test_wire.test_an_answer_from_the_client_is_ignored: [
        (OLD, always_answered, ({"result": {}},)),
    ],
    test_wire.test_a_method_that_is_not_offered_does_not_exist: [
        (OLD, setting("error", "code", to=-32602), ()),
        (OLD, instead({}), ()),
    ],
    test_wire.test_any_text_of_unicode_goes_there_and_back: [
        (OLD, setting("result", "structuredContent", "results", to=[]), ()),
    ],
    test_batches.test_a_batch_gets_one_answer_for_each_request_and_none_for_a_notification: [
        ("2025-03-26", all_parts_answered, ()),
    ],
    test_batches.test_an_empty_batch_is_one_invalid_request: [
        (OLD, lambda m, a: [a], ()),
    ],
    test_batches.test_a_batch_in_any_other_revision_is_one_invalid_request_and_nothing_of_it_happens: [
        (OLD, instead([]), ()),
    ],
    test_tools_list.test_the_roster_is_the_eleven_tools_in_their_order: [
        (OLD, last_tool_missing, ()),
        (OLD, first_tools_swapped, ()),
    ],
    test_tools_list.test_the_list_is_one_page: [
        (OLD, setting("result", "nextCursor", to="x"), ()),
    ],
    test_tools_list.test_a_cursor_that_was_never_given_out_is_refused: [
        (OLD, instead({"tools": []}), ("x",)),
    ],
    test_tools_list.test_each_tool_states_all_four_hints: [
        (OLD, setting(*TOOL, "annotations", "openWorldHint", to=...), ()),
        (OLD, setting(*TOOL, "annotations", "destructiveHint", to=True), ()),
    ],
    test_tools_list.test_no_schema_knows_an_argument_that_says_who_calls: [
        (OLD, setting(*TOOL, "inputSchema", "properties", "tenant_id", to={"type": "string"}), ()),
    ],
    test_tools_list.test_each_property_is_an_object_schema_of_one_type_without_references: [
        (OLD, setting(*TOOL, "inputSchema", "properties", "content", to=True), ()),
    ],
    test_tools_list.test_each_schema_is_valid_in_the_default_dialect: [
        (OLD, setting(*TOOL, "inputSchema", "properties", "content", to={"type": "strings"}), ()),
    ],
    test_tools_list.test_a_descriptor_has_exactly_its_members: [
        (OLD, setting(*TOOL, "outputSchema", to={"type": "object"}), ()),
    ],
    test_tools_call.test_a_success_has_the_payload_as_text_and_as_an_object: [
        (OLD, setting("result", "isError", to=...), ("list_beacons",)),
        (OLD, setting("result", "structuredContent", to=...), ("list_beacons",)),
        (OLD, setting("result", "structuredContent", to={"other": 1}), ("recall",)),
        (NEW, setting("result", "structuredContent", to=[]), ("recall",)),
    ],
    test_tools_call.test_a_wrong_argument_is_a_tool_error_and_reaches_no_service: [
        (
            OLD,
            refused(-32602),
            (
                "recall",
                {},
            ),
        ),
        (
            OLD,
            setting("result", "isError", to=False),
            (
                "recall",
                {},
            ),
        ),
    ],
    test_tools_call.test_a_tool_that_does_not_exist_is_a_protocol_error: [
        (OLD, instead(WORDLESS), ()),
    ],
    test_errors.test_an_error_of_the_service_is_a_json_rpc_error_that_begins_with_its_code_word: [
        (OLD, instead(WORDLESS), ()),
        (OLD, setting("error", "code", to=-32002), ()),
        (OLD, setting("error", "data", to=...), ()),
        (NEW, setting("error", "message", to="no such scene"), ()),
    ],
    test_modern.test_discovery_tells_exactly_what_there_is: [
        (NEW, setting("result", "supportedVersions", to=[NEW]), ()),
        (NEW, setting("result", "serverInfo", to={}), ()),
    ],
    test_modern.test_every_result_is_complete_and_says_who_made_it: [
        (NEW, setting("result", "resultType", to=...), ()),
        (NEW, setting("result", "_meta", to=...), ()),
    ],
    test_modern.test_discovery_and_the_roster_say_how_long_they_hold_and_calls_do_not: [
        (NEW, setting("result", "ttlMs", to=1), ()),
        (NEW, setting("result", "cacheScope", to=...), ()),
    ],
    test_modern.test_a_version_that_is_not_spoken_so_is_refused_with_those_that_are: [
        (NEW, setting("error", "data", "supported", to=[OLD]), (OLD,)),
        (NEW, setting("error", "code", to=-32602), (OLD,)),
    ],
    test_modern.test_methods_of_other_revisions_do_not_exist_here: [
        (NEW, instead({}), ("ping",)),
    ],
}
WRONG_STATUSES: dict[Test, list[tuple[str, int, tuple[Any, ...]]]] = {
    test_wire.test_a_message_without_an_id_is_never_answered: [
        (OLD, 200, ()),
    ],
    test_wire.test_what_is_no_json_is_a_parse_error_with_the_id_null: [
        (OLD, 200, (b"{",)),
    ],
    test_wire.test_a_method_that_is_not_offered_does_not_exist: [
        (OLD, 404, ()),
        (NEW, 200, ()),
    ],
    test_tools_call.test_a_tool_that_does_not_exist_is_a_protocol_error: [
        (OLD, 400, ()),
    ],
    test_modern.test_a_version_that_is_not_spoken_so_is_refused_with_those_that_are: [
        (NEW, 200, (OLD,)),
    ],
    test_modern.test_an_envelope_without_a_version_or_capabilities_is_invalid: [
        (NEW, 200, ({},)),
    ],
    test_errors.test_an_error_of_the_service_is_a_json_rpc_error_that_begins_with_its_code_word: [
        (OLD, 500, ()),
        (NEW, 404, ()),
    ],
    test_http.test_what_is_no_message_is_400: [
        (OLD, 200, ()),
    ],
}


def run(test: Test, client: Client, peer: SharedPeer, values: tuple[Any, ...]) -> None:
    """Run a conformance test with a client of its own."""
    known: dict[str, Any] = {"client": client, "peer": peer, "memory": client.link}
    names = list(inspect.signature(test).parameters)
    parameters = iter(values)
    test(*(known[name] if name in known else next(parameters) for name in names))


def cases(table: Mapping[Test, Sequence[tuple[Any, ...]]]) -> list[Any]:
    """Return one pytest case per row, named after the test and the place of the row."""
    return [
        pytest.param(test, *row, id=f"{test.__name__}-{number}")
        for test, rows in table.items()
        for number, row in enumerate(rows)
    ]


@pytest.mark.parametrize(("test", "revision", "spoil", "values"), cases(WRONG))
def test_a_spoiled_answer_fails(
    peer: SharedPeer, memory: Link, test: Test, revision: str, spoil: Spoil, values: tuple[Any, ...]
) -> None:
    memory.agree(revision)
    run(test, Client(WrongLink(memory, as_it_is), revision), peer, values)  # the right server passes
    memory.agree(revision)
    with pytest.raises(FAILURES):
        run(test, Client(WrongLink(memory, spoil), revision), peer, values)


@pytest.mark.parametrize(("test", "revision", "status", "values"), cases(WRONG_STATUSES))
def test_a_wrong_status_fails(
    peer: SharedPeer, http: Link, test: Test, revision: str, status: int, values: tuple[Any, ...]
) -> None:
    run(test, Client(http, revision), peer, values)
    with pytest.raises(AssertionError, match=f"{status} instead of"):
        run(test, Client(WrongLink(http, as_it_is, status), revision), peer, values)
