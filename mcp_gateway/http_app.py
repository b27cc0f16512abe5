"""The HTTP surface of a peer as one ASGI application: MCP, REST, health.

The duty: the order of checks that every request passes (host and origin, path, method, key) and the choice of
the endpoint.  It holds no state and imports no web framework: one dictionary look-up is all the routing, so
that a call costs what the service costs.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

import structlog

from mcp_gateway import http_rest, jsonrpc, openapi, rest
from mcp_gateway.body_room import BodyRoom
from mcp_gateway.calling import Calls, defect
from mcp_gateway.dispatcher import Dispatcher, service_error
from mcp_gateway.http_caller import Caller, identify
from mcp_gateway.http_exchange import AsgiApp, Exchange, Gone, Receive, Scope, Send
from mcp_gateway.http_guard import Guard, build_guard
from mcp_gateway.http_mcp import McpEndpoint
from mcp_gateway.http_mcp import refuse as refuse_mcp
from mesh.ports import Requester
from proto.errors import Forbidden, HyphaeError, Internal, NotFound, Unauthenticated

ATTEMPTS = 2  # the caller is one hop away and sees the retry hint itself; waiting here would pile up requests
LARGE_BODY_BYTES = 4 * 1024  # of a larger body nothing is kept before the key is known to be one
METRICS_TYPE = b"text/plain; version=0.0.4; charset=utf-8"

_log = structlog.get_logger(__name__)
_Endpoint = Callable[[Exchange, Caller], Awaitable[None]]


def build_app(
    requester: Requester,
    *,
    ready: Callable[[], Mapping[str, Any]],
    metrics: Callable[[], bytes],
    local_user: bool = False,
    allowed_hosts: Iterable[str] = (),
    allowed_origins: Iterable[str] = (),
    version: str = "0",
    calls: Calls | None = None,
) -> AsgiApp:
    """Return the ASGI application.  Its server needs no lifespan; whoever made the requester closes it.

    Args:
        requester: to the service; in a peer the service itself.
        ready: what `/readyz` shows; its member `ready` decides between 200 and 503.
        metrics: the text of `/metrics`.
        local_user: for the peer's own Unix socket: a request without a key is its user's, and any Host goes.
        allowed_hosts: names beside loopback, such as `mesh.example` or `mesh.example:8443`; `*` for any.
        allowed_origins: beside loopback, such as `https://app.example`.
        version: of the server, as `initialize` tells it.
        calls: makes the calls; None for one with the usual deadlines.

    Raises:
        ValueError: an entry of the allow lists is no host or origin.
    """
    guard = build_guard(allowed_hosts, allowed_origins, checks_host=not local_user)
    return HttpApp(requester, guard, ready, metrics, local_user, version, calls or Calls(attempts=ATTEMPTS))


class HttpApp:
    """See `build_app`."""

    def __init__(
        self,
        requester: Requester,
        guard: Guard,
        ready: Callable[[], Mapping[str, Any]],
        metrics: Callable[[], bytes],
        local_user: bool,
        version: str,
        calls: Calls,
    ) -> None:
        self._requester = requester
        self._guard = guard
        self._room = BodyRoom()
        self._ready = ready
        self._metrics = metrics
        self._local_user = local_user
        self._version = version
        self._rest = http_rest.RestEndpoint(calls)
        mcp = McpEndpoint(Dispatcher(version, calls)).serve
        self._endpoints: dict[str, tuple[str, _Endpoint]] = {
            "/mcp": ("POST", mcp),
            "/mcp/": ("POST", mcp),
            "/v1/request": ("POST", http_rest.serve_wire),
            "/readyz": ("GET", self._serve_ready),
            "/metrics": ("GET", self._serve_metrics),
            "/openapi.json": ("GET", self._serve_openapi),
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI connection."""
        if scope["type"] == "http":
            exchange = Exchange(scope, receive, send, self._room)
            try:
                await self._serve(exchange)
            except Gone:
                return
            except HyphaeError as error:
                await self._refuse(exchange, error)
            except Exception as unexpected:  # noqa: BLE001 - one request must never end the server
                _log.error("request_failed", **defect(unexpected))
                await self._refuse(exchange, Internal("a defect of the server; its log says where."))
        elif scope["type"] == "lifespan":
            await _serve_lifespan(receive, send)
        else:
            await send({"type": "websocket.close", "code": 1000})

    async def _serve(self, exchange: Exchange) -> None:
        """Make the checks in the order that clients and the conformance suite expect, then answer."""
        foreign = self._guard.refusal(exchange.header(b"host"), exchange.header(b"origin"))
        if foreign is not None:
            await self._refuse(exchange, Forbidden(foreign))
            return
        method = "GET" if exchange.method == "HEAD" else exchange.method
        if exchange.path == "/healthz":
            await self._serve_health(exchange, method)
            return
        verb, endpoint = self._endpoints.get(exchange.path, (None, None))
        found = rest.find(exchange.path) if endpoint is None else None
        if endpoint is None and found is None:
            await self._refuse(exchange, NotFound("there is nothing at this path."))
            return
        verbs = [verb] if verb is not None else list(found.by_verb) if found is not None else []
        if method not in verbs:
            await _refuse_method(exchange, verbs)
            return
        try:
            caller = identify(exchange, self._requester, local_user=self._local_user)
        except HyphaeError as error:
            await self._refuse(exchange, error)
            return
        if _is_large(exchange) and (refusal := await caller.refusal()) is not None:
            await self._refuse(exchange, refusal)
            return
        if endpoint is not None:
            await endpoint(exchange, caller)
        elif found is not None:
            await self._rest.serve(exchange, caller, found.by_verb[method], found)

    async def _refuse(self, exchange: Exchange, error: HyphaeError) -> None:
        """Send an error in the language of the path."""
        if exchange.path in {"/mcp", "/mcp/"}:
            if isinstance(error, Unauthenticated):
                await refuse_mcp(exchange, error)
            else:
                body = jsonrpc.encode(service_error(None, error))
                await exchange.respond(rest.error_status(error), body, headers=rest.retry_after(error))
        elif exchange.path == "/v1/request":
            await http_rest.refuse_wire(exchange, error)
        else:
            await http_rest.refuse(exchange, error)

    async def _serve_health(self, exchange: Exchange, method: str) -> None:
        """Say that the process answers; the one path that needs no key."""
        if method == "GET":
            await exchange.respond(200, b'{"status":"ok"}')
        else:
            await _refuse_method(exchange, ["GET"])

    async def _serve_ready(self, exchange: Exchange, caller: Caller) -> None:
        if (refusal := await caller.refusal()) is not None:
            await http_rest.refuse(exchange, refusal)
            return
        state = self._ready()
        await exchange.respond(200 if state.get("ready") else 503, jsonrpc.encode(dict(state)))

    async def _serve_metrics(self, exchange: Exchange, caller: Caller) -> None:
        """Show the metrics to operators: they count what all tenants do."""
        if (refusal := await caller.refusal("operator")) is not None:
            await http_rest.refuse(exchange, refusal)
            return
        await exchange.respond(200, self._metrics(), METRICS_TYPE)

    async def _serve_openapi(self, exchange: Exchange, caller: Caller) -> None:
        if (refusal := await caller.refusal()) is not None:
            await http_rest.refuse(exchange, refusal)
            return
        await exchange.respond(200, openapi.encoded(self._version))


def _is_large(exchange: Exchange) -> bool:
    announced = exchange.announced_bytes
    return announced is None or announced > LARGE_BODY_BYTES


async def _refuse_method(exchange: Exchange, verbs: list[str]) -> None:
    """Send 405 as JSON, key or not, so that a client learns the verb and not a reason to sign in."""
    allow = ", ".join(verbs)
    body = rest.error_body(NotFound(f"{exchange.method[:16]} is not answered here; use {allow}."))
    body["error"]["code"] = "method_not_allowed"
    await exchange.respond(405, jsonrpc.encode(body), headers=[(b"allow", allow.encode("ascii"))])


async def _serve_lifespan(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return
