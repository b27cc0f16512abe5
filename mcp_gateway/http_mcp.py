"""`POST /mcp`: MCP over HTTP, one JSON answer per request, no session.

The duty: the HTTP rules of MCP around the dispatcher: media types, headers, and what a client's leaving means.
What a message is and which status its answer has is decided without HTTP, in `intake` and `eras`.
Source: MCP specification, transports, Streamable HTTP.
"""

from __future__ import annotations

from typing import Any

from mcp_gateway import jsonrpc
from mcp_gateway.dispatcher import Answer, Dispatcher, service_error, tool_of
from mcp_gateway.http_caller import Caller
from mcp_gateway.http_exchange import Exchange, TooLarge, TooSlow
from mcp_gateway.intake import Asked, Together, classify
from mcp_gateway.ladder import Headers
from proto.errors import Unauthenticated
from proto.limits import HTTP_BODY_BYTES

REPEATED_HEADERS = b"mcp-protocol-version", b"mcp-method", b"mcp-name"
CHALLENGE = ((b"www-authenticate", b'Hyphae realm="hyphae"'),)


class McpEndpoint:
    """Answers POST /mcp once the caller has presented a key.

    Args:
        dispatcher: answers messages.
    """

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher

    async def serve(self, exchange: Exchange, caller: Caller) -> None:
        """Answer one request.

        Raises:
            Gone: the client left; there is nobody to answer.
        """
        answer = await self._answer(exchange, caller)
        refused = answer.error if answer is not None and answer.asked else await caller.refusal()
        if isinstance(refused, Unauthenticated):
            await refuse(exchange, refused, None if answer is None else answer.body)
            return
        if answer is None:
            await exchange.respond(202, b"")
        elif await exchange.respond(answer.status, jsonrpc.encode(answer.body)):
            caller.confirm(page for _, page in answer.pages)

    async def _answer(self, exchange: Exchange, caller: Caller) -> Answer | None:
        try:
            data = await exchange.body(HTTP_BODY_BYTES)
        except TooLarge:
            return _invalid(413, f"the body is larger than {HTTP_BODY_BYTES} bytes; nothing was stored")
        except TooSlow:
            return _invalid(408, "the body did not arrive in time; nothing was stored")
        if not is_json(exchange):
            return _invalid(415, "Content-Type must be application/json")
        if not accepts_json(exchange):
            return _invalid(406, "Accept must allow application/json")
        headers = Headers(*(exchange.header(name) for name in REPEATED_HEADERS))
        asked = classify(jsonrpc.parse(data), self._dispatcher.revisions, headers=headers)
        return None if asked is None else await self._carried_out(exchange, caller, asked)

    async def _carried_out(self, exchange: Exchange, caller: Caller, asked: Asked) -> Answer:
        """Return the answer.  A client that leaves cancels a read; what may change something is finished.

        A store that was cut off would be in doubt, and nobody would be there to be told so.
        """
        work = self._dispatcher.answer(asked, caller.door)
        tool = tool_of(asked)
        if tool is not None and tool.reads:
            return await exchange.while_connected(work)
        if isinstance(asked, Together) or (tool is not None and tool.name == "drain_inbox"):
            exchange.watch()  # a page counts as read only if the client was there to the end
        return await work


async def refuse(exchange: Exchange, error: Unauthenticated, answer: Any = None) -> None:
    """Send 401 as a JSON-RPC error, with the id of the answer that it takes the place of."""
    id = answer.get("id") if isinstance(answer, dict) else None
    await exchange.respond(401, jsonrpc.encode(service_error(id, error)), headers=CHALLENGE)


def is_json(exchange: Exchange) -> bool:
    """Tell whether the body says that it is JSON; parameters such as a charset are ignored."""
    values = exchange.header(b"content-type")
    return len(values) == 1 and values[0].partition(";")[0].strip().lower() == "application/json"


def accepts_json(exchange: Exchange) -> bool:
    """Tell whether the client takes JSON: only a list that leaves it out says no."""
    values = exchange.header(b"accept")
    if not values:
        return True
    for each in ",".join(values).split(","):
        media, _, parameters = each.partition(";")
        unwanted = parameters.replace(" ", "") in {"q=0", "q=0.0", "q=0.00", "q=0.000"}
        if media.strip().lower() in {"application/json", "application/*", "*/*", ""} and not unwanted:
            return True
    return False


def _invalid(status: int, text: str) -> Answer:
    return Answer(jsonrpc.error(None, jsonrpc.INVALID_REQUEST, f"Invalid request: {text}"), status)
