"""A peer in memory for tests of the gateway: it answers every method, remembers what it was asked, fails on
demand.

A verified fake: `tests/unit/mcp_gateway/test_recording_requester.py` holds it to what the gateway relies on
(idempotency keys, pages that are listed again until they are known to be written).  It searches by words and
keeps nothing.
"""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections import defaultdict, deque
from collections.abc import Mapping
from typing import Any

from mcp_gateway.authentication import KeyText
from proto.errors import Conflict, HyphaeError, NotFound, Unauthenticated
from proto.messages import KeyCredential, LocalUser, Reply, Request

KEY = KeyText("alicekey", bytes(range(32))).format()
OTHER_KEY = KeyText("bobbykey", bytes(range(1, 33))).format()
UNKNOWN_KEY = KeyText("nobodyke", bytes(range(2, 34))).format()
AGENTS = {KEY: "alice", OTHER_KEY: "bobby"}


class Gate:
    """Holds planned calls until it is opened, from any thread."""

    def __init__(self) -> None:
        self._open = threading.Event()
        self._waiting: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    def open(self) -> None:
        self._open.set()
        for loop, event in self._waiting:
            loop.call_soon_threadsafe(event.set)

    async def wait(self) -> None:
        event = asyncio.Event()
        self._waiting.append((asyncio.get_running_loop(), event))
        if not self._open.is_set():
            await event.wait()


