"""The table of revisions: negotiation, the version header, envelopes and statuses, and one more row."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mcp_gateway import jsonrpc
from mcp_gateway.calling import Calls
from mcp_gateway.dispatcher import Dispatcher
from mcp_gateway.eras import (
    DISCOVER,
    HANDSHAKE,
    HEADER_MISMATCH,
    PER_REQUEST,
    REVISIONS,
    UNSUPPORTED_VERSION,
    Revision,
    Revisions,
)
from mcp_gateway.intake import Call, classify
from mcp_gateway.ladder import CAPABILITIES_KEY, VERSION_KEY, Headers
from proto.messages import Reply

MODERN = "2026-07-28"
NAMES = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"]
SERVER = {"name": "hyphae", "version": "1"}


def test_all_five_revisions_are_spoken_newest_first() -> None:
    assert REVISIONS.names == (MODERN, *NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_known_revision_is_echoed(name: str) -> None:
    assert REVISIONS.negotiate(name).name == name


@pytest.mark.parametrize("name", [None, "", MODERN, "2099-01-01", "2025-11-25 ", 5, [], {}, "\ud800"])
def test_anything_else_is_answered_with_the_newest_that_has_a_handshake(name: Any) -> None:
    assert REVISIONS.negotiate(name).name == "2025-11-25"


def test_only_one_revision_has_batches() -> None:
    rows = [REVISIONS.negotiate(name) for name in NAMES]
    assert [row.name for row in rows if row.batches] == ["2025-03-26"]


@pytest.mark.parametrize(
    ("values", "name"),
    [
        ([], "2025-03-26"),
        *[([name], name) for name in NAMES],
        ([""], None),
        ([MODERN], None),
        (["2099-01-01"], None),
        (["2025-11-25", "2025-11-25"], None),
        (["2025-11-25, 2025-06-18"], None),
    ],
)
def test_the_header_names_one_revision_with_a_handshake_or_none(values: list[str], name: str | None) -> None:
    revision = REVISIONS.of_header(values)
    assert (revision.name if revision else None) == name


@pytest.mark.parametrize(
    ("code", "status"),
    [
        (-32700, 400),
        (-32600, 400),
        (-32601, 404),
        (-32602, 400),
        (HEADER_MISMATCH, 400),
        (UNSUPPORTED_VERSION, 400),
        (-32603, 200),
        (4040, 200),
        (4290, 200),
    ],
)
def test_an_error_has_a_status_of_its_own_only_where_requests_name_their_revision(
    code: int, status: int
) -> None:
    assert PER_REQUEST.status(code) == status
    assert HANDSHAKE.status(code) == 200


@pytest.mark.parametrize("method", sorted(HANDSHAKE.methods))
def test_a_result_of_a_revision_with_a_handshake_is_left_as_it_is(method: str) -> None:
    assert HANDSHAKE.envelope(method, {"a": 1}, SERVER) == {"a": 1}


@pytest.mark.parametrize(
    ("method", "kept"),
    [
        (DISCOVER, {"ttlMs": 300_000, "cacheScope": "public"}),
        ("tools/list", {"ttlMs": 300_000, "cacheScope": "public"}),
        ("tools/call", {}),
    ],
)
def test_a_result_of_a_revision_without_one_says_that_it_is_complete_and_whose(
    method: str, kept: dict[str, Any]
) -> None:
    assert PER_REQUEST.envelope(method, {"a": 1}, SERVER) == {
        "resultType": "complete",
        "a": 1,
        **kept,
        "_meta": {"io.modelcontextprotocol/serverInfo": SERVER},
    }


def asked_of(revisions: Revisions, message: dict[str, Any], headers: Headers | None = None) -> Any:
    async def nobody(*_: Any) -> Reply:
        raise AssertionError

    parsed = jsonrpc.parse(jsonrpc.encode({"jsonrpc": "2.0", "id": 1, **message}))
    asked = classify(parsed, revisions, headers=headers)
    assert asked is not None
    return asyncio.run(Dispatcher("1", Calls(), revisions).answer(asked, nobody))


def test_one_more_row_is_one_more_revision_with_a_handshake() -> None:
    added = Revisions((Revision("2027-01-01", HANDSHAKE), *REVISIONS.rows))
    for requested in ("2027-01-01", "2099-01-01"):
        hello = {"method": "initialize", "params": {"protocolVersion": requested}}
        assert asked_of(added, hello).body["result"]["protocolVersion"] == "2027-01-01"
    assert asked_of(added, {"method": "ping"}, Headers(version=["2027-01-01"])).body["result"] == {}


def test_one_more_row_is_one_more_revision_that_requests_name() -> None:
    added = Revisions((Revision("2027-02-02", PER_REQUEST), *REVISIONS.rows))
    meta = {VERSION_KEY: "2027-02-02", CAPABILITIES_KEY: {}}
    answer = asked_of(
        added,
        {"method": DISCOVER, "params": {"_meta": meta}},
        Headers(version=["2027-02-02"], method=[DISCOVER]),
    )
    assert list(answer.body["result"]["supportedVersions"]) == ["2027-02-02", MODERN, *NAMES]
    assert answer.body["result"]["resultType"] == "complete"


def test_every_method_of_every_era_is_answered() -> None:
    for revision in REVISIONS.rows:
        for method in sorted(revision.era.methods - {"tools/call"}):
            request = jsonrpc.Request(1, method)
            assert "result" in Dispatcher("1", Calls()).answer_now(Call(request, revision)).body
