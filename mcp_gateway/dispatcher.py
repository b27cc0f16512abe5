"""MCP without a transport: what was asked for in, one answer out.

The duty: the methods of the protocol and the mapping of tools to calls of the service.  It knows no bytes on
a pipe, no HTTP and no key: a `Door` carries who asks.  How a revision differs it reads from its row in `eras`.
Nothing here raises for what a caller sent.
"""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import structlog

from mcp_gateway import arguments, eras, jsonrpc
from mcp_gateway.calling import Calls, Door, defect
from mcp_gateway.instructions import INSTRUCTIONS
from mcp_gateway.intake import Asked, Call, Refusal, Together
from mcp_gateway.refusals import TEXT_CHARS, shown
from mcp_gateway.specs import ToolSpec
from mcp_gateway.tools import TOOLS, descriptors
from mcp_gateway.written_pages import reader_of
from proto.errors import TABLE, HyphaeError, Invalid
from proto.messages import Reply

BATCH_AT_ONCE = 8
SERVER_NAME = "hyphae"
SERVER_TITLE = "Hyphae shared memory"
CAPABILITIES: Mapping[str, Any] = {"tools": {}}

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Answer:
    """What to send back.

    Args:
        body: a JSON-RPC answer, or a list of them for a batch.
        status: of HTTP.
        pages: (reader, page) of each inbox page in it: the caller confirms them once the bytes went out.
        asked: the service has seen who asks.
        error: what the service refused, for transports that have a status of their own.
        revision: what `initialize` agreed on.
    """

    body: Any
    status: int = 200
    pages: tuple[tuple[str, str], ...] = ()
    asked: bool = False
    error: HyphaeError | None = None
    revision: eras.Revision | None = None


def is_call(asked: Asked) -> bool:
    """Tell whether answering may take time, as a call or a batch, so that others should not wait for it."""
    return isinstance(asked, Together) or (isinstance(asked, Call) and asked.request.method == "tools/call")


def tool_of(asked: Asked) -> ToolSpec | None:
    """Return the tool that is called, if one is, alone, and exists."""
    if not isinstance(asked, Call) or asked.request.method != "tools/call":
        return None
    name = asked.request.params.get("name")
    return TOOLS.get(name) if isinstance(name, str) else None


