"""A suite that lets wrong servers through proves nothing: each spoiled answer here must fail the test beside it.

The servers are the real ones with one thing changed on the way back, as a faulty server would have it.
"""

from __future__ import annotations

import copy
import inspect
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import jsonschema
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
from tests.conformance.mcp.harness import Client, Headers, Link
from tests.conformance.mcp.model import Transport
from tests.conformance.mcp.reply import Reply
from tests.conformance.mcp.shared_peer import SharedPeer

Spoil = Callable[[Any, Any], Any]
"""Message and answer (None for none) to the wrong answer."""

FAILURES = (AssertionError, KeyError, TypeError, AttributeError, jsonschema.SchemaError)
OLD, NEW = "2025-11-25", "2026-07-28"
WORDLESS = {"content": [{"type": "text", "text": "not_found: no"}], "isError": True}


@dataclass(frozen=True, slots=True)
class WrongLink:
    """A link to a server that is wrong in one way.

    Args:
        link: to the right one.
        spoil: the way.
        status: of HTTP instead of the right one.
    """

    link: Link
    spoil: Spoil
    status: int | None = None

    @property
    def name(self) -> Transport:
        return self.link.name

    def agree(self, revision: str) -> None:
        self.link.agree(revision)

    def settle(self) -> None:
        self.link.settle()

    def ask(self, data: bytes, headers: Headers) -> Reply:
        return self._spoiled(data, self.link.ask(data, headers))

    def tell(self, data: bytes, headers: Headers) -> Reply:
        return self._spoiled(data, self.link.tell(data, headers))

    def _spoiled(self, data: bytes, reply: Reply) -> Reply:
        try:
            message = json.loads(data)
        except (ValueError, RecursionError):
            message = None
        try:
            body = self.spoil(message, copy.deepcopy(reply.body) if reply.raw else None)
        except Exception as mistake:
            raise RuntimeError("this row spoils nothing: mend it") from mistake  # no failure of the test
        raw = b"" if body is None else json.dumps(body).encode()
        return replace(reply, raw=raw, status=self.status or reply.status)


def as_it_is(message: Any, answer: Any) -> Any:
    return answer


def setting(*path: Any, to: Any) -> Spoil:
    """Return a spoil that sets one member of every answer that has its parent; `...` deletes it."""

    def spoil(message: Any, answer: Any) -> Any:
        inner = answer
        for name in path[:-1]:
            if isinstance(inner, dict) and name not in inner:
                return answer
            inner = inner[name]
        if to is ...:
            inner.pop(path[-1], None)
        else:
            inner[path[-1]] = to
        return answer

    return spoil


def instead(result: Any) -> Spoil:
    """Return a spoil that gives this result for every error."""

    def spoil(message: Any, answer: Any) -> Any:
        if not isinstance(answer, dict) or "error" not in answer:
            return answer
        return {"jsonrpc": "2.0", "id": answer["id"], "result": result}

    return spoil


def refused(code: int) -> Spoil:
    """Return a spoil that gives this error for every result."""

    def spoil(message: Any, answer: Any) -> Any:
        if not isinstance(answer, dict) or "result" not in answer:
            return answer
        return {"jsonrpc": "2.0", "id": answer["id"], "error": {"code": code, "message": "invalid: x"}}

    return spoil


def always_answered(message: Any, answer: Any) -> Any:
    return answer or {"jsonrpc": "2.0", "id": None, "result": {}}


def id_as_text(message: Any, answer: Any) -> Any:
    return {**answer, "id": str(answer["id"])}


def any_version(message: Any, answer: Any) -> Any:
    if message["method"] == "initialize":
        answer["result"]["protocolVersion"] = message["params"].get("protocolVersion")
    return answer


def last_tool_missing(message: Any, answer: Any) -> Any:
    answer["result"]["tools"].pop()
    return answer


def first_tools_swapped(message: Any, answer: Any) -> Any:
    tools = answer["result"]["tools"]
    tools[0], tools[1] = tools[1], tools[0]
    return answer


def all_parts_answered(message: Any, answer: Any) -> Any:
    return [*answer, {"jsonrpc": "2.0", "id": None, "result": {}}] if isinstance(answer, list) else answer