class RecordingRequester:
    """Satisfies `mesh.ports.Requester`.

    `plan(method, *outcomes)` decides what the next calls of a method do: a `HyphaeError` becomes the error of
    the reply, another exception is raised, a `Reply` is returned, a `Gate` is waited for first.
    """

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.confirmed: list[str] = []
        self.cancelled: list[str] = []
        self.closed = False
        self.cells: dict[str, dict[str, Any]] = {}
        self._by_key: dict[tuple[str, str], tuple[str, Mapping[str, Any]]] = {}
        self._plans: dict[str, deque[Any]] = defaultdict(deque)
        self._listed: dict[str, dict[str, list[str]]] = defaultdict(dict)  # reader -> page -> cells
        self._read: dict[str, set[str]] = defaultdict(set)

    def plan(self, method: str, *outcomes: Any) -> None:
        self._plans[method].extend(outcomes)

    def asked(self, method: str) -> list[Request]:
        return [request for request in self.requests if request.method == method]

    async def request(self, request: Request) -> Reply:
        self.requests.append(request)
        try:
            planned = self._plans[request.method]
            while planned:
                outcome = planned.popleft()
                if isinstance(outcome, Gate):
                    await outcome.wait()
                    continue
                if isinstance(outcome, HyphaeError):
                    return Reply(error=outcome)
                if isinstance(outcome, BaseException):
                    raise outcome
                assert isinstance(outcome, Reply)
                return outcome
            return self._answer(request)
        except asyncio.CancelledError:
            self.cancelled.append(request.method)
            raise

    def written(self, page: str) -> None:
        self.confirmed.append(page)

    async def close(self) -> None:
        self.closed = True

    def _answer(self, request: Request) -> Reply:
        agent = self._agent(request)
        if agent is None:
            return Reply(error=Unauthenticated("this mesh does not know the key. Ask its owner for one."))
        handler = getattr(self, f"_{request.method}", None)
        if handler is None:
            return Reply(error=NotFound(f"no method {request.method}."))
        try:
            outcome = handler(agent, request.args, request)
        except HyphaeError as error:
            return Reply(error=error)
        return outcome if isinstance(outcome, Reply) else Reply(result=outcome)

    def _agent(self, request: Request) -> str | None:
        if isinstance(request.credential, LocalUser):
            return "operator"
        if isinstance(request.credential, KeyCredential):
            return AGENTS.get(request.credential.key)
        return None

    def _store(self, agent: str, args: Mapping[str, Any], request: Request) -> dict[str, Any]:
        key = args["idempotency_key"]
        known = self._by_key.get((agent, key))
        if known is not None:
            if known[1] != dict(args):
                raise Conflict("the idempotency key was used for another payload. Nothing was stored.")
            return {"node_id": known[0]}
        node_id = str(uuid.uuid4())
        self._by_key[agent, key] = node_id, dict(args)
        self.cells[node_id] = {"agent": agent, "project": request.default_project or "default", **args}
        return {"node_id": node_id}

    def _store_bulk(self, agent: str, args: Mapping[str, Any], request: Request) -> dict[str, Any]:
        results = []
        for number, cell in enumerate(args["cells"]):
            results.append(self._store(agent, {"idempotency_key": f"bulk{number}", **cell}, request))
        return {"results": results}

    def _recall(self, agent: str, args: Mapping[str, Any], request: Request) -> dict[str, Any]:
        words = set(str(args["query"]).lower().split())
        found = []
        for node_id, cell in self.cells.items():
            shared = words & set(str(cell["content"]).lower().split())
            if shared:
                hit: dict[str, Any] = {"node_id": node_id, "distance": 1 - len(shared) / len(words)}
                if args.get("include_content"):
                    hit["content"] = cell["content"]
                found.append(hit)
        return {"results": sorted(found, key=lambda hit: hit["distance"])[: args.get("k", 10)]}

    _query = _recall

    def _get_node(self, agent: str, args: Mapping[str, Any], request: Request) -> dict[str, Any]:
        cell = self.cells.get(args["node_id"])
        if cell is None:
            raise NotFound("no such node.")
        return {"node_id": args["node_id"], "content": cell["content"], "cell_type": cell["cell_type"]}

    def _drain_inbox(self, agent: str, args: Mapping[str, Any], request: Request) -> Reply:
        reader = f"{agent}/{args.get('session_id', '')}"
        for page in (request.wrote or "", args.get("ack", ""), *self.confirmed):
            self._read[reader].update(self._listed[reader].get(page, ()))
        waiting = [node_id for node_id in self.cells if node_id not in self._read[reader]]
        listed = waiting[: args.get("limit", 20)]
        page = str(uuid.uuid4()) if listed and args.get("advance", True) else None
        if page is not None:
            self._listed[reader][page] = listed
        diffs = [{"diff_id": node_id, "content": self.cells[node_id]["content"]} for node_id in listed]
        result = {"diffs": diffs, "cursor": page or "", "remaining": len(waiting) - len(listed)}
        return Reply(result=result, page=page)

    def _whoami(self, agent: str, args: Mapping[str, Any], request: Request) -> dict[str, Any]:
        return {"agent": agent, "owner": agent, "tenant": "default", "scopes": ["read", "write", "operator"]}

    def _open_session(self, agent: str, args: Mapping[str, Any], request: Request) -> dict[str, Any]:
        project = args.get("project") or request.default_project or "default"
        return {"session_id": str(uuid.uuid4()), "project": project, "agent": agent, "open_sessions": []}

    def _close_session(self, agent: str, args: Mapping[str, Any], request: Request) -> dict[str, Any]:
        return {"session_id": args["session_id"], "closed_at": "2026-11-30T09:00:00Z"}

    def _place_beacon(self, agent: str, args: Mapping[str, Any], request: Request) -> dict[str, Any]:
        return {"beacon_id": str(uuid.uuid4()), "interest": args["interest"], "created": True}

    def _withdraw_beacon(self, agent: str, args: Mapping[str, Any], request: Request) -> dict[str, Any]:
        return {"beacon_id": args["beacon_id"], "withdrawn": True}

    def _list_beacons(self, agent: str, args: Mapping[str, Any], request: Request) -> dict[str, Any]:
        return {"agent": agent, "beacons": []}

    def _diffs_since(self, agent: str, args: Mapping[str, Any], request: Request) -> dict[str, Any]:
        return {"diffs": [], "next_since": "2026-11-30T09:00:00Z", "has_more": False}

    def _get_scene(self, agent: str, args: Mapping[str, Any], request: Request) -> dict[str, Any]:
        raise NotFound("no such scene; there are none yet.")

    def _list_scenes(self, agent: str, args: Mapping[str, Any], request: Request) -> dict[str, Any]:
        return {"scenes": []}

    def _issue_key(self, agent: str, args: Mapping[str, Any], request: Request) -> dict[str, Any]:
        return {"id": "abcdefgh", "key": "shown once", **args}

    def _list_keys(self, agent: str, args: Mapping[str, Any], request: Request) -> dict[str, Any]:
        return {"keys": []}

    def _revoke_key(self, agent: str, args: Mapping[str, Any], request: Request) -> dict[str, Any]:
        return {"id": args["id"], "revoked_at": "2026-11-30T09:00:00Z"}

    _rotate_key = _revoke_key

    def _peers(self, agent: str, args: Mapping[str, Any], request: Request) -> dict[str, Any]:
        return {"peers": []}

    def _invite_peer(self, agent: str, args: Mapping[str, Any], request: Request) -> dict[str, Any]:
        return {"token": "t", "expires_at": "2026-11-30T09:00:00Z"}

    def _status(self, agent: str, args: Mapping[str, Any], request: Request) -> dict[str, Any]:
        return {"state": "ok", "cells": len(self.cells)}
