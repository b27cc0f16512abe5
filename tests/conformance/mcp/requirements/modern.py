"""Requirements of 2026-07-28, the revision without a handshake."""

from __future__ import annotations

from functools import partial
from typing import Final

from tests.conformance.mcp.model import ALL, HTTP, LATEST_LEGACY, Requirement
from tests.conformance.mcp.model import MODERN as ONLY

_BASE = "2026-07-28/basic/index"
_HTTP_PAGE = "2026-07-28/basic/transports/streamable-http"
_VERSIONING = "2026-07-28/basic/versioning"
_modern = partial(Requirement, revisions=ONLY)
_http = partial(Requirement, revisions=(), transports=HTTP)

MODERN: Final = (
    _modern(
        "modern.discover",
        "2026-07-28/server/discover",
        "server/discover answers the versions, the capabilities and, if any, instructions.",
        decision="All five versions, newest first: a dual client falls back to one with a handshake if it wants.",
    ),
    _modern(
        "modern.discover-first",
        f"{_BASE}#meta",
        "server/discover carries the envelope like every request.",
        decision="It is judged as modern even without one, and then refused with -32602, never with -32601.",
    ),
    _modern("modern.result-type", f"{_BASE}#result-responses", "Every result has resultType, here complete."),
    _modern(
        "modern.server-info", f"{_BASE}#meta", "Every result names the server in its _meta.", force="should"
    ),
    _modern(
        "modern.caching",
        "2026-07-28/server/utilities/caching",
        "server/discover and tools/list say how long they hold and for whom; calls do not.",
        decision="public: the roster is the same for everybody.",
    ),
    Requirement(
        "modern.envelope",
        f"{_BASE}#meta",
        "A request without protocolVersion and clientCapabilities in _meta is -32602, over HTTP 400.",
        ONLY,
    ),
    _modern("modern.client-info", f"{_BASE}#meta", "clientInfo is optional."),
    _modern(
        "modern.capabilities-free",
        f"{_BASE}#meta",
        "Only what a client declares is relied on.",
        decision="Nothing is needed, so -32021 never occurs.",
    ),
    _modern(
        "modern.unsupported-version",
        f"{_VERSIONING}#protocol-version-negotiation",
        "A version that is not spoken is -32022 with supported and requested, over HTTP 400.",
        decision="Also one with a handshake inside this envelope.",
    ),
    _modern(
        "modern.supported-list",
        f"{_VERSIONING}#protocol-version-negotiation",
        "supported lists versions that server/discover lists as well.",
        force="client",
        decision="Both list all five: one client does not fall back unless a version with a handshake is named.",
    ),
    _modern(
        "modern.unknown-method",
        f"{_HTTP_PAGE}#protocol-version-header",
        "A method that does not exist is -32601, over HTTP 404.",
    ),
    _modern(
        "modern.no-handshake",
        "2026-07-28/changelog#major-changes",
        "initialize, ping, logging/setLevel and resource subscriptions are gone.",
    ),
    _modern(
        "modern.no-subscriptions",
        "2026-07-28/basic/patterns/subscriptions",
        "subscriptions/listen is for servers whose lists change.",
        force="choice",
        decision="Ours do not: -32601.",
    ),
    Requirement(
        "modern.not-by-handshake",
        f"{_VERSIONING}#backward-compatibility-with-initialization-based-versions",
        "initialize selects a revision with a handshake, never this one.",
        LATEST_LEGACY,
    ),
    Requirement(
        "modern.same-list",
        "2026-07-28/server/tools#capabilities",
        "tools/list does not vary by connection or by earlier requests.",
        ALL,
    ),
    Requirement(
        "modern.no-batches",
        f"{_HTTP_PAGE}#sending-messages",
        "A body is a single request or notification.",
        ("2024-11-05", "2025-06-18", "2025-11-25", "2026-07-28"),
    ),
    Requirement(
        "modern.log-level",
        "2026-07-28/server/utilities/logging",
        "Log messages are sent only to who asks for them.",
        ALL,
        decision="To nobody: logging is not offered.",
    ),
    _http(
        "modern.header-version",
        f"{_HTTP_PAGE}#protocol-version-header",
        "MCP-Protocol-Version is there and says what the body says.",
    ),
    _http(
        "modern.header-mismatch",
        f"{_HTTP_PAGE}#server-validation",
        "A header that is missing, malformed or other than the body is 400 with -32020.",
        decision="So is one that is given twice: what stands in between might have read the other.",
    ),
    _http(
        "modern.header-name",
        f"{_HTTP_PAGE}#value-encoding",
        "Mcp-Name repeats the tool, trimmed and decoded; a wrapping that is not exact is a mismatch.",
    ),
    _http(
        "modern.header-case",
        f"{_HTTP_PAGE}#case-sensitivity",
        "Header names are compared without case, values with it.",
    ),
    Requirement(
        "modern.unknown-tool",
        "2026-07-28/server/tools#error-handling",
        "An unknown tool is -32602.",
        ONLY,
        decision="Over HTTP with 400, as other malformed parameters.",
    ),
    Requirement(
        "modern.detection",
        f"{_VERSIONING}#backward-compatibility-with-initialization-based-versions",
        "A request with modern metadata is served statelessly.",
        ONLY,
        decision="The version header, a version in _meta, or the method server/discover: each alone makes it modern, "
        "so that half of an envelope is refused instead of taken for something else.",
    ),
    Requirement(
        "modern.stateless",
        f"{_BASE}#statelessness",
        "Nothing depends on an earlier request of the connection.",
        ONLY,
    ),
    _http(
        "modern.ladder",
        f"{_HTTP_PAGE}#server-validation",
        "Of several faults one is answered.",
        force="choice",
        decision="Envelope, headers, version, method, in the order of the official SDK.",
    ),
    _http(
        "modern.statuses",
        f"{_HTTP_PAGE}#protocol-version-header",
        "Protocol errors have a status of their own.",
        decision="-32700, -32600, -32602, -32020, -32022: 400; -32601: 404; errors of the service: 200, which clients "
        "read and 500 they do not.",
    ),
    _modern(
        "modern.no-input-required",
        "2026-07-28/basic/patterns/mrtr",
        "A server that needs no input from the client never asks for it.",
        force="choice",
        decision="inputResponses and requestState are ignored.",
    ),
    _modern(
        "modern.notification",
        f"{_HTTP_PAGE}#sending-messages",
        "A notification is accepted (202) and not answered.",
    ),
    _http(
        "modern.answers-refused",
        f"{_HTTP_PAGE}#sending-messages",
        "Clients send no answers: 400.",
    ),
    _http(
        "modern.session-headers",
        f"{_HTTP_PAGE}#earlier-streamable-http-revisions",
        "Mcp-Session-Id and Last-Event-ID are ignored.",
        force="should",
    ),
    _http(
        "modern.close-cancels",
        f"{_HTTP_PAGE}#cancellation",
        "A client that closes its connection cancels its request.",
        decision="Reads are stopped. What may change something is finished: cut off it would be in doubt.",
    ),
    _modern(
        "modern.codes",
        f"{_BASE}#error-codes",
        "Of -32020 to -32099 only defined codes are used, -32002 and -32042 never.",
    ),
)
