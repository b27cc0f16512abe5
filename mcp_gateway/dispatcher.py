"""MCP without a transport: one JSON-RPC message in, one answer out.

The duty: the methods of the protocol and the mapping of tools to calls of the service.  It knows no bytes on
a pipe, no HTTP and no key: a `Door` carries who asks.  Nothing here raises for what a caller sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import structlog

from mcp_gateway import arguments, eras, jsonrpc
from mcp_gateway.calling import Calls, Door, defect
from mcp_gateway.instructions import INSTRUCTIONS
from mcp_gateway.refusals import TEXT_CHARS, shown
from mcp_gateway.specs import ToolSpec
from mcp_gateway.tools import TOOLS, descriptors
from mcp_gateway.written_pages import reader_of
from proto.errors import TABLE, HyphaeError, Invalid
from proto.messages import Reply

BATCH_MESSAGES = 100
BATCH_AT_ONCE = 8
SERVER_NAME = "hyphae"
SERVER_TITLE = "Hyphae shared memory"

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Answer:
    """What to send back.

    Args:
        body: a JSON-RPC answer, or a list of them for a batch.
        pages: (reader, page) of each inbox page in it: the caller confirms them once the bytes went out.
        asked: the service has seen who asks.
        error: what the service refused, for transports that have a status of their own.
        revision: what `initialize` agreed on.
    """

    body: Any
    pages: tuple[tuple[str, str], ...] = ()
    asked: bool = False
    error: HyphaeError | None = None
    revision: eras.Revision | None = None


def is_call(message: jsonrpc.Message | jsonrpc.Batch) -> bool:
    """Tell whether answering may need the service, so that others should not wait for it."""
    if isinstance(message, jsonrpc.Batch):
        return any(is_call(each) for each in message.messages)
    return isinstance(message, jsonrpc.Request) and message.method == "tools/call"


def tool_of(message: jsonrpc.Message | jsonrpc.Batch) -> ToolSpec | None:
    """Return the tool that a message calls, if it calls one that exists."""
    if not isinstance(message, jsonrpc.Request) or message.method != "tools/call":
        return None
    name = message.params.get("name")
    return TOOLS.get(name) if isinstance(name, str) else None


class Dispatcher:
    """Answers messages.  Stateless; one instance serves all connections at once.

    Args:
        version: of the server, as `initialize` tells it.
        calls: makes the calls to the service.
    """

    def __init__(self, version: str, calls: Calls) -> None:
        self._version = version
        self._calls = calls
        self._methods = {
            "initialize": self._initialize,
            "ping": self._ping,
            "tools/list": self._tools_list,
        }

    async def answer(self, message: jsonrpc.Message, door: Door) -> Answer | None:
        """Return the answer to one message, or None for one that must not be answered."""
        if isinstance(message, jsonrpc.Request) and message.method == "tools/call":
            return await self._tools_call(message, door)
        return self.answer_now(message)

    def answer_now(self, message: jsonrpc.Message) -> Answer | None:
        """Return the answer to a message that is not a `tools/call`, as `answer` does."""
        if isinstance(message, jsonrpc.Malformed):
            return Answer(jsonrpc.error(message.id, message.code, message.message))
        if not isinstance(message, jsonrpc.Request):
            return None
        method = self._methods.get(message.method) if message.method in eras.LEGACY.methods else None
        if method is None:
            text = f"Method not found: {shown(message.method)[1:-1]}"
            return Answer(jsonrpc.error(message.id, jsonrpc.METHOD_NOT_FOUND, text))
        return method(message)

    async def answer_all(self, batch: jsonrpc.Batch, door: Door) -> Answer | None:
        """Return the answers to a batch in one, or None when none of it is answered.

        At most 100 messages; a few of them run at once.
        """
        if len(batch.messages) > BATCH_MESSAGES:
            text = f"Invalid request: a batch of {len(batch.messages)}; the limit is {BATCH_MESSAGES}"
            return Answer(jsonrpc.error(None, jsonrpc.INVALID_REQUEST, text))
        turn = asyncio.Semaphore(BATCH_AT_ONCE)

        async def one(message: jsonrpc.Message) -> Answer | None:
            if isinstance(message, jsonrpc.Request) and message.method == "initialize":
                text = "Invalid request: initialize must not be part of a batch"
                return Answer(jsonrpc.error(message.id, jsonrpc.INVALID_REQUEST, text))
            async with turn:
                return await self.answer(message, door)

        answers = [a for a in await asyncio.gather(*map(one, batch.messages)) if a is not None]
        if not answers:
            return None
        return Answer(
            [answer.body for answer in answers],
            tuple(page for answer in answers for page in answer.pages),
            any(answer.asked for answer in answers),
            next((answer.error for answer in answers if answer.error is not None), None),
        )

    def _initialize(self, request: jsonrpc.Request) -> Answer:
        revision = eras.negotiate(request.params.get("protocolVersion"))
        body = {
            "protocolVersion": revision.name,
            "capabilities": {"tools": {}},
            "serverInfo": {"name": SERVER_NAME, "title": SERVER_TITLE, "version": self._version},
            "instructions": INSTRUCTIONS,
        }
        return Answer(jsonrpc.result(request.id, body), revision=revision)

    def _ping(self, request: jsonrpc.Request) -> Answer:
        return Answer(jsonrpc.result(request.id, {}))

    def _tools_list(self, request: jsonrpc.Request) -> Answer:
        if request.params.get("cursor") is not None:  # one page holds all, so no cursor was ever given out
            return Answer(jsonrpc.error(request.id, jsonrpc.INVALID_PARAMS, "Invalid cursor"))
        return Answer(jsonrpc.result(request.id, {"tools": descriptors()}))

    async def _tools_call(self, request: jsonrpc.Request, door: Door) -> Answer:
        name, raw = request.params.get("name"), request.params.get("arguments")
        if not isinstance(name, str):
            return _invalid_params(request, "Invalid params: name must be a string")
        tool = TOOLS.get(name)
        if tool is None:
            return _invalid_params(request, f"Unknown tool: {shown(name)[1:-1]}")
        if not isinstance(raw, dict | None):
            return _invalid_params(request, "Invalid params: arguments must be an object")
        try:
            args = arguments.check(tool, raw or {})
        except Invalid as invalid:
            return Answer(jsonrpc.result(request.id, _tool_error(error_text(invalid))))
        try:
            reply = await self._calls.call(tool, args, door)
            return _replied(request, reply, reader_of(args))
        except Exception as unexpected:  # noqa: BLE001 - one call must never end the process
            _log.error("call_failed", method=tool.name, **defect(unexpected))
            return _defect_answer(request, tool)


def error_text(error: HyphaeError) -> str:
    """Return what an agent reads: the code word first, because clients drop everything but the text."""
    text = f"{error.code}: {error.message}"
    return text if len(text) <= TEXT_CHARS else f"{text[: TEXT_CHARS - 3]}..."


def error_data(error: HyphaeError) -> dict[str, Any]:
    """Return the fields of an error for programs."""
    data: dict[str, Any] = {"code": error.code, "definite": error.definite}
    if error.retry_after_ms is not None:
        data["retry_after_ms"] = error.retry_after_ms
    return data


def service_error(id: jsonrpc.Id | None, error: HyphaeError) -> dict[str, Any]:
    """Return an error of the service as a JSON-RPC error object."""
    return jsonrpc.error(id, TABLE[error.code].rpc, error_text(error), error_data(error))


def _replied(request: jsonrpc.Request, reply: Reply, reader: str) -> Answer:
    """Return a reply in the envelope of `tools/call`.

    Raises:
        TypeError, ValueError: the result has no JSON form, which is a defect of the service.
    """
    if reply.error is not None:
        return Answer(service_error(request.id, reply.error), asked=True, error=reply.error)
    payload: Mapping[str, Any] = reply.result or {}
    body = {
        "content": [{"type": "text", "text": jsonrpc.text(payload)}],
        "structuredContent": payload,
        "isError": False,
    }
    pages = ((reader, reply.page),) if reply.page else ()
    return Answer(jsonrpc.result(request.id, body), pages, asked=True)


def _tool_error(text: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}], "isError": True}


def _invalid_params(request: jsonrpc.Request, text: str) -> Answer:
    return Answer(jsonrpc.error(request.id, jsonrpc.INVALID_PARAMS, text))


def _defect_answer(request: jsonrpc.Request, tool: ToolSpec) -> Answer:
    doubt = "It may have been stored. " if tool.stores else ""
    text = f"internal: a defect of the server. {doubt}Its log says where; try again, or report it."
    data = {"code": "internal", "definite": False}
    return Answer(jsonrpc.error(request.id, jsonrpc.INTERNAL_ERROR, text, data), asked=True)
