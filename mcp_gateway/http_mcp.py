"""`POST /mcp`: MCP over HTTP, one JSON answer per request, no session.

The duty: the HTTP rules of MCP around the dispatcher: media types, the version header, statuses.  Errors of
JSON-RPC travel at 200, because clients lose them at any other status; 400 is for what is no message.
Source: MCP specification, transports, Streamable HTTP.
"""

from __future__ import annotations

from typing import Any

from mcp_gateway import eras, jsonrpc
from mcp_gateway.dispatcher import Answer, Dispatcher, service_error, tool_of
from mcp_gateway.http_caller import Caller
from mcp_gateway.http_exchange import Exchange, TooLarge, TooSlow
from proto.errors import Unauthenticated
from proto.limits import HTTP_BODY_BYTES

VERSION_HEADER = b"mcp-protocol-version"
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
        status, answer = await self._answer(exchange, caller)
        refused = answer.error if answer is not None and answer.asked else await caller.refusal()
        if isinstance(refused, Unauthenticated):
            await refuse(exchange, refused, None if answer is None else answer.body)
            return
        if answer is None:
            await exchange.respond(status, b"")
        elif await exchange.respond(status, jsonrpc.encode(answer.body)):
            caller.confirm(page for _, page in answer.pages)

    async def _answer(self, exchange: Exchange, caller: Caller) -> tuple[int, Answer | None]:
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
        message = jsonrpc.parse(data)
        values = exchange.header(VERSION_HEADER)
        revision = eras.of_header(values)
        if revision is None:
            text = f"unsupported MCP-Protocol-Version; supported are {eras.supported()}"
            return _invalid(400, text, getattr(message, "id", None))
        if isinstance(message, jsonrpc.Batch):
            if not revision.batches:
                return _invalid(400, f"{revision.name} has no batches")
            exchange.watch()
            return _status(await self._dispatcher.answer_all(message, caller.door), 200)
        return await self._answer_one(exchange, caller, message)

    async def _answer_one(
        self, exchange: Exchange, caller: Caller, message: jsonrpc.Message
    ) -> tuple[int, Answer | None]:
        work = self._dispatcher.answer(message, caller.door)
        tool = tool_of(message)
        if tool is not None and tool.reads:
            return _status(await exchange.while_connected(work), 200)
        if tool is not None and tool.name == "drain_inbox":
            exchange.watch()  # a page counts as read only if the client was there to the end
        return _status(await work, 400 if isinstance(message, jsonrpc.Malformed) else 200)


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


def _invalid(status: int, text: str, id: jsonrpc.Id | None = None) -> tuple[int, Answer]:
    return status, Answer(jsonrpc.error(id, jsonrpc.INVALID_REQUEST, f"Invalid request: {text}"))


def _status(answer: Answer | None, status: int) -> tuple[int, Answer | None]:
    return (202, None) if answer is None else (status, answer)
