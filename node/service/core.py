"""MemoryService: one request in, one reply out, for every surface alike.

The only place where a call is authenticated, its arguments checked for the last time, and its scope and
projects decided.  No tool hint is read here.  Satisfies `mesh.ports.Requester`, so that the HTTP surface
inside a peer needs no other adapter.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import structlog

from mcp_gateway.arguments import check
from mcp_gateway.calling import defect
from mcp_gateway.operations import find
from node.principals import Principal
from node.service.beacons import BeaconOperations
from node.service.context import Call, PeerContext
from node.service.explaining import ExplainOperations
from node.service.exporting import ExportOperations
from node.service.inbox import InboxOperations
from node.service.keys import KeyOperations
from node.service.members import MemberOperations
from node.service.observing import ObservingOperations
from node.service.places import Places
from node.service.rates import Rates
from node.service.recall import RecallOperations
from node.service.retirement import RetirementOperations
from node.service.scenes import SceneOperations
from node.service.sessions import SessionOperations
from node.service.store import StoreOperations
from node.service.unheard_keys import UnheardKeys
from proto.errors import HyphaeError, Internal, Invalid, Overloaded, Unauthenticated, Uncertain
from proto.ids import ID_BYTES, PageId, parse_base32
from proto.messages import Reply, Request

_log = structlog.get_logger(__name__)

LATE_RETRY_MS = 1_000
SKEWED_MS = 60_000  # no call lives so long: a clock is wrong

Operation = Callable[[Call], Awaitable[Mapping[str, Any] | Reply]]


class MemoryService:
    """All operations of a peer.

    Args:
        context: the parts of the peer.
        count: told of each call: operation, "ok" or the error's code, seconds.
    """

    def __init__(
        self, context: PeerContext, count: Callable[[str, str, float], None] = lambda _o, _c, _s: None
    ) -> None:
        self._context = context
        self._count = count
        bounds = context.bounds
        self._rates = Rates(time.monotonic, bounds.rate_per_key, bounds.rate_burst)
        self._places = Places(bounds.calls_at_once, bounds.calls_at_once_per_key)
        self._unheard = UnheardKeys(context.keys, time.monotonic)
        self.last_request = time.monotonic()
        store, recall = StoreOperations(context), RecallOperations(context)
        sessions, beacons, inbox = (
            SessionOperations(context),
            BeaconOperations(context),
            InboxOperations(context),
        )
        keys, members, look = KeyOperations(context), MemberOperations(context), ObservingOperations(context)
        scenes, explain, export = (
            SceneOperations(context),
            ExplainOperations(context),
            ExportOperations(context),
        )
        self._members, self._sessions, self._scenes = members, sessions, scenes
        self._operations: dict[str, Operation] = {
            "store": store.store,
            "store_bulk": store.store_bulk,
            "recall": recall.recall,
            "query": recall.query,
            "open_session": sessions.open_session,
            "close_session": sessions.close_session,
            "list_sessions": sessions.list_sessions,
            "place_beacon": beacons.place_beacon,
            "list_beacons": beacons.list_beacons,
            "page_beacons": beacons.page_beacons,
            "withdraw_beacon": beacons.withdraw_beacon,
            "diffs_since": inbox.diffs_since,
            "drain_inbox": inbox.drain_inbox,
            "get_scene": scenes.get_scene,
            "list_scenes": scenes.list_scenes,
            "consolidate_scenes": scenes.consolidate_scenes,
            "explain_recall": explain.explain_recall,
            "explain_entry": explain.explain_entry,
            "export": export.export,
            "get_node": look.get_node,
            "whoami": look.whoami,
            "status": look.status,
            "tail": look.tail,
            "verify_log": look.verify_log,
            "shutdown": look.shutdown,
            "issue_key": keys.issue_key,
            "list_keys": keys.list_keys,
            "revoke_key": keys.revoke_key,
            "rotate_key": keys.rotate_key,
            "peers": members.peers,
            "invite_peer": members.invite_peer,
            "retire_peer": RetirementOperations(context).retire_peer,
        }

    async def request(self, request: Request) -> Reply:
        """Serve a call whose credential is a key or the local user."""
        return await self.serve(request, None)

    async def serve(self, request: Request, args_bytes: bytes | None) -> Reply:
        """Serve a call.

        Args:
            args_bytes: the arguments as they were signed, for a `SignedCredential`.

        Returns:
            A reply in any case; an error of ours is `internal`, with its details in the log only.
        """
        self.last_request = began = time.monotonic()
        reply = await self._reply(request, args_bytes)
        known = request.method if request.method in self._operations else "other"
        self._count(known, "ok" if reply.error is None else reply.error.code, time.monotonic() - began)
        return reply

    async def _reply(self, request: Request, args_bytes: bytes | None) -> Reply:
        try:
            return await self._serve(request, args_bytes)
        except HyphaeError as error:
            return Reply(error=error)
        except Exception as error:  # noqa: BLE001  the peer outlives a defect in one call
            _log.error("call_failed", method=request.method[:40], **defect(error))
            return Reply(
                error=Internal("a defect of the peer; details are in its log. It may have been stored.")
            )

    async def _serve(self, request: Request, args_bytes: bytes | None) -> Reply:
        late_ms = self._context.now_ms - request.deadline_ms
        if late_ms > 0:
            hint = " Compare the clocks of the two machines." if late_ms > SKEWED_MS else ""
            raise Uncertain(
                f"the call came {late_ms / 1000:.0f} s after its deadline and was dropped.{hint}",
                definite=True,
            )
        if request.method == "join_peer":
            return Reply(result=await self._members.join_peer(request))
        principal = await self._authenticate(request, args_bytes)
        if principal.key_id is not None:
            self._refuse_if_late()
            self._rates.take(principal.key_id)
        spec, operation = find(request.method), self._operations.get(request.method)
        if spec is None or operation is None:
            raise Invalid(f'there is no operation "{request.method[:40]}".')
        # Who somebody is takes no time, and a peer that is full must still show its metrics to operators.
        with self._places.one(None if request.method == "whoami" else principal.key_id):
            outcome = await operation(Call(principal, check(spec, request.args), request))
        return outcome if isinstance(outcome, Reply) else Reply(result=outcome)

    def _refuse_if_late(self) -> None:
        """Refuse while the event loop is blocked again and again: the caller is served faster elsewhere."""
        watch = self._context.watch
        if watch.is_out:
            raise Overloaded(
                f"this peer runs {watch.lag_ms / 1000:.1f} s late and takes no calls. Nothing was done.",
                retry_after_ms=LATE_RETRY_MS,
            )

    async def _authenticate(self, request: Request, args_bytes: bytes | None) -> Principal:
        try:
            return self._context.keys.authenticate(request, args_bytes)
        except Unauthenticated:
            if self._context.cluster is None or not await self._unheard.came(request):
                raise
            return self._context.keys.authenticate(request, args_bytes)

    @property
    def calls_under_way(self) -> int:
        """Calls of keys that have not been answered yet."""
        return self._places.taken

    async def close_idle_sessions(self) -> None:
        """Close sessions in which nothing happened for 24 h."""
        await self._sessions.close_idle()

    def written(self, page: str) -> None:
        """Note that the reply which carried a page has been written out completely over HTTP."""
        page_id = _page_of(page)
        if page_id is not None:
            self._context.readers.sent(page_id)

    async def close(self) -> None:
        """End what goes on between calls; the composition root owns the parts."""
        await self._scenes.close()


def _page_of(cursor: str) -> PageId | None:
    try:
        return PageId(parse_base32(cursor[1:], "cursor")[:ID_BYTES])
    except HyphaeError:
        return None
