"""Every statement of the HyphaeDB seed, by line, and the lines that state nothing of a server."""

from __future__ import annotations

from functools import partial
from typing import Final

from tests.conformance.mcp.model import ALL, BOTH, HTTP, LATEST_LEGACY, LEGACY, MEMORY, STDIO, Requirement

LINES: Final = 113
STATES_NOTHING: Final = {
    range(1, 5): "where the document lies, and its title",
    range(8, 9): "a heading",
    range(10, 12): "the head of a table",
    range(16, 17): "a heading",
    range(18, 19): "a heading",
    range(30, 31): "a heading",
    range(33, 34): "a heading",
    range(35, 36): "a heading",
    range(37, 38): "a heading",
    range(39, 40): "a heading",
}

_seed = partial(Requirement, revisions=LATEST_LEGACY, force="seed")
_over_http = partial(Requirement, revisions=(), transports=HTTP, force="seed")
_over_stdio = partial(Requirement, revisions=(), transports=STDIO, force="seed")

SEED: Final = (
    _seed(
        "seed.eleven-tools",
        "seed:5",
        "The engine is exposed as 11 tools, over stdio and HTTP.",
        revisions=ALL,
    ),
    _seed(
        "seed.delivered-unasked",
        "seed:6",
        "A stored memory reaches the agents that it concerns, without a query.",
    ),
    _over_http(
        "seed.four-surfaces",
        "seed:6",
        "MCP is one of four surfaces of one core: gRPC, REST, and A2A if wanted.",
        decision="REST and MCP are there. gRPC and A2A are outside this product: REST carries the same operations.",
    ),
    Requirement(
        "seed.hand-rolled",
        "seed:7",
        "The server is JSON-RPC made by hand: no SDK, no protobuf.",
        (),
        MEMORY,
        "seed",
        "The official SDKs are used by tests only.",
    ),
    _seed(
        "seed.three-methods",
        "seed:7",
        "It has three methods: initialize, tools/list, tools/call.",
        revisions=ALL,
        decision="And ping, server/discover and swallowed notifications, which the specification demands: they are "
        "protocol, not product.",
    ),
    _seed(
        "seed.one-method-per-tool",
        "seed:7",
        "Each tool is one method of the service.",
        revisions=BOTH,
    ),
    _seed("seed.same-core", "seed:9", "The same core answers over both transports, and alike."),
    _over_stdio("seed.process-per-agent", "seed:12", "stdio: one process for each agent."),
    _over_stdio(
        "seed.token-from-environment",
        "seed:12",
        "stdio: the token comes from HYPHAE_API_KEY, once.",
        decision="Or from the file that HYPHAE_API_KEY_FILE names, so that no key needs to be in an editor's file. "
        "It is read at the start, and again only while there is none or the mesh refuses it.",
    ),
    _over_http("seed.post-mcp", "seed:13", "HTTP: POST /mcp, on the server that has REST."),
    _over_http(
        "seed.header-key",
        "seed:13",
        "HTTP: each request has its own x-hyphae-key.",
        decision="Or the same key as Authorization: Bearer, for clients that can send nothing else.",
    ),
    _over_stdio(
        "seed.identity-fixed",
        "seed:14",
        "Over stdio the identity is fixed for the life of the process.",
        decision="Every call is authenticated again by the peer, so that a revoked key ends at once.",
    ),
    _over_http("seed.http-independent", "seed:14", "Over HTTP each request is authenticated independently."),
    Requirement(
        "seed.version-header",
        "seed:15",
        "Over HTTP an invalid or unsupported MCP-Protocol-Version is 400.",
        LEGACY,
        HTTP,
        "seed",
    ),
    _over_http("seed.version-absent", "seed:15", "Over HTTP an absent version header is accepted."),
    _over_stdio("seed.stdio-has-no-header", "seed:15", "Over stdio no version needs to be said."),
    _seed(
        "seed.no-identity-argument",
        "seed:17",
        "The token is the identity of all calls; no call has an argument for it.",
        revisions=BOTH,
    ),
    _seed("seed.store-embeds", "seed:19", "store: keeps a memory and embeds it."),
    _seed("seed.recall", "seed:20", "recall: the k nearest to a query, on layer 0."),
    _seed("seed.query", "seed:21", "query: the same on a layer that is named."),
    _seed("seed.open-session", "seed:22", "open_session: in a project."),
    _seed("seed.close-session", "seed:23", "close_session: by its id."),
    _seed("seed.place-beacon", "seed:24", "place_beacon: a standing interest; what matches arrives."),
    _seed("seed.list-beacons", "seed:25", "list_beacons: those that the caller owns."),
    _seed("seed.diffs-since", "seed:26", "diffs_since: what was delivered since a time."),
    _seed("seed.get-scene", "seed:27", "get_scene: one scene by id."),
    _seed("seed.list-scenes", "seed:28", "list_scenes: those that the caller may read."),
    _seed("seed.drain-inbox", "seed:29", "drain_inbox: page by page, against a cursor that the server owns."),
    _seed("seed.all-hints", "seed:31", "Each tool states all four hints.", revisions=ALL),
    _seed("seed.six-reads", "seed:31", "Six tools are pure reads.", revisions=ALL),
    Requirement(
        "seed.hints-advisory",
        "seed:32",
        "No authorization reads a hint.",
        LATEST_LEGACY,
        MEMORY,
        "seed",
    ),
    _seed("seed.closed-world", "seed:32", "openWorldHint is false on all tools.", revisions=ALL),
    Requirement(
        "seed.per-tool-pages",
        "seed:32",
        "The page of each tool lists its four values.",
        (),
        MEMORY,
        "seed",
    ),
    _seed(
        "seed.schemas-omit-identity",
        "seed:34",
        "No schema has source_agent or tenant_id.",
        revisions=BOTH,
    ),
    _seed("seed.stamped", "seed:34", "The server stamps who calls, from the key.", revisions=BOTH),
    _seed("seed.no-pretending", "seed:34", "A client cannot claim to be another agent.", revisions=BOTH),
    _seed(
        "seed.ids-only",
        "seed:36",
        "recall and query return pairs of node_id and distance only.",
        decision="Unless include_content asks for more: an agent cannot act on an id, and has no other surface.",
    ),
    _over_http("seed.rest-hydrates", "seed:36", "REST returns full nodes."),
    _seed("seed.no-consolidate", "seed:38", "consolidate_scene is not a tool.", revisions=ALL),
    _over_http(
        "seed.consolidate-elsewhere",
        "seed:38",
        "Consolidating is available over gRPC and REST only.",
        decision="Over REST; there is no gRPC.",
    ),
    _seed(
        "seed.envelope",
        "seed:40-47",
        "A success is a text block with the JSON, structuredContent with the same, isError false.",
        revisions=ALL,
    ),
    _seed(
        "seed.facade-error",
        "seed:48",
        "An error of the facade is a JSON-RPC error, not isError.",
        revisions=ALL,
        decision="The specification wants tool errors as isError. Both hold: arguments are validated before the "
        "facade, and that is isError; what the facade says is a JSON-RPC error.",
    ),
    _seed(
        "seed.codes-preserved",
        "seed:48",
        "Structured error codes are preserved.",
        revisions=ALL,
        decision="In code and data; and the message begins with the code word, as some clients show no more.",
    ),
    _seed("seed.example-list", "seed:49-81", "The example of tools/list."),
    _seed("seed.example-call", "seed:82-112", "The example of tools/call."),
    _seed(
        "seed.negotiates",
        "seed:113",
        "A requested revision out of the four is echoed.",
        revisions=LEGACY,
        decision="2026-07-28 is spoken as well, without a handshake.",
    ),
    _seed("seed.newest-for-the-rest", "seed:113", "Any other, or none, is answered with 2025-11-25."),
    _seed("seed.older-hosts", "seed:113", "A host of an older revision works unchanged.", revisions=LEGACY),
    _seed(
        "seed.reply-carries",
        "seed:113",
        "The reply carries a tools capability and serverInfo.",
        revisions=LEGACY,
    ),
)
