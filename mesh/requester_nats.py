"""Requests to a mesh over NATS: finds its peers by their digests, keeps to one, falls back to another.

Nothing secret travels: requests are signed, answers are sealed.  A call that may have been executed goes to
a second peer only if executing it twice does no harm.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from mesh import wall_clock
from mesh.digests import decode_digest
from mesh.key_signer import KeySigner, Signer, encode_signed
from mesh.peer_directory import PeerDirectory
from mesh.repeatable import is_read, is_repeatable
from mesh.sealing import ReplyKey
from mesh.transport import Subscription, Transport
from proto.errors import HyphaeError, Internal, Invalid, Overloaded, ProtocolError, Unavailable, Uncertain
from proto.ids import ID_BYTES, MeshId, PeerId, format_base32, parse_base32
from proto.messages import Reply, Request, decode_reply
from proto.subjects import Subjects

DIGESTS: Final = "hyphae.*.dg.*"
DISCOVERY_S: Final = 3.0  # three digests of any peer
PATIENCE_S: Final = 2.0  # with a peer, while there is another to ask
_POLL_S: Final = 0.02


def steady_ms() -> int:
    """Return a clock that never jumps: a wall clock set back would keep peers that are gone for an hour."""
    return time.monotonic_ns() // 1_000_000


class NatsRequester:
    """See `mesh.ports.Requester`.

    Args:
        transport: not yet started, used by nobody else; closed by `close`.
        key: a key text, whatever signs for a key, or None for calls that need no key.
        mesh: which mesh to ask; by default the only one that is heard.
        now_ms: wall clock, ms since 1970.
        discovery_s: how long a call waits for the connection and for a peer to be heard.
        patience_s: how long one peer may take for a repeatable call while another could be asked.
    """

    def __init__(
        self,
        transport: Transport,
        key: str | Signer | None,
        *,
        mesh: MeshId | None = None,
        now_ms: Callable[[], int] = wall_clock.now_ms,
        discovery_s: float = DISCOVERY_S,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self._transport = transport
        self._signer = KeySigner(key) if isinstance(key, str) else key
        self._asker = secrets.token_bytes(8) if self._signer is None else self._signer.key_id.encode()
        self._mesh = mesh
        self._now_ms = now_ms
        self._discovery_s = discovery_s
        self._patience_s = patience_s
        self._reply_key = ReplyKey()
        self._peers = PeerDirectory()
        self._listening: Subscription | None = None
        self._starting = asyncio.Lock()

    async def request(self, request: Request) -> Reply:
        try:
            left_s = self._left_s(request)
            if left_s <= 0:
                raise Unavailable("the time for this call was over before it was sent.")
            await self._start()
            mesh, peers = await self._find(min(left_s, self._discovery_s))
            return await self._ask_in_turn(request, mesh, peers)
        except HyphaeError as error:
            return Reply(error=error)

    def written(self, page: str) -> None:
        """Nothing to do: over a wire this travels with the next drain, as `Request.wrote`."""

    async def close(self) -> None:
        if self._listening is not None:
            await self._listening.cancel()
        await self._transport.close()

    # -- finding peers ----------------------------------------------------------------------------------

    async def _start(self) -> None:
        async with self._starting:
            if self._listening is None:
                self._listening = await self._transport.subscribe(DIGESTS, self._hear_digest)
                await self._transport.start()

    async def _hear_digest(self, subject: str, _reply: str, body: bytes) -> None:
        """Believe the server that only the peer named in the subject could publish there."""
        tokens = subject.split(".")
        mesh, peer = parse_base32(tokens[1], "mesh"), parse_base32(tokens[3], "peer")
        if len(mesh) != ID_BYTES or len(peer) != ID_BYTES:
            return
        try:
            in_service = decode_digest(body).vitals.in_service
        except ProtocolError:
            in_service = True  # of a newer version: it is there, and that is what counts
        self._peers.heard(MeshId(mesh), PeerId(peer), in_service=in_service, now_ms=steady_ms())

    async def _find(self, timeout_s: float) -> tuple[MeshId, list[PeerId]]:
        """Return the mesh and its peers, best first, waiting a while for the first to be heard.

        Raises:
            Unavailable: no connection, or nobody is heard.
            Invalid: several meshes are heard and none was named.
        """
        try:
            async with asyncio.timeout(timeout_s):
                while True:
                    mesh = self._mesh or self._only_mesh()
                    peers = [] if mesh is None else self._peers.candidates(mesh, self._asker, steady_ms())
                    if mesh is not None and peers and self._transport.connected:
                        return mesh, peers
                    await asyncio.sleep(_POLL_S)
        except TimeoutError:
            pass
        if not self._transport.connected:
            raise Unavailable("no connection to NATS. Check HYPHAE_NATS_URL, and that the mesh runs.")
        raise Unavailable("NATS is there, but no peer of a mesh is heard on it. Start one: hyphae up.")

    def _only_mesh(self) -> MeshId | None:
        meshes = self._peers.meshes(steady_ms())
        if len(meshes) > 1:
            shown = ", ".join(format_base32(mesh) for mesh in meshes[:4])
            raise Invalid(
                f"{len(meshes)} meshes are heard on this NATS server ({shown}); name the one meant."
            )
        return meshes[0] if meshes else None

    # -- asking -----------------------------------------------------------------------------------------

    async def _ask_in_turn(self, request: Request, mesh: MeshId, peers: list[PeerId]) -> Reply:
        """Return the first real answer, or the most serious failure.

        Raises:
            HyphaeError: nobody answered; `Uncertain` if anybody may have executed it.
        """
        failure: HyphaeError = Unavailable("no peer could be asked.")
        in_doubt = False
        for n, peer in enumerate(peers):
            another = n + 1 < len(peers)
            patience_s = self._left_s(request)
            if another and is_repeatable(request):
                patience_s = min(patience_s, self._patience_s + _asked_wait_s(request))
            if patience_s <= 0:
                break
            try:
                reply = await self._ask(request, mesh, peer, patience_s)
            except Uncertain as error:
                self._peers.suspect(mesh, peer, steady_ms())
                failure, in_doubt = error, True
                if not is_repeatable(request):
                    break
                continue
            except Unavailable as error:
                self._peers.suspect(mesh, peer, steady_ms())
                away = Unavailable("no peer that is heard takes requests; nothing was executed.")
                failure = away if self._transport.connected else error
                continue
            if isinstance(reply.error, Overloaded) and another:
                failure = reply.error
                continue
            if reply.error is not None and in_doubt:
                return Reply(error=_in_doubt(reply.error, request))
            return reply
        raise _in_doubt(failure, request) if in_doubt else failure

    async def _ask(self, request: Request, mesh: MeshId, peer: PeerId, timeout_s: float) -> Reply:
        encoded = encode_signed(replace(request, credential=None), self._signer)
        subject = Subjects(mesh).requests(peer)
        message = await self._transport.request(subject, self._reply_key.wrap(encoded), timeout_s)
        try:
            return decode_reply(self._reply_key.open(message, encoded))
        except HyphaeError as error:
            raise Internal(f"a peer answered what is no reply: {error.message}") from error

    def _left_s(self, request: Request) -> float:
        return (request.deadline_ms - self._now_ms()) / 1000


def _asked_wait_s(request: Request) -> float:
    """Return how long a call asks the peer itself to wait, in seconds."""
    wait_ms = request.args.get("wait_ms", 0)
    return wait_ms / 1000 if isinstance(wait_ms, int) else 0.0


def _in_doubt(error: HyphaeError, request: Request) -> HyphaeError:
    """Return what a refusal means for a call that another peer may have executed before."""
    if is_read(request) or not isinstance(error, (Overloaded, Unavailable)):
        return error  # nothing to execute, or a verdict that the other peer would have given too
    return Uncertain(error.message, retry_after_ms=error.retry_after_ms)