class Dispatcher:
    """Answers what was asked for.  Stateless; one instance serves all connections at once.

    Args:
        version: of the server, as `initialize` tells it.
        calls: makes the calls to the service.
        revisions: the table that `intake.classify` is to be given, too.
    """

    def __init__(self, version: str, calls: Calls, revisions: eras.Revisions = eras.REVISIONS) -> None:
        self.revisions = revisions
        self._server = {"name": SERVER_NAME, "title": SERVER_TITLE, "version": version}
        self._calls = calls
        self._methods = {
            "initialize": self._initialize,
            "ping": self._ping,
            eras.DISCOVER: self._discover,
            "tools/list": self._tools_list,
        }

    async def answer(self, asked: Asked, door: Door) -> Answer:
        """Return the answer; of a batch, the answers in one.  A few calls of a batch run at once."""
        if isinstance(asked, Together):
            turn = asyncio.Semaphore(BATCH_AT_ONCE)

            async def one(part: Call | Refusal) -> Answer:
                async with turn:
                    return await self.answer(part, door)

            return _joined(await asyncio.gather(*map(one, asked.parts)))
        if isinstance(asked, Call) and is_call(asked):
            return await self._tools_call(asked, door)
        return self.answer_now(asked)

    def answer_now(self, asked: Call | Refusal) -> Answer:
        """Return the answer to what is not a `tools/call`, as `answer` does."""
        if isinstance(asked, Refusal):
            return Answer(asked.body, asked.status)
        return self._methods[asked.request.method](asked)

    def _initialize(self, call: Call) -> Answer:
        revision = self.revisions.negotiate(call.request.params.get("protocolVersion"))
        agreed = self._result(
            call,
            {
                "protocolVersion": revision.name,
                "capabilities": CAPABILITIES,
                "serverInfo": self._server,
                "instructions": INSTRUCTIONS,
            },
        )
        return Answer(agreed, revision=revision)

    def _discover(self, call: Call) -> Answer:
        offered = {
            "supportedVersions": self.revisions.names,
            "capabilities": CAPABILITIES,
            "instructions": INSTRUCTIONS,
        }
        return Answer(self._result(call, offered))

    def _ping(self, call: Call) -> Answer:
        return Answer(self._result(call, {}))

    def _tools_list(self, call: Call) -> Answer:
        if call.request.params.get("cursor") is not None:  # one page holds all: no cursor was ever given out
            return _refused(call, "Invalid cursor")
        return Answer(self._result(call, {"tools": descriptors()}))

    async def _tools_call(self, call: Call, door: Door) -> Answer:
        name, raw = call.request.params.get("name"), call.request.params.get("arguments")
        if not isinstance(name, str):
            return _refused(call, "Invalid params: name must be a string")
        tool = TOOLS.get(name)
        if tool is None:
            near = difflib.get_close_matches(name.lower()[:40], TOOLS, n=1)
            hint = f"; did you mean {near[0]}?" if near else "."
            return _refused(call, f"Unknown tool: {shown(name)[1:-1]}{hint} There are {', '.join(TOOLS)}.")
        if not isinstance(raw, dict | None):
            return _refused(call, "Invalid params: arguments must be an object")
        try:
            args = arguments.check(tool, raw or {})
        except Invalid as invalid:
            return Answer(self._result(call, _tool_error(error_text(invalid))))
        try:
            return self._replied(call, await self._calls.call(tool, args, door), reader_of(args))
        except Exception as unexpected:  # noqa: BLE001 - one call must never end the process
            _log.error("call_failed", method=tool.name, **defect(unexpected))
            return _defect_answer(call, tool)

    def _replied(self, call: Call, reply: Reply, reader: str) -> Answer:
        """Return a reply in the envelope of `tools/call`.

        Raises:
            TypeError, ValueError: the result has no JSON form, which is a defect of the service.
        """
        if reply.error is not None:
            body = service_error(call.request.id, reply.error)
            return Answer(body, _status(call, body), asked=True, error=reply.error)
        payload: Mapping[str, Any] = reply.result or {}
        result = {
            "content": [{"type": "text", "text": jsonrpc.text(payload)}],
            "structuredContent": payload,
            "isError": False,
        }
        pages = ((reader, reply.page),) if reply.page else ()
        return Answer(self._result(call, result), pages=pages, asked=True)

    def _result(self, call: Call, value: Mapping[str, Any]) -> dict[str, Any]:
        """Return a result as its revision has it."""
        whole = call.revision.era.envelope(call.request.method, value, self._server)
        return jsonrpc.result(call.request.id, whole)


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


def _tool_error(text: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}], "isError": True}


def _joined(answers: list[Answer]) -> Answer:
    return Answer(
        [answer.body for answer in answers],
        pages=tuple(page for answer in answers for page in answer.pages),
        asked=any(answer.asked for answer in answers),
        error=next((answer.error for answer in answers if answer.error is not None), None),
    )


def _refused(call: Call, text: str) -> Answer:
    body = jsonrpc.error(call.request.id, jsonrpc.INVALID_PARAMS, text)
    return Answer(body, _status(call, body))


def _status(call: Call, body: Mapping[str, Any]) -> int:
    return call.revision.era.status(body["error"]["code"])


def _defect_answer(call: Call, tool: ToolSpec) -> Answer:
    doubt = "It may have been stored. " if tool.stores else ""
    text = f"internal: a defect of the server. {doubt}Its log says where; try again, or report it."
    data = {"code": "internal", "definite": False}
    return Answer(jsonrpc.error(call.request.id, jsonrpc.INTERNAL_ERROR, text, data), asked=True)
