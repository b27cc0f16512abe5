"""Scopes decide what a key may do; the hints of tools decide nothing."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from mcp_gateway.operations import OPERATIONS, scope_of
from mcp_gateway.specs import Hints
from mcp_gateway.tools import TOOLS
from proto.errors import Forbidden
from tests.support.open_service import open_peer

CALLS: dict[str, dict[str, object]] = {
    "store": {"content": "x", "cell_type": "Fact"},
    "recall": {"query": "x"},
    "query": {"query": "x", "layer": 0},
    "open_session": {},
    "close_session": {"session_id": "6f9619ff-8b86-d011-b42d-00cf4fc964ff"},
    "place_beacon": {"interest": "x"},
    "list_beacons": {},
    "diffs_since": {"since": "1h"},
    "get_scene": {"scene_id": "6f9619ff-8b86-d011-b42d-00cf4fc964ff"},
    "list_scenes": {},
    "drain_inbox": {},
    "get_node": {"node_id": "6f9619ff-8b86-d011-b42d-00cf4fc964ff"},
    "store_bulk": {"cells": [{"content": "x", "cell_type": "Fact"}]},
    "consolidate_scenes": {},
    "withdraw_beacon": {"beacon_id": "6f9619ff-8b86-d011-b42d-00cf4fc964ff"},
    "list_sessions": {},
    "page_beacons": {},
    "explain_recall": {"query": "x", "node_id": "6f9619ff-8b86-d011-b42d-00cf4fc964ff"},
    "explain_entry": {"diff_id": "6f9619ff-8b86-d011-b42d-00cf4fc964ff"},
    "export": {},
    "whoami": {},
    "issue_key": {"agent": "x"},
    "list_keys": {},
    "revoke_key": {"id": "abcdefgh"},
    "rotate_key": {"id": "abcdefgh"},
    "peers": {},
    "invite_peer": {},
    "retire_peer": {"peer": "x"},
    "status": {},
    "tail": {},
    "verify_log": {},
    "shutdown": {},
}
NEEDS = {
    "store": "write",
    "store_bulk": "write",
    "consolidate_scenes": "write",
    "issue_key": "admin",
    "list_keys": "admin",
    "revoke_key": "admin",
    "rotate_key": "admin",
    "peers": "admin",
    "invite_peer": "operator",
    "retire_peer": "operator",
    "verify_log": "operator",
    "shutdown": "operator",
}
FLIPPED = [
    Hints(r, d, i, o)
    for r in (True, False)
    for d in (True, False)
    for i in (True, False)
    for o in (True, False)
]


async def _forbidden_with(data_dir: Path, scopes: list[str]) -> set[str]:
    """Return the operations that a key with these scopes may not call."""
    refused = set()
    async with open_peer(data_dir) as peer:
        key = await peer.key("someone", scopes=scopes)
        for method, args in CALLS.items():
            reply = await peer.ask(method, args, key)
            if isinstance(reply.error, Forbidden):
                refused.add(method)
    return refused


def test_every_operation_is_tried_and_its_scope_is_documented() -> None:
    assert CALLS.keys() == TOOLS.keys() | OPERATIONS.keys()
    assert {m: scope_of(m) for m in CALLS} == {m: NEEDS.get(m, "read") for m in CALLS} | {"whoami": ""}


@pytest.mark.parametrize("scope", ["read", "write", "mcp-read", "mcp-write"])
def test_a_scope_allows_its_operations_and_no_others(tmp_path: Path, scope: str) -> None:
    allowed_to_all = {"whoami"}
    expected = {m for m in CALLS if NEEDS.get(m, "read") != scope} - allowed_to_all
    assert asyncio.run(_forbidden_with(tmp_path / "peer", [scope])) == expected


@pytest.mark.parametrize("hints", FLIPPED[::5])
def test_flipping_every_hint_changes_no_decision(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hints: Hints
) -> None:
    for name, spec in list(TOOLS.items()):
        monkeypatch.setitem(TOOLS, name, replace(spec, hints=hints))
    expected = {m for m in CALLS if NEEDS.get(m, "read") != "read"} - {"whoami"}
    assert asyncio.run(_forbidden_with(tmp_path / "peer", ["read"])) == expected
