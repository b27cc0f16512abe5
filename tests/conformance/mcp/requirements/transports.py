"""Requirements on the transports: processes and HTTP."""

from __future__ import annotations

from functools import partial
from typing import Final

from tests.conformance.mcp.model import BOTH, HTTP, LEGACY, Requirement
from tests.conformance.mcp.model import STDIO as OVER_STDIO

_PAGE = "2025-11-25/basic/transports"
_stdio = partial(Requirement, revisions=(), transports=OVER_STDIO)
_http = partial(Requirement, revisions=(), transports=HTTP)

STDIO: Final = (
    _stdio("stdio.framing", f"{_PAGE}#stdio", "A message is one line, without a newline inside."),
    _stdio(
        "stdio.only-messages",
        f"{_PAGE}#stdio",
        "Nothing but messages is written to stdout, whatever is logged or warned of.",
    ),
    _stdio(
        "stdio.no-secret",
        f"{_PAGE}#stdio",
        "stderr is free text for logging.",
        force="choice",
        decision="Never with the token.",
    ),
    _stdio(
        "stdio.tolerance",
        f"{_PAGE}#stdio",
        "Clients end lines with a newline.",
        force="client",
        decision="A carriage return before it and blank lines are tolerated.",
    ),
    _stdio(
        "stdio.large-lines",
        f"{_PAGE}#stdio",
        "No length of a line is fixed.",
        force="client",
        decision="Up to 1 MiB; what is longer is skipped and refused by its id where that can be read.",
    ),
    _stdio(
        "stdio.concurrent",
        "2025-11-25/basic/utilities/ping#behavior-requirements",
        "ping is answered promptly, also while a call runs; answers come in any order.",
    ),
    _stdio(
        "stdio.cancel",
        "2026-07-28/basic/transports/stdio#cancellation",
        "After notifications/cancelled no further message is sent for the request.",
    ),
    _stdio(
        "stdio.in-order",
        "2025-11-25/basic/lifecycle#version-negotiation",
        "The version that was agreed on holds for what follows.",
        decision="initialize is carried out in its place in the input.",
    ),
    _stdio(
        "stdio.end-of-input",
        "2025-11-25/basic/lifecycle#shutdown",
        "A client ends a server by closing its input; the server exits promptly.",
        force="should",
        decision="What was read is answered first, for 1.2 s at most; the exit code is 0.",
    ),
    _stdio(
        "stdio.signals",
        "2025-11-25/basic/lifecycle#shutdown",
        "A server ends at SIGTERM, and when nobody reads its output.",
        force="client",
    ),
    _stdio(
        "stdio.starts-without-key",
        "2025-11-25/basic/index#auth",
        "Over stdio credentials are taken from the environment.",
        force="client",
        decision="Without a good one the server starts all the same and each call says what to do: of a process "
        "that exits, clients show nothing but a closed connection.",
    ),
    _stdio(
        "stdio.starts-without-peer",
        "2025-11-25/basic/lifecycle#initialization",
        "The handshake is answered.",
        force="client",
        decision="initialize, ping, server/discover and tools/list wait neither for a key nor for the mesh; a call "
        "without a peer is unavailable.",
    ),
    _stdio(
        "stdio.key-from-environment",
        "2025-11-25/basic/index#auth",
        "Implementations over stdio do not use OAuth and take credentials from the environment.",
        force="should",
        decision="HYPHAE_API_KEY, or the file that HYPHAE_API_KEY_FILE names.",
    ),
    _stdio(
        "stdio.twice",
        "2026-07-28/basic/transports/stdio#backward-compatibility",
        "A client may start the command twice, once only to probe.",
        force="client",
    ),
    _stdio(
        "stdio.probe",
        "2026-07-28/basic/transports/stdio#backward-compatibility",
        "A client may probe with server/discover and go on with initialize on the same pipe.",
    ),
    _stdio(
        "stdio.era-per-request",
        "2026-07-28/basic/versioning#backward-compatibility-with-initialization-based-versions",
        "A server may serve both eras in one process.",
        force="choice",
        decision="Each request decides by itself: modern with the version in its _meta or as server/discover, else "
        "with a handshake.",
    ),
    _stdio(
        "stdio.no-version-needed",
        f"{_PAGE}#protocol-version-header",
        "The version header is one of HTTP; over stdio nothing needs to be said.",
    ),
)

