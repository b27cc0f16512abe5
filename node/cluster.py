"""The mesh around a running peer: its transports, its replicator and its request server, as one part.

Made only when the peer has a NATS address; the peer works without it and with it being down.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from mesh import wall_clock
from mesh.digests import Vitals
from mesh.engine_config import EngineConfig
from mesh.nats_connections import peer_transport
from mesh.ports import EventLog, Segment
from mesh.replicator import Replicator
from mesh.rpc_server import RpcServer
from proto.ids import MeshId, PeerId
from proto.messages import Reply, Request
from proto.streams import StreamId
from proto.subjects import Subjects

STOP_S = 3.0


class MeshCluster:
    """See `node.service.context.Cluster`.

    Args:
        nats_urls: asked before each attempt to connect: where NATS is now, with the credentials of a peer.
        serve: answers requests from the mesh.
        vitals: what digests say of this peer, without its addresses.
        member_count: how many members are known.
        on_fork: told of a stream that two processes have written.
    """

    def __init__(
        self,
        peer: PeerId,
        mesh: MeshId,
        nats_urls: Callable[[], Sequence[str]],
        log: EventLog,
        serve: Callable[[Request, bytes], Awaitable[Reply]],
        vitals: Callable[[], Vitals],
        member_count: Callable[[], int],
        on_fork: Callable[[StreamId, int, bytes], None],
    ) -> None:
        subjects = Subjects(mesh)
        self._member_count = member_count
        self._vitals = vitals
        self._live, self._bulk, self._rpc = (
            peer_transport(nats_urls, mesh, peer, use) for use in ("live", "bulk", "rpc")
        )
        self.replicator = Replicator(
            peer, subjects, self._live, self._bulk, log, EngineConfig(), self._say, on_fork=on_fork
        )
        self._server = RpcServer(self._rpc, subjects.requests(peer), serve)
        self._is_member = self.replicator.engine.is_member
        self._urls: tuple[str, ...] = ()

    async def start(self, urls: Sequence[str]) -> None:
        """Begin; needs no connection."""
        self._urls = tuple(urls)
        for transport in (self._live, self._bulk, self._rpc):
            await transport.start()
        await self.replicator.start()
        await self._server.start()

    async def stop(self) -> None:
        """Say nothing more and close the connections."""
        await self._server.stop()
        await self.replicator.stop()
        for transport in (self._live, self._bulk, self._rpc):
            await transport.close()

    def publish(self, segments: Sequence[Segment]) -> None:
        """Send own durable events; from any thread."""
        self.replicator.publish_committed(segments)

    def _say(self) -> Vitals:
        said = self._vitals()
        return Vitals(
            wall_ms=wall_clock.now_ms(),
            urls=self._urls,
            space=said.space,
            version=said.version,
            load=said.load,
            lag_ms=said.lag_ms,
            in_service=said.in_service,
        )

    # -- for operations

    def urls(self) -> Sequence[str]:
        return self._urls

    def status(self) -> Mapping[str, Any]:
        peers = self.replicator.peers()
        return {
            "connected": self._live.connected and self._rpc.connected,
            "peers_up": 1 + len({p.peer for p in peers if not p.silent and self._is_member(p.peer)}),
            "members": self._member_count(),
            "twins": [", ".join(vitals.urls) for vitals in self.replicator.twins()],
        }

    def heard(self) -> Mapping[PeerId, Mapping[str, Any]]:
        now_ms = wall_clock.now_ms()
        return {
            p.peer: {
                "state": "silent" if p.silent else "up",
                "urls": list(p.vitals.urls),
                "version": p.vitals.version,
                "heard_ms_ago": p.heard_ms_ago,
                "missing_events": p.missing_events,
                "clock_off_ms": p.vitals.wall_ms + p.heard_ms_ago - now_ms,
            }
            for p in self.replicator.peers()
        }

    async def durable_on(self, stream: StreamId, sequence: int, wanted: int, timeout_s: float) -> int:
        return await self.replicator.durable_on(stream, sequence, wanted, timeout_s)

    def lacking(self) -> frozenset[PeerId]:
        return self.replicator.lacking()

    def behind_since(self, monotonic_ms: int) -> Mapping[PeerId, bool]:
        return self.replicator.behind_since(monotonic_ms)

    def gauges(self) -> Mapping[str, int]:
        """Return counters for metrics."""
        return dict(self.replicator.engine.gauges())
