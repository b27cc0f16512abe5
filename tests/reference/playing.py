"""The example calls of the tools' pages, played on a real peer, with what differs from run to run made the same.

The duty: one call per tool that works, and each way to be refused that an agent can come into.  It renders
nothing.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mcp_gateway.dispatcher import error_text
from mcp_gateway.error_texts import explained
from mcp_gateway.tools import TOOLS
from proto.errors import HyphaeError, Overloaded, Unavailable, Uncertain
from tests.support.mcp_agent import McpAgent
from tests.support.open_service import OpenPeer

TIME = "2026-11-30T09:00:00Z"
PAGE = "p" + "mfrggzdf" * 4
KEY = "k7f3a9"

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z")
_PAGE = re.compile(r"\bp[a-z2-7]{32}\b")
_WRONG: dict[str, dict[str, Any]] = {
    "store": {"content": "x"},
    "recall": {"query": "x", "limit": 5},
    "query": {"query": "x", "layer": 3},
    "open_session": {"name": "x"},
    "close_session": {},
    "place_beacon": {"query": "x"},
    "list_beacons": {"project": "x"},
    "diffs_since": {"since": "yesterday"},
    "get_scene": {},
    "list_scenes": {"limit": 0},
    "drain_inbox": {"k": 5},
}
_IN_GENERAL: tuple[tuple[str, HyphaeError], ...] = (
    (
        "too many calls at once",
        Overloaded("128 calls of this key are under way, limit 128. Nothing was done."),
    ),
    ("no peer is there", Unavailable("no peer could be reached within 5 s.")),
)


@dataclass
class Played:
    """What one tool answered.

    Args:
        arguments: of the call that works.
        result: what it answered.
        refusals: what was wrong, and the text that an agent reads.
    """

    arguments: Mapping[str, Any] = field(default_factory=dict)
    result: Mapping[str, Any] = field(default_factory=dict)
    refusals: dict[str, str] = field(default_factory=dict)


class _Book:
    """Plays calls and writes down what they answered."""

    def __init__(self) -> None:
        self.tools = {name: Played() for name in TOOLS}

    async def works(self, agent: McpAgent, tool: str, **arguments: Any) -> Mapping[str, Any]:
        told = await agent(tool, **arguments)
        assert not told.failed, told.text
        self.tools[tool].arguments, self.tools[tool].result = arguments, told.result
        return told.result

    async def refused(self, why: str, agent: McpAgent, tool: str, **arguments: Any) -> None:
        self.tools[tool].refusals[why] = (await agent(tool, **arguments)).error


async def play(peer: OpenPeer) -> dict[str, Played]:
    """Return what each tool answers, the same in each run but for distances.

    Args:
        peer: with the real model, and nothing stored.
    """
    book = _Book()
    alice, bob = [McpAgent(peer, await peer.key(name), "shop") for name in ("alice", "bob")]
    await _what_works(book, peer, alice, bob)
    await _what_is_refused(book, peer, alice)
    return _made_the_same(book.tools)


async def _what_works(book: _Book, peer: OpenPeer, alice: McpAgent, bob: McpAgent) -> None:
    await book.works(alice, "place_beacon", interest="payment retries and idempotency")
    content = "We retry payments 3 times with an idempotency key, because the bank drops 1 in 50."
    await book.works(bob, "store", content=content, cell_type="Decision", salience=0.8, tags=["payments"])
    session = await book.works(alice, "open_session", title="checkout errors")
    own = {"session_id": session["session_id"]}
    await book.works(alice, "list_beacons")
    await book.works(alice, "drain_inbox", **own)
    await book.works(alice, "recall", query="what happens when a payment fails", include_content=True)
    await book.works(alice, "diffs_since", since="24h")
    await _scenes(book, peer, alice, bob)
    await book.works(alice, "close_session", **own)


async def _scenes(book: _Book, peer: OpenPeer, alice: McpAgent, bob: McpAgent) -> None:
    for content in (
        "Payment retries use an idempotency key, because the bank may have taken the first payment.",
        "Payment retries wait 1, 4 and 16 s, because the bank limits calls.",
    ):
        await bob("store", content=content, cell_type="Decision")
    await peer.call("consolidate_scenes", {"project": "shop"})
    listed = await book.works(alice, "list_scenes")
    await book.works(alice, "get_scene", scene_id=listed["scenes"][0]["scene_id"])
    await book.works(alice, "query", layer=1, query="payments", include_content=True)


async def _what_is_refused(book: _Book, peer: OpenPeer, alice: McpAgent) -> None:
    nobody = McpAgent(peer, await peer.key("nobody", scopes=["mcp-read"]))
    narrow = McpAgent(peer, await peer.key("narrow", projects={"billing": "rw", "web": "r"}))
    required = {t: {a.name: json.loads(a.example) for a in spec.required} for t, spec in TOOLS.items()}
    unknown = {"session_id": str(uuid.uuid4())}
    for tool, spec in TOOLS.items():
        await book.refused("a wrong argument", alice, tool, **_WRONG[tool])
        if "project" in spec.by_name:
            await book.refused(
                "a project that is not the key's", narrow, tool, **required[tool], project="payroll"
            )
        if "session_id" in spec.by_name:
            await book.refused("an unknown session", alice, tool, **{**required[tool], **unknown})
        await book.refused("no scope for it", nobody, tool, **required[tool])
        for why, error in _IN_GENERAL:
            book.tools[tool].refusals[why] = error_text(explained(spec, error, in_doubt=False))
        if not spec.reads:
            lost = explained(spec, Uncertain("no answer within 30 s."), in_doubt=True, key=KEY)
            book.tools[tool].refusals["a lost answer"] = error_text(lost)
    store = required["store"]
    await book.refused("a project that is only read", narrow, "store", **store, project="web")
    await book.refused("an unknown memory", alice, "store", **store, supersedes=unknown["session_id"])
    await alice("store", **store, idempotency_key=KEY)
    other = {**store, "content": "something else", "idempotency_key": KEY}
    await book.refused("a key of another memory", alice, "store", **other)
    await book.refused("an unknown scene", alice, "get_scene", scene_id=str(uuid.uuid4()))
    await book.refused("a foreign cursor", alice, "drain_inbox", ack=PAGE)


def _made_the_same(tools: dict[str, Played]) -> dict[str, Played]:
    """Return the answers with ids numbered in the order of their appearance, and one time for all times."""
    numbers: dict[str, str] = {}

    def number(found: re.Match[str]) -> str:
        return numbers.setdefault(found[0], str(uuid.UUID(int=0x4000_8000 << 48 | len(numbers) + 1)))

    def same(value: Any) -> Any:
        text = _UUID.sub(number, json.dumps(value, ensure_ascii=False))
        return json.loads(_PAGE.sub(PAGE, _TIME.sub(TIME, text)))

    return {
        name: Played(same(p.arguments), same(p.result), {w: same(t) for w, t in p.refusals.items()})
        for name, p in tools.items()
    }