_ENDPOINT = f"{_PAGE}#sending-messages-to-the-server"
_SECURITY = f"{_PAGE}#security-warning"
_VERSION = f"{_PAGE}#protocol-version-header"

HTTP_SURFACE: Final = (
    _http("http.origin", _SECURITY, "Origin is validated; an invalid one is answered with 403."),
    _http("http.own-origin", _SECURITY, "No Origin, one of this machine, or an allowed one passes."),
    _http(
        "http.host",
        _SECURITY,
        "Servers are safe from DNS rebinding.",
        decision="A foreign Host is 403, too. Names are compared as parsed, never by prefix.",
    ),
    _http(
        "http.own-host", _SECURITY, "Names of this machine with any port pass, and those of the allow list."
    ),
    _http("http.loopback", _SECURITY, "A local server binds to 127.0.0.1 only.", force="should"),
    _http(
        "http.get",
        f"{_PAGE}#listening-for-messages-from-the-server",
        "GET opens a stream or is answered with 405.",
        decision="405 with Allow, key or not: clients try it after each handshake, and show any other status.",
    ),
    _http(
        "http.verbs",
        "2026-07-28/basic/transports/streamable-http#earlier-streamable-http-revisions",
        "DELETE and other verbs are answered with 405.",
        force="should",
    ),
    _http(
        "http.paths",
        f"{_PAGE}#streamable-http",
        "There is one endpoint path.",
        decision="/mcp, also as /mcp/ without a redirect; any other path is 404.",
    ),
    _http(
        "http.key",
        _SECURITY,
        "All connections are authenticated.",
        force="should",
        decision="Each POST needs a key, initialize and server/discover too, and without one is 401 before its body "
        "is looked at.",
    ),
    _http(
        "http.no-oauth",
        "2025-11-25/basic/index#auth",
        "Authorization is optional, and may be one's own.",
        force="choice",
        decision="Keys in x-hyphae-key or as Bearer. The challenge names no OAuth metadata, because there are none.",
    ),
    _http(
        "http.content-type",
        _ENDPOINT,
        "The body is JSON.",
        force="choice",
        decision="Another Content-Type, or none, is 415; parameters such as a charset pass.",
    ),
    _http(
        "http.accept",
        _ENDPOINT,
        "Clients list both media types in Accept.",
        force="choice",
        decision="Not demanded: 406 only where JSON is excluded, since nothing else is ever sent.",
    ),
    _http(
        "http.size",
        _ENDPOINT,
        "No size of a body is fixed.",
        force="choice",
        decision="Up to 1 MiB; beyond it is 413.",
    ),
    _http("http.bad-json", _ENDPOINT, "What is no JSON is 400.", revisions=BOTH),
    _http("http.bad-envelope", _ENDPOINT, "What is no message is 400.", revisions=BOTH),
    _http(
        "http.notification",
        _ENDPOINT,
        "A notification is answered with 202 and no body; one that cannot be accepted with an error status.",
    ),
    _http(
        "http.one-object",
        _ENDPOINT,
        "A request is answered with one JSON object or a stream.",
        decision="Always with one object.",
    ),
    _http(
        "http.no-session",
        f"{_PAGE}#session-management",
        "A server may give out session ids.",
        force="choice",
        decision="None are given out, and those of clients are ignored.",
    ),
    _http(
        "http.version-known",
        _VERSION,
        "Clients send the agreed version with each request; header names are case-insensitive.",
        revisions=LEGACY,
        decision="It passes on initialize, too, which the official suite sends it with.",
    ),
    _http(
        "http.version-absent",
        _VERSION,
        "Without the header 2025-03-26 is assumed.",
        force="should",
    ),
    _http("http.version-unknown", _VERSION, "An invalid or unsupported version is answered with 400."),
    _http(
        "http.cancel-ignored",
        "2025-11-25/basic/utilities/cancellation#behavior-requirements",
        "Cancellations may be ignored.",
        force="choice",
        decision="Over HTTP they are: without sessions anybody could cancel what another client calls by its id.",
    ),
    _http(
        "http.order",
        _SECURITY,
        "Of several faults one is answered.",
        force="choice",
        decision="Host and Origin, path, verb, key, Content-Type, Accept, JSON: who may not come here learns "
        "nothing else.",
    ),
)
