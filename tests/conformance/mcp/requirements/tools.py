"""Requirements on tools: the list, calls, errors, identity."""

from __future__ import annotations

from typing import Final

from tests.conformance.mcp.model import BOTH, HTTP, LATEST_LEGACY, MEMORY, STDIO, Requirement

_TOOLS = "2025-11-25/server/tools"
_MODERN_TOOLS = "2026-07-28/server/tools"

LIST: Final = (
    Requirement("tools.roster", f"{_TOOLS}#listing-tools", "tools/list answers the tools, in a fixed order."),
    Requirement(
        "tools.result",
        f"{_TOOLS}#listing-tools",
        "The result holds the tools, and nextCursor only where there is another page.",
        decision="Eleven tools are one page.",
    ),
    Requirement(
        "tools.cursor",
        "2025-11-25/server/utilities/pagination#error-handling",
        "A cursor that is not valid is answered with -32602.",
        force="should",
        decision="None was ever given out, so each is invalid.",
    ),
    Requirement(
        "tools.same-list",
        f"{_MODERN_TOOLS}#capabilities",
        "The list does not change by connection or by what was called before.",
        decision="Nor by caller, scope or revision, although that would be allowed: one list can be kept by all.",
    ),
    Requirement(
        "tools.descriptor",
        f"{_TOOLS}#tool",
        "A tool has a name, a description and an inputSchema of type object.",
        decision="title and annotations are sent in every revision; older ones ignore unknown members.",
    ),
    Requirement(
        "tools.names",
        f"{_TOOLS}#tool-names",
        "Names have 1 to 128 characters out of letters, digits, underscore, hyphen and dot, and are unique.",
        BOTH,
        force="should",
        decision="At most 64, as the official suite wants.",
    ),
    Requirement(
        "tools.valid-schema",
        "2025-11-25/basic/index#json-schema-usage",
        "Each inputSchema is valid JSON Schema of its dialect, by default 2020-12.",
        BOTH,
    ),
    Requirement(
        "tools.property-schemas",
        "2025-11-25/schema#tool",
        "Up to 2025-11-25 each property has an object as its schema, not true or false.",
        BOTH,
        decision="Stricter: one type each, no references and no composition, which some model providers refuse.",
    ),
    Requirement(
        "tools.no-arguments",
        f"{_TOOLS}#tool",
        "A tool without parameters says so with a valid object schema.",
        BOTH,
        force="client",
        decision="`properties` is there and empty and additionalProperties is not: the recommended form is refused "
        "by some clients.",
    ),
    Requirement(
        "tools.hints",
        "2025-11-25/schema#toolannotations",
        "Annotations are optional hints; absent ones count as the worst case.",
        force="seed",
        decision="All four are stated on each tool, as the seed wants.",
    ),
    Requirement(
        "tools.no-identity",
        f"{_TOOLS}#security-considerations",
        "Schemas have no argument for who calls.",
        BOTH,
        force="seed",
    ),
    Requirement(
        "tools.no-output-schema",
        f"{_TOOLS}#output-schema",
        "outputSchema is optional, and binding once it is given.",
        BOTH,
        force="choice",
        decision="None is given: clients would fetch the list before each first call and fail calls on a mismatch.",
    ),
    Requirement(
        "tools.no-header-annotations",
        f"{_MODERN_TOOLS}#x-mcp-header",
        "x-mcp-header is optional, and obliges both sides once it is given.",
        BOTH,
        force="choice",
        decision="Not used.",
    ),
    Requirement(
        "tools.no-tasks",
        "2025-11-25/basic/utilities/tasks#tool-level-negotiation",
        "A tool that says nothing about tasks forbids them.",
        BOTH,
        force="choice",
        decision="No tool says anything.",
    ),
)

