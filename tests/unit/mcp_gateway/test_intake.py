"""What becomes of a message: by its kind, its revision and the way it came."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_gateway.eras import DISCOVER, REVISIONS
from mcp_gateway.intake import BATCH_MESSAGES, Call, Refusal, Together, classify
from mcp_gateway.jsonrpc import Batch, Malformed, Message, Notification, Request, Response
from mcp_gateway.ladder import CAPABILITIES_KEY, VERSION_KEY, Headers

MODERN = "2026-07-28"
META = {VERSION_KEY: MODERN, CAPABILITIES_KEY: {}}
PING = Request(1, "ping")
BATCHING = REVISIONS.negotiate("2025-03-26")
HTTP = Headers()


def header(version: str, *more: str) -> Headers:
    return Headers([version, *more], ["tools/list"])


def refused(asked: Any) -> tuple[int, int, Any]:
    """Return code, status and id of what must be a refusal."""
    assert isinstance(asked, Refusal)
    return asked.body["error"]["code"], asked.status, asked.body["id"]


@pytest.mark.parametrize("headers", [None, HTTP, header("2025-11-25"), header(MODERN), header("2099-01-01")])
@pytest.mark.parametrize("code", [-32700, -32600, -32602])
def test_what_is_no_message_is_a_bad_request_before_any_era_is_asked(
    headers: Headers | None, code: int
) -> None:
    assert refused(classify(Malformed(code, "x", 7), REVISIONS, headers=headers)) == (code, 400, 7)


@pytest.mark.parametrize(
    ("headers", "name"),
    [(None, "2025-11-25"), (HTTP, "2025-03-26"), *[(header(n), n) for n in REVISIONS.names[1:]]],
)
def test_a_request_without_an_envelope_is_of_the_revision_agreed_on_or_named_by_the_header(
    headers: Headers | None, name: str
) -> None:
    asked = classify(PING, REVISIONS, headers=headers)
    assert isinstance(asked, Call)
    assert asked.revision.name == name


def test_a_request_with_an_envelope_is_of_its_own_revision_whatever_was_agreed_on() -> None:
    request = Request(1, "tools/list", {"_meta": META})
    for asked in (
        classify(request, REVISIONS, agreed=BATCHING),
        classify(request, REVISIONS, headers=header(MODERN)),
    ):
        assert isinstance(asked, Call)
        assert asked.revision.name == MODERN


@pytest.mark.parametrize("versions", [[""], ["2099-01-01"], ["2025-11-25"] * 2, ["2025-11-25,2025-06-18"]])
@pytest.mark.parametrize(
    ("message", "id"),
    [(PING, 1), (Notification("notifications/x"), None), (Response(), None), (Batch((PING,)), None)],
)
def test_a_version_header_that_names_no_revision_is_a_bad_request(
    versions: list[str], message: Message, id: Any
) -> None:
    asked = classify(message, REVISIONS, headers=Headers(versions))
    assert refused(asked) == (-32600, 400, id)


@pytest.mark.parametrize("method", [DISCOVER.upper(), "no/such", "resources/list", "\ud800", ""])
def test_an_unknown_method_travels_at_200_with_a_handshake(method: str) -> None:
    for headers in (None, HTTP):
        assert refused(classify(Request("a", method), REVISIONS, headers=headers)) == (-32601, 200, "a")


def test_an_unknown_method_is_404_without_a_handshake_and_a_missing_envelope_400() -> None:
    headers = Headers([MODERN], ["ping"])
    unknown = Request(0, "ping", {"_meta": META})
    assert refused(classify(unknown, REVISIONS, headers=headers)) == (-32601, 404, 0)
    assert refused(classify(Request(0, "ping"), REVISIONS, headers=headers)) == (-32602, 400, 0)
    assert refused(classify(Request(0, DISCOVER), REVISIONS)) == (-32602, 400, 0)


@pytest.mark.parametrize("headers", [None, HTTP, header("2024-11-05"), header(MODERN), header(MODERN, "x")])
@pytest.mark.parametrize(
    "message", [Notification("tools/call"), Notification("n", {"_meta": META}), Response()]
)
def test_notifications_and_answers_are_never_answered_where_they_may_be_sent(
    headers: Headers | None, message: Message
) -> None:
    asked = classify(message, REVISIONS, headers=headers)
    if headers is not None and (isinstance(message, Response) and MODERN in headers.version):
        assert refused(asked) == (-32600, 400, None)
    elif headers is not None and len(headers.version) > 1:
        assert refused(asked) == (-32020, 400, None)
    else:
        assert asked is None


@pytest.mark.parametrize("version", [None, "2025-11-25", MODERN])
def test_a_malformed_notification_is_refused_where_that_can_be_said_without_an_answer(
    version: str | None,
) -> None:
    broken = Notification("notifications/x", sound=False)
    headers = Headers([] if version is None else [version])
    assert refused(classify(broken, REVISIONS, headers=headers)) == (-32602, 400, None)
    assert classify(broken, REVISIONS) is None


@pytest.mark.parametrize(
    ("options", "allowed"),
    [
        ({}, False),
        ({"agreed": BATCHING}, True),
        ({"agreed": REVISIONS.negotiate("2024-11-05")}, False),
        ({"agreed": REVISIONS.negotiate("2025-06-18")}, False),
        ({"headers": HTTP}, True),
        ({"headers": header("2025-03-26")}, True),
        ({"headers": header("2024-11-05")}, False),
        ({"headers": header("2025-06-18")}, False),
        ({"headers": header("2025-11-25")}, False),
        ({"headers": header(MODERN)}, False),
    ],
    ids=range(10),
)
def test_a_batch_is_taken_only_by_the_one_revision_that_has_it(
    options: dict[str, Any], allowed: bool
) -> None:
    asked = classify(Batch((PING, Notification("n"))), REVISIONS, **options)
    if allowed:
        assert asked == Together((Call(PING, BATCHING),))
    else:
        assert refused(asked) == (-32600, 400, None)


def test_each_message_of_a_batch_is_judged_alone() -> None:
    messages: tuple[Message, ...] = (
        PING,
        Notification("n"),
        Notification("n", sound=False),
        Response(),
        Malformed(-32600, "x"),
        Request(3, "initialize"),
        Request(4, "no/such"),
        Request(5, "tools/list", {"_meta": META}),
        Request(6, DISCOVER),
    )
    asked = classify(Batch(messages), REVISIONS, headers=HTTP)
    assert isinstance(asked, Together)
    first, *others = asked.parts
    assert isinstance(first, Call)
    codes = [(refused(part)[0], refused(part)[2]) for part in others]
    assert codes == [(-32600, None), (-32600, 3), (-32601, 4), (-32600, 5), (-32600, 6)]


def test_a_batch_without_requests_is_not_answered() -> None:
    assert classify(Batch((Notification("a"), Response())), REVISIONS, headers=HTTP) is None


def test_a_batch_is_bounded() -> None:
    within = classify(Batch((PING,) * BATCH_MESSAGES), REVISIONS, agreed=BATCHING)
    assert isinstance(within, Together)
    beyond = classify(Batch((PING,) * (BATCH_MESSAGES + 1)), REVISIONS, agreed=BATCHING)
    assert refused(beyond) == (-32600, 400, None)
