"""Requirements of the base protocol: the handshake, JSON-RPC, batches."""

from __future__ import annotations

from typing import Final

from tests.conformance.mcp.model import BATCHING, BOTH, LATEST_LEGACY, LEGACY, Requirement

_OTHERS = ("2024-11-05", "2025-06-18", "2025-11-25", "2026-07-28")

LIFECYCLE: Final = (
    Requirement(
        "lifecycle.same-version",
        "2025-11-25/basic/lifecycle#version-negotiation",
        "A requested version that the server supports is answered with that version.",
        LEGACY,
    ),
    Requirement(
        "lifecycle.other-version",
        "2025-11-25/basic/lifecycle#version-negotiation",
        "Any other requested version is answered with one that the server supports, the latest.",
        LATEST_LEGACY,
        decision="Also where it is missing, no text, or 2026-07-28, which has no handshake: always 2025-11-25, "
        "as the seed says; an error would only keep such a client out.",
    ),
    Requirement(
        "lifecycle.result",
        "2025-11-25/basic/lifecycle#initialization",
        "initialize answers protocolVersion, capabilities and serverInfo, and may add instructions.",
        LEGACY,
    ),
    Requirement(
        "lifecycle.initialized",
        "2025-11-25/basic/lifecycle#initialization",
        "notifications/initialized is accepted and not answered.",
        LEGACY,
    ),
    Requirement(
        "lifecycle.no-order",
        "2025-11-25/basic/lifecycle#initialization",
        "Before initialized a client should send pings only.",
        LEGACY,
        force="choice",
        decision="That binds clients. Requests are answered in any order: HTTP without sessions cannot know what "
        "came before.",
    ),
    Requirement(
        "lifecycle.ping",
        "2025-11-25/basic/utilities/ping#behavior-requirements",
        "ping is answered promptly with an empty result.",
        LEGACY,
    ),
    Requirement(
        "lifecycle.plain-results",
        "2025-11-25/basic/index#responses",
        "Results hold what their revision defines.",
        LEGACY,
        force="choice",
        decision="resultType, ttlMs, cacheScope and our _meta would be harmless to older clients and are left out.",
    ),
)

