"""An agent in this process: tool calls through the real messages, dispatcher and service, without a transport.

It keeps to what clients do with an answer: it reads the text alone, since most of them drop an error's `data`,
and it is held to what they show of it.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mcp_gateway import jsonrpc
from mcp_gateway.calling import Calls, Door
from mcp_gateway.dispatcher import Answer, Dispatcher
from mcp_gateway.eras import REVISIONS
from mcp_gateway.http_caller import Caller
from mcp_gateway.intake import classify
from mcp_gateway.results import RESULTS
from proto.messages import KeyCredential
from tests.support.envelopes import enveloped
from tests.support.open_service import OpenPeer
from tests.support.result_shapes import deviations
from tests.support.token_count import count_tokens

RESULT_CHARS = 50_000
RESULT_TOKENS = 25_000
ERROR_CHARS = 300

_OF_THE_DATA = re.compile(r"Nothing was |It may have been |Your place ")
_JSON_OBJECT = re.compile(r"\{.*\}")


@dataclass(frozen=True, slots=True)
class Told:
    """What one call told the agent.

    Args:
        text: of the answer, all that a model reads.
        result: the object in it; empty for an error.
        failed: it is an error, of either kind.
    """

    text: str
    result: Mapping[str, Any]
    failed: bool

    def __getitem__(self, name: str) -> Any:
        assert not self.failed, self.text
        return self.result[name]

    def __contains__(self, name: str) -> bool:
        return name in self.result

    @property
    def note(self) -> str:
        """The note of a result, "" when there is none."""
        assert not self.failed, self.text
        return str(self.result.get("note", ""))

    @property
    def error(self) -> str:
        """The text of what must be an error."""
        assert self.failed, self.text
        return self.text

    @property
    def example(self) -> dict[str, Any]:
        """The arguments that the text gives to paste."""
        found = _JSON_OBJECT.search(self.error)
        assert found is not None, self.text
        example: dict[str, Any] = json.loads(found[0])
        return example


class McpAgent:
    """One agent with its key.  Call it with a tool's name and arguments.

    Args:
        peer: that serves it.
        key: its key.
        project: of its workspace.
        door: the way to the peer, where it is not the usual one.
        calls: how the gateway calls, where it is not as usual.
    """

    def __init__(
        self,
        peer: OpenPeer,
        key: str,
        project: str | None = None,
        door: Door | None = None,
        calls: Calls | None = None,
    ) -> None:
        self._caller = Caller(peer.core.service, KeyCredential(key), project)
        self._door = door or self._caller.door
        self._dispatcher = Dispatcher("0", calls or Calls())
        self._ids = itertools.count()
        self.lose_replies = False

    async def __call__(self, tool: str, **arguments: Any) -> Told:
        """Make a call, hold the answer to the cut-offs of clients, and return what it tells."""
        params = {"name": tool, "arguments": arguments}
        answer = await _answer(self._dispatcher, self._door, next(self._ids), "tools/call", params)
        if not self.lose_replies:
            self._caller.confirm(page for _, page in answer.pages)
        told = _told(json.loads(jsonrpc.encode(answer.body)))
        if told.failed:
            check_error(told.text)
        else:
            assert list(deviations(RESULTS[tool], told.result)) == []
            assert len(told.text) <= RESULT_CHARS
            assert count_tokens(told.text) <= RESULT_TOKENS
        return told

    async def pages(self, **arguments: Any) -> list[dict[str, Any]]:
        """Drain as the instructions say, until remaining is 0, and return all entries."""
        diffs: list[dict[str, Any]] = []
        while True:
            page = await self("drain_inbox", **arguments)
            diffs += page["diffs"]
            if page["remaining"] == 0:
                return diffs
            assert page["diffs"], "a page is never empty while entries remain"
            assert f"{page['remaining']} more wait: call drain_inbox again." in page.note


def check_error(text: str) -> None:
    """Assert that the text of an error has its three parts and fits."""
    assert len(text) <= ERROR_CHARS, text
    assert re.match(r"[a-z_]+: \S", text), "the code word, and what is wrong"
    data = list(_OF_THE_DATA.finditer(text))
    assert len(data) == 1, f"what happened to the data, once: {text}"
    step = text[data[0].start() :].partition(". ")[2]
    assert len(step) > len("Again."), f"the next step: {text}"


async def list_tools(revision: str) -> Any:
    """Return what `tools/list` answers in a revision."""

    async def nobody(method: str, args: Mapping[str, Any], deadline_ms: int) -> Any:
        raise AssertionError("listing the tools asks no peer")

    spoken = REVISIONS.find(revision, per_request=True)
    params = {} if spoken is None else enveloped(version=revision)
    answer = await _answer(Dispatcher("0", Calls()), nobody, 1, "tools/list", params, revision)
    return json.loads(jsonrpc.encode(answer.body))["result"]["tools"]


async def _answer(
    dispatcher: Dispatcher,
    door: Door,
    id_: int,
    method: str,
    params: Mapping[str, Any],
    revision: str | None = None,
) -> Answer:
    message = {"jsonrpc": "2.0", "id": id_, "method": method, "params": params}
    agreed = REVISIONS.find(revision, per_request=False)
    asked = classify(jsonrpc.parse(json.dumps(message).encode()), dispatcher.revisions, agreed=agreed)
    assert asked is not None
    return await dispatcher.answer(asked, door)


def _told(body: Mapping[str, Any]) -> Told:
    if "error" in body:
        return Told(body["error"]["message"], {}, failed=True)
    result = body["result"]
    (part,) = result["content"]
    if result["isError"]:
        return Told(part["text"], {}, failed=True)
    assert json.loads(part["text"]) == result["structuredContent"]
    return Told(part["text"], result["structuredContent"], failed=False)