CALL: Final = (
    Requirement(
        "call.envelope",
        f"{_TOOLS}#tool-result",
        "A result has content; what is structured is also there as text.",
        decision="One text block with the JSON, structuredContent with the same, isError false, in every revision.",
    ),
    Requirement(
        "call.structured-object",
        f"{_TOOLS}#structured-content",
        "structuredContent is a JSON object; only 2026-07-28 would allow any value.",
    ),
    Requirement(
        "call.name",
        f"{_TOOLS}#error-handling",
        "A call whose name is missing or no text is malformed: -32602.",
        BOTH,
    ),
    Requirement(
        "call.unknown-tool",
        f"{_TOOLS}#error-handling",
        "An unknown tool is a protocol error, -32602, and no tool result.",
    ),
    Requirement(
        "call.arguments-absent",
        f"{_TOOLS}#calling-tools",
        "arguments may be left out.",
        decision="Null counts as absent.",
    ),
    Requirement(
        "call.arguments-object",
        "2025-11-25/schema#calltoolrequest",
        "arguments is an object; anything else is -32602.",
        BOTH,
    ),
    Requirement(
        "call.validation",
        f"{_TOOLS}#error-handling",
        "A wrong argument is a tool result with isError, so that the model reads it and corrects itself.",
        BOTH,
        force="should",
    ),
    Requirement(
        "call.validates",
        f"{_TOOLS}#security-considerations",
        "All tool inputs are validated.",
        BOTH,
        decision="Before the service is asked: a refused call has no effect at all.",
    ),
    Requirement(
        "call.extra-arguments",
        f"{_TOOLS}#security-considerations",
        "Arguments that a schema does not know may be refused or ignored.",
        BOTH,
        force="choice",
        decision="Refused, by name: a claim of identity must not seem to be accepted.",
    ),
    Requirement(
        "call.access-control",
        f"{_TOOLS}#security-considerations",
        "Access to tools is controlled.",
        LATEST_LEGACY,
        ("memory", "http"),
        decision="By scopes of the key, in the service.",
    ),
    Requirement(
        "call.rate-limit",
        f"{_TOOLS}#security-considerations",
        "Calls of tools are limited in rate.",
        BOTH,
        decision="Per key, in the service, so that it holds for every transport; the error says when to come back.",
    ),
    Requirement(
        "call.sanitized",
        f"{_TOOLS}#security-considerations",
        "Tool outputs are sanitized.",
        BOTH,
        decision="Memories are data: they are returned as they were stored, inside JSON strings that nothing in "
        "them can leave.",
    ),
    Requirement(
        "call.task",
        "2025-11-25/basic/utilities/tasks#task-support-and-handling",
        "A server without the tasks capability ignores a wish for a task and answers as usual.",
        BOTH,
    ),
)

_ERRORS = f"{_TOOLS}#error-handling"

ERRORS: Final = (
    Requirement(
        "error.facade",
        _ERRORS,
        "Errors of a tool should be results with isError; errors of the server are JSON-RPC errors.",
        force="seed",
        decision="An error of the service behind the tools is a JSON-RPC error, as the seed says.",
    ),
    Requirement(
        "error.validation-split",
        _ERRORS,
        "Input validation errors are listed under tool execution errors since 2025-11-25.",
        BOTH,
        force="should",
        decision="Validation against the schema happens before the service and is isError; so the seed and the "
        "specification both hold.",
    ),
    Requirement(
        "error.code-word",
        "2025-11-25/basic/index#responses",
        "An error has an integer code and a message.",
        force="client",
        decision="The message begins with the code word, because some clients show nothing but the message.",
    ),
    Requirement(
        "error.data",
        "2025-11-25/basic/index#responses",
        "An error may have data.",
        force="seed",
        decision="code, definite and, where it helps, retry_after_ms: for programs; all that a model needs is in "
        "the message.",
    ),
    Requirement(
        "error.code-range",
        "2026-07-28/basic/index#error-codes",
        "Codes of one's own lie outside -32768 to -32000; -32002, -32042 and undefined ones are never sent.",
        (),
        MEMORY,
        decision="Positive, by HTTP status: 4040 is not found.",
    ),
    Requirement(
        "error.http-200",
        "2025-11-25/basic/transports#sending-messages-to-the-server",
        "Over HTTP an error of JSON-RPC in a handshake revision travels with 200.",
        force="client",
        decision="With any other status clients lose code and data, or crash. In 2026-07-28 this holds for errors "
        "of the service; see modern.statuses.",
    ),
    Requirement(
        "error.internal",
        "2025-11-25/basic/index#messages",
        "A defect of the server is -32603, without its details.",
        BOTH,
        ("memory", "http"),
        decision="Over stdio the peer is another process: its defects arrive as an error of the service.",
    ),
)

IDENTITY: Final = (
    Requirement(
        "identity.stamped",
        "2025-11-25/basic/index#auth",
        "A server may have its own authentication; what a call does is done by whoever was authenticated.",
        BOTH,
        force="seed",
    ),
    Requirement(
        "identity.no-argument",
        f"{_TOOLS}#security-considerations",
        "An argument that claims an identity is refused, and nothing happens.",
        BOTH,
        force="seed",
    ),
    Requirement(
        "identity.no-metadata",
        "2026-07-28/basic/index#meta",
        "What clients say of themselves is not relied on for security.",
        BOTH,
        force="should",
    ),
    Requirement(
        "identity.per-request",
        "2026-07-28/basic/index#statelessness",
        "Over HTTP each request is authenticated by itself, whatever came before.",
        (),
        HTTP,
    ),
    Requirement(
        "identity.fixed",
        "2025-11-25/basic/index#auth",
        "Over stdio credentials come from the environment, once for the life of the process.",
        (),
        STDIO,
        force="seed",
    ),
    Requirement(
        "identity.one-process",
        "2025-11-25/basic/transports#stdio",
        "A process serves one agent, and several side by side do not disturb each other.",
        (),
        STDIO,
        force="seed",
    ),
    Requirement(
        "identity.hints-decide-nothing",
        "2025-11-25/schema#toolannotations",
        "No decision is made by a tool hint.",
        LATEST_LEGACY,
        MEMORY,
        force="seed",
    ),
)