tool = ("result", "tools", 0)
WRONG: list[tuple[Callable[..., None], str, Spoil, tuple[Any, ...]]] = [
    (test_lifecycle.test_any_other_version_or_none_is_answered_with_the_newest, OLD, any_version, ({"protocolVersion": NEW},)),
    (test_lifecycle.test_the_answer_to_initialize_has_exactly_its_members, OLD, setting("result", "capabilities", to={"tools": {}, "logging": {}}), ()),
    (test_lifecycle.test_the_answer_to_initialize_has_exactly_its_members, OLD, setting("result", "serverInfo", to=...), ()),
    (test_lifecycle.test_initialized_is_accepted_without_an_answer, OLD, always_answered, ()),
    (test_lifecycle.test_ping_is_answered_with_an_empty_object_at_any_time, OLD, setting("result", "ok", to=True), ()),
    (test_lifecycle.test_results_have_nothing_of_a_later_revision, OLD, setting("result", "resultType", to="complete"), ()),
    (test_wire.test_an_id_is_echoed_with_its_value_and_type, OLD, id_as_text, (1,)),
    (test_wire.test_an_id_is_echoed_with_its_value_and_type, OLD, setting("id", to=None), (0,)),
    (test_wire.test_an_id_is_echoed_with_its_value_and_type, NEW, setting("jsonrpc", to="1.0"), ("a",)),
    (test_wire.test_an_id_that_is_no_string_and_no_integer_is_an_invalid_request, OLD, setting("error", "code", to=-32602), (None,)),
    (test_wire.test_an_id_that_is_no_string_and_no_integer_is_an_invalid_request, OLD, setting("id", to=...), (1.5,)),
    (test_wire.test_what_is_no_json_is_a_parse_error_with_the_id_null, OLD, setting("error", "code", to=-32600), (b"{",)),
    (test_wire.test_what_is_no_request_is_an_invalid_request_with_the_id_that_could_be_read, OLD, setting("id", to=None), ({"jsonrpc": "2.0", "id": 1}, 1)),
    (test_wire.test_a_message_without_an_id_is_never_answered, OLD, always_answered, ("no/such",)),
    (test_wire.test_an_answer_from_the_client_is_ignored, OLD, always_answered, ({"result": {}},)),
    (test_wire.test_a_method_that_is_not_offered_does_not_exist, OLD, setting("error", "code", to=-32602), ("prompts/list",)),
    (test_wire.test_a_method_that_is_not_offered_does_not_exist, OLD, instead({}), ("resources/list",)),
    (test_wire.test_any_text_of_unicode_goes_there_and_back, OLD, setting("result", "structuredContent", "results", to=[]), ()),
    (test_batches.test_a_batch_gets_one_answer_for_each_request_and_none_for_a_notification, "2025-03-26", all_parts_answered, ()),
    (test_batches.test_an_empty_batch_is_one_invalid_request, OLD, lambda m, a: [a], ()),
    (test_batches.test_a_batch_in_any_other_revision_is_one_invalid_request_and_nothing_of_it_happens, OLD, instead([]), ()),
    (test_tools_list.test_the_roster_is_the_eleven_tools_in_their_order, OLD, last_tool_missing, ()),
    (test_tools_list.test_the_roster_is_the_eleven_tools_in_their_order, OLD, first_tools_swapped, ()),
    (test_tools_list.test_the_list_is_one_page, OLD, setting("result", "nextCursor", to="x"), ()),
    (test_tools_list.test_a_cursor_that_was_never_given_out_is_refused, OLD, instead({"tools": []}), ("x",)),
    (test_tools_list.test_each_tool_states_all_four_hints, OLD, setting(*tool, "annotations", "openWorldHint", to=...), ()),
    (test_tools_list.test_each_tool_states_all_four_hints, OLD, setting(*tool, "annotations", "destructiveHint", to=True), ()),
    (test_tools_list.test_no_schema_knows_an_argument_that_says_who_calls, OLD, setting(*tool, "inputSchema", "properties", "tenant_id", to={"type": "string"}), ()),
    (test_tools_list.test_each_property_is_an_object_schema_of_one_type_without_references, OLD, setting(*tool, "inputSchema", "properties", "content", to=True), ()),
    (test_tools_list.test_each_schema_is_valid_in_the_default_dialect, OLD, setting(*tool, "inputSchema", "properties", "content", to={"type": "strings"}), ()),
    (test_tools_list.test_a_descriptor_has_exactly_its_members, OLD, setting(*tool, "outputSchema", to={"type": "object"}), ()),
    (test_tools_call.test_a_success_has_the_payload_as_text_and_as_an_object, OLD, setting("result", "isError", to=...), ("list_beacons",)),
    (test_tools_call.test_a_success_has_the_payload_as_text_and_as_an_object, OLD, setting("result", "structuredContent", to=...), ("list_beacons",)),
    (test_tools_call.test_a_success_has_the_payload_as_text_and_as_an_object, OLD, setting("result", "structuredContent", to={"other": 1}), ("recall",)),
    (test_tools_call.test_a_success_has_the_payload_as_text_and_as_an_object, NEW, setting("result", "structuredContent", to=[]), ("recall",)),
    (test_tools_call.test_a_wrong_argument_is_a_tool_error_and_reaches_no_service, OLD, refused(-32602), ("recall", {})),
    (test_tools_call.test_a_wrong_argument_is_a_tool_error_and_reaches_no_service, OLD, setting("result", "isError", to=False), ("recall", {})),
    (test_tools_call.test_a_tool_that_does_not_exist_is_a_protocol_error, OLD, instead(WORDLESS), ("no_such",)),
    (test_errors.test_an_error_of_the_service_is_a_json_rpc_error_that_begins_with_its_code_word, OLD, instead(WORDLESS), ()),
    (test_errors.test_an_error_of_the_service_is_a_json_rpc_error_that_begins_with_its_code_word, OLD, setting("error", "code", to=-32002), ()),
    (test_errors.test_an_error_of_the_service_is_a_json_rpc_error_that_begins_with_its_code_word, OLD, setting("error", "data", to=...), ()),
    (test_errors.test_an_error_of_the_service_is_a_json_rpc_error_that_begins_with_its_code_word, NEW, setting("error", "message", to="no such scene"), ()),
    (test_modern.test_discovery_tells_exactly_what_there_is, NEW, setting("result", "supportedVersions", to=[NEW]), ()),
    (test_modern.test_discovery_tells_exactly_what_there_is, NEW, setting("result", "serverInfo", to={}), ()),
    (test_modern.test_every_result_is_complete_and_says_who_made_it, NEW, setting("result", "resultType", to=...), ()),
    (test_modern.test_every_result_is_complete_and_says_who_made_it, NEW, setting("result", "_meta", to=...), ()),
    (test_modern.test_discovery_and_the_roster_say_how_long_they_hold_and_calls_do_not, NEW, setting("result", "ttlMs", to=1), ()),
    (test_modern.test_discovery_and_the_roster_say_how_long_they_hold_and_calls_do_not, NEW, setting("result", "cacheScope", to=...), ()),
    (test_modern.test_a_version_that_is_not_spoken_so_is_refused_with_those_that_are, NEW, setting("error", "data", "supported", to=[OLD]), (OLD,)),
    (test_modern.test_a_version_that_is_not_spoken_so_is_refused_with_those_that_are, NEW, setting("error", "code", to=-32602), (OLD,)),
    (test_modern.test_methods_of_other_revisions_do_not_exist_here, NEW, instead({}), ("ping",)),
]  # fmt: skip
WRONG_STATUSES: list[tuple[Callable[..., None], str, int, tuple[Any, ...]]] = [
    (test_wire.test_a_message_without_an_id_is_never_answered, OLD, 200, ("no/such",)),
    (test_wire.test_what_is_no_json_is_a_parse_error_with_the_id_null, OLD, 200, (b"{",)),
    (test_wire.test_a_method_that_is_not_offered_does_not_exist, OLD, 404, ("prompts/list",)),
    (test_wire.test_a_method_that_is_not_offered_does_not_exist, NEW, 200, ("prompts/list",)),
    (test_errors.test_an_error_of_the_service_is_a_json_rpc_error_that_begins_with_its_code_word, OLD, 500, ()),
    (test_errors.test_an_error_of_the_service_is_a_json_rpc_error_that_begins_with_its_code_word, NEW, 404, ()),
    (test_tools_call.test_a_tool_that_does_not_exist_is_a_protocol_error, OLD, 400, ("no_such",)),
    (test_modern.test_a_version_that_is_not_spoken_so_is_refused_with_those_that_are, NEW, 200, (OLD,)),
    (test_modern.test_an_envelope_without_a_version_or_capabilities_is_invalid, NEW, 200, ({},)),
    (test_http.test_what_is_no_message_is_400, OLD, 200, ()),
]