WIRE: Final = (
    Requirement("wire.utf8", "2025-11-25/basic/transports", "Messages are JSON-RPC, encoded as UTF-8."),
    Requirement(
        "wire.id-echo",
        "2025-11-25/basic/index#responses",
        "An answer has the id of its request, with its type.",
    ),
    Requirement(
        "wire.id-zero",
        "2025-11-25/basic/index#requests",
        "0 and the empty string are ids like any other: clients in TypeScript begin with 0.",
        force="client",
    ),
    Requirement(
        "wire.id-kinds",
        "2025-11-25/basic/index#requests",
        "An id is a string or an integer, and not null.",
        BOTH,
        decision="Fractions (also 1.0), booleans, null, arrays and objects are refused with -32600.",
    ),
    Requirement(
        "wire.invalid-request",
        "2025-11-25/basic/index#messages",
        "What is JSON and no message is an invalid request (-32600).",
        BOTH,
    ),
    Requirement(
        "wire.parse-error",
        "2025-11-25/basic/index#messages",
        "What is no JSON is a parse error (-32700): also NaN, too deep nesting, endless numbers, other encodings.",
        BOTH,
    ),
    Requirement(
        "wire.survival",
        "2025-11-25/basic/index#messages",
        "No input ends the server: the next request is answered.",
        BOTH,
        force="client",
    ),
    Requirement(
        "wire.unreadable-id",
        "2025-11-25/basic/index#responses",
        "An error has the id of its request unless that could not be read.",
        BOTH,
        decision="JSON-RPC says null then, the schemas of MCP leave it out. Null: a client is known that needs the "
        "member, none that dies of it.",
    ),
    Requirement(
        "wire.params-object",
        "2025-11-25/basic/index#requests",
        "Parameters are an object.",
        BOTH,
        decision="An array, which JSON-RPC would allow, is -32602, not -32600: the message itself is a request.",
    ),
    Requirement(
        "wire.notification",
        "2025-11-25/basic/index#notifications",
        "A message without an id is never answered, whatever its method.",
    ),
    Requirement(
        "wire.notification-has-no-effect",
        "2025-11-25/server/tools#calling-tools",
        "A tool is called by a request.",
        LATEST_LEGACY,
        force="choice",
        decision="tools/call without an id does nothing: its caller could never learn what became of it.",
    ),
    Requirement(
        "wire.answers-ignored",
        "2025-11-25/basic/transports#sending-messages-to-the-server",
        "An answer from a client to a server that never asks is accepted (202) and ignored.",
        LEGACY,
    ),
    Requirement(
        "wire.unknown-method",
        "2025-11-25/basic/lifecycle#operation",
        "Only what was negotiated is used: methods of capabilities that are not offered do not exist (-32601).",
    ),
    Requirement(
        "wire.capabilities",
        "2025-11-25/server/tools#capabilities",
        "A server with tools declares the capability tools, and nothing that it does not have.",
        LEGACY,
        decision="listChanged is left out: the roster is fixed.",
    ),
    Requirement(
        "wire.only-answers",
        "2025-11-25/basic/utilities/progress#behavior-requirements",
        "Progress and log messages are optional.",
        force="choice",
        decision="The server sends answers and nothing else: no progress, no logging, no request of its own.",
    ),
    Requirement(
        "wire.extras",
        "2025-11-25/basic/index#meta",
        "Unknown members, unknown keys of _meta and repeated keys are no errors.",
        force="client",
    ),
    Requirement(
        "wire.strict-output",
        "2025-11-25/basic/transports",
        "What is sent is JSON in UTF-8 also where the input was neither quite: no NaN, no half of a surrogate.",
        BOTH,
    ),
    Requirement(
        "wire.cancelled-unanswered",
        "2025-11-25/basic/utilities/cancellation#behavior-requirements",
        "A cancelled request is stopped and not answered.",
        (),
        ("stdio",),
        force="should",
    ),
    Requirement(
        "wire.cancel-ignored",
        "2025-11-25/basic/utilities/cancellation#behavior-requirements",
        "Cancellations of what is unknown or over, and malformed ones, are ignored.",
        LATEST_LEGACY,
        force="should",
    ),
    Requirement(
        "wire.initialize-not-cancelled",
        "2025-11-25/basic/utilities/cancellation#behavior-requirements",
        "initialize cannot be cancelled.",
        LEGACY,
    ),
)

_BATCH_PAGE = "2025-03-26/basic/index#batching"

BATCHES: Final = (
    Requirement(
        "batch.answers",
        _BATCH_PAGE,
        "In 2025-03-26 an array of messages is received; each request in it is answered, no notification is.",
        BATCHING,
    ),
    Requirement(
        "batch.notifications",
        "2025-03-26/basic/transports#sending-messages-to-the-server",
        "An array of notifications and answers only is accepted without an answer (202).",
        BATCHING,
    ),
    Requirement(
        "batch.empty",
        _BATCH_PAGE,
        "An empty array is one invalid request.",
        (*BATCHING, *_OTHERS),
        decision="JSON-RPC 2.0 says so.",
    ),
    Requirement(
        "batch.initialize",
        "2025-03-26/basic/lifecycle#initialization",
        "initialize is not part of a batch: there it is an error, and the rest is answered.",
        BATCHING,
    ),
    Requirement(
        "batch.malformed-part",
        _BATCH_PAGE,
        "What is no message inside an array gets an error of its own.",
        BATCHING,
        decision="JSON-RPC 2.0 says so.",
    ),
    Requirement(
        "batch.elsewhere",
        "2025-06-18/changelog#major-changes",
        "Every other revision has no batches: one -32600, and nothing of the array is carried out.",
        _OTHERS,
    ),
    Requirement(
        "batch.no-header",
        "2025-11-25/basic/transports#protocol-version-header",
        "HTTP without a version header means 2025-03-26, so arrays are accepted there.",
        (),
        ("http",),
        force="should",
    ),
)
