"""Peers of a mesh that serve requests and say so in digests, on the loopback."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from mesh.digests import Digest, Sender, Vitals, encode_digest
from mesh.loopback import Loopback, LoopbackTransport
from mesh.requester_nats import NatsRequester
from mesh.rpc_server import RequestHandler, RpcServer
from proto.errors import (
    HyphaeError,
)
from proto.ids import MeshId, PeerId, format_base32
from proto.messages import (
    Reply,
    Request,
)
from proto.subjects import Subjects

MESH = MeshId(b"m" * 16)
PEER_A, PEER_B = PeerId(b"a" * 16), PeerId(b"b" * 16)
SEED = bytes(range(32))
KEY = f"hyp_abcdefgh_{format_base32(SEED)}"


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def make_request(method: str = "recall", left_ms: int = 10_000, **args: Any) -> Request:
    return Request(method, args, now_ms() + left_ms)


async def error_of(asked: Awaitable[Reply]) -> HyphaeError:
    reply = await asked
    assert reply.error is not None, reply
    return reply.error


class Peers:
    """Peers that serve requests and say so in digests, on the loopback."""

    def __init__(self) -> None:
        self.loopback = Loopback()
        self.transports: list[LoopbackTransport] = []
        self.servers: dict[PeerId, RpcServer] = {}
        self.asked: list[PeerId] = []

    async def add(self, peer: PeerId, handler: RequestHandler | None = None, **options: Any) -> RpcServer:
        async def answer(request: Request, _args: bytes) -> Reply:
            self.asked.append(peer)
            return Reply(result={"peer": peer, "method": request.method})

        transport = LoopbackTransport(self.loopback, inbox_prefix=f"_PEER.{format_base32(peer)}")
        await transport.start()
        self.transports.append(transport)
        server = RpcServer(transport, Subjects(MESH).requests(peer), handler or answer, **options)
        await server.start()
        self.servers[peer] = server
        return server

    def requester(self, key: str | None = KEY, **options: Any) -> NatsRequester:
        transport = LoopbackTransport(self.loopback, inbox_prefix="_GW.test")
        return NatsRequester(transport, key, discovery_s=0.3, **options)

    async def digests(self, *peers: PeerId, mesh: MeshId = MESH, in_service: bool = True) -> None:
        for peer in peers:
            vitals = Vitals(now_ms(), in_service=in_service)
            digest = encode_digest(Digest(Sender(peer, bytes(8)), 1, vitals, {}, {}))
            await self.transports[0].publish(Subjects(mesh).digest(peer), digest)

    async def close(self) -> None:
        await asyncio.gather(
            *(s.stop() for s in self.servers.values()), *(t.close() for t in self.transports)
        )


async def ask_heard(peers: Peers, requester: NatsRequester, request: Request, *heard: PeerId) -> Reply:
    """Ask, while the named peers say that they are there."""
    asked = asyncio.create_task(requester.request(request))
    while not asked.done():
        await peers.digests(*heard)
        await asyncio.wait([asked], timeout=0.02)
    return asked.result()


def over_loopback(scene: Callable[[Peers], Awaitable[None]]) -> None:
    async def run() -> None:
        peers = Peers()
        await scene(peers)
        await peers.close()

    asyncio.run(run())