def run(test: Callable[..., None], client: Client, peer: SharedPeer, values: tuple[Any, ...]) -> None:
    """Run a conformance test with a client of its own."""
    known: dict[str, Any] = {"client": client, "peer": peer, "memory": client.link}
    names = list(inspect.signature(test).parameters)
    parameters = iter(values)
    test(*(known[name] if name in known else next(parameters) for name in names))


def labels(rows: list[Any]) -> list[str]:
    return [f"{number}-{row[0].__name__}" for number, row in enumerate(rows)]


@pytest.mark.parametrize(("test", "revision", "spoil", "values"), WRONG, ids=labels(WRONG))
def test_a_spoiled_answer_fails(
    peer: SharedPeer,
    memory: Link,
    test: Callable[..., None],
    revision: str,
    spoil: Spoil,
    values: tuple[Any, ...],
) -> None:
    memory.agree(revision)
    run(test, Client(WrongLink(memory, as_it_is), revision), peer, values)  # the right server passes
    memory.agree(revision)
    with pytest.raises(FAILURES):
        run(test, Client(WrongLink(memory, spoil), revision), peer, values)


@pytest.mark.parametrize(
    ("test", "revision", "status", "values"), WRONG_STATUSES, ids=labels(WRONG_STATUSES)
)
def test_a_wrong_status_fails(
    peer: SharedPeer,
    http: Link,
    test: Callable[..., None],
    revision: str,
    status: int,
    values: tuple[Any, ...],
) -> None:
    run(test, Client(http, revision), peer, values)
    with pytest.raises(AssertionError, match=f"{status} instead of"):
        run(test, Client(WrongLink(http, as_it_is, status), revision), peer, values)
