"""REST and the wire protocol of gateways, over HTTP: requests in, calls of the service, results out.

The duty: the HTTP rules of both, around the table in `rest`.  `/v1/request` carries the same messages as the
mesh does, for gateways that reach this peer by its socket or URL.
"""

from __future__ import annotations

from dataclasses import replace

from mcp_gateway import arguments, jsonrpc, operations, rest
from mcp_gateway.calling import Calls
from mcp_gateway.http_caller import Caller
from mcp_gateway.http_exchange import Exchange, Headers, TooLarge, TooSlow
from mcp_gateway.http_mcp import CHALLENGE, is_json
from proto.errors import HyphaeError, Internal, Invalid, ProtocolError, Unauthenticated, Unavailable
from proto.messages import MESSAGE_BYTES, LocalUser, Reply, decode_request, encode_reply

MSGPACK = b"application/msgpack"


class RestEndpoint:
    """Answers the routes of `rest.ROUTES`.

    Args:
        calls: makes the calls to the service.
    """

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def serve(self, exchange: Exchange, caller: Caller, route: rest.Route, found: rest.Found) -> None:
        """Answer one request.

        Raises:
            Gone: the client left; there is nobody to answer.
            TypeError, ValueError: the result has no JSON form, which is a defect of the service.
        """
        try:
            reply = await self._reply(exchange, caller, route, found)
        except HyphaeError as error:
            refusal = await caller.refusal()  # nobody learns from an error what a key would be needed for
            await refuse(exchange, refusal or error)
            return
        if reply.error is not None:
            await refuse(exchange, reply.error)
        elif await exchange.respond(200, jsonrpc.encode(reply.result or {})) and reply.page:
            caller.confirm([reply.page])

    async def _reply(self, exchange: Exchange, caller: Caller, route: rest.Route, found: rest.Found) -> Reply:
        body = await read_body(exchange, route.body_bytes)
        if body and not is_json(exchange):
            raise _Unsupported("Content-Type must be application/json. Nothing was changed.")
        spec = route.spec
        args = arguments.check(spec, rest.collect(found.args, exchange.query, body, spec))
        work = self._calls.call(spec, args, caller.door)
        if spec.reads:
            return await exchange.while_connected(work)
        if spec.name == "drain_inbox":
            exchange.watch()  # a page counts as read only if the client was there to the end
        return await work


async def serve_wire(exchange: Exchange, caller: Caller) -> None:
    """Answer `POST /v1/request`: a wire `Request` in, a wire `Reply` out.

    The status is 200 for every reply of the service, errors included.  Pages are confirmed by the gateway
    that asks, not here.

    Raises:
        Gone: the client left; there is nobody to answer.
    """
    try:
        request, _ = decode_request(await read_body(exchange, MESSAGE_BYTES))
    except HyphaeError as error:
        await refuse_wire(exchange, error)
        return
    if not (isinstance(caller.credential, LocalUser) and request.credential is not None):
        request = replace(request, credential=caller.credential)
    spec = operations.find(request.method)
    work = caller.requester.request(request)
    reply = await (exchange.while_connected(work) if spec is not None and spec.reads else work)
    await exchange.respond(200, _encoded(reply), MSGPACK)


def _encoded(reply: Reply) -> bytes:
    try:
        return encode_reply(reply)
    except ProtocolError:
        return encode_reply(
            Reply(error=Internal("the reply has no wire form; the log of the peer says why."))
        )


class _Unsupported(Invalid):
    """The body is of another media type."""


class _BodyTooLarge(Invalid):
    """The body exceeds its limit."""


async def read_body(exchange: Exchange, limit: int) -> bytes:
    """Return the body of a request.

    Raises:
        Invalid: it is larger than `limit` bytes.
        Unavailable: it did not arrive in time.
        Gone: the client left.
    """
    try:
        return await exchange.body(limit)
    except TooLarge:
        raise _BodyTooLarge(
            f"the body is larger than {limit} bytes. Nothing was stored. Send less at once."
        ) from None
    except TooSlow:
        raise Unavailable("the body did not arrive in time. Nothing was stored. Try again.") from None


def _status(error: HyphaeError) -> int:
    if isinstance(error, _BodyTooLarge):
        return 413
    return 415 if isinstance(error, _Unsupported) else rest.error_status(error)


async def refuse(exchange: Exchange, error: HyphaeError) -> None:
    """Send an error as REST shows it."""
    headers: Headers = [
        *rest.retry_after(error),
        *(CHALLENGE if isinstance(error, Unauthenticated) else ()),
    ]
    await exchange.respond(_status(error), jsonrpc.encode(rest.error_body(error)), headers=headers)


async def refuse_wire(exchange: Exchange, error: HyphaeError) -> None:
    """Send an error of the transport as a wire `Reply`, with its own status."""
    headers = CHALLENGE if isinstance(error, Unauthenticated) else ()
    await exchange.respond(_status(error), encode_reply(Reply(error=error)), MSGPACK, headers)
