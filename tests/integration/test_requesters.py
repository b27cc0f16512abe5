"""Requests over HTTP and over NATS: what reaches a peer, what comes back, and what a failure proves."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from mesh.digests import Digest, Sender, Vitals, encode_digest
from mesh.key_signer import KeySigner
from mesh.loopback import Loopback, LoopbackTransport
from mesh.nats_connections import gateway_requester, peer_transport
from mesh.nats_server import EmbeddedNats
from mesh.nats_transport import NatsOptions, NatsTransport
from mesh.peer_directory import PeerDirectory
from mesh.requester_http import HttpRequester
from mesh.requester_nats import NatsRequester
from mesh.rpc_server import REPLY_BYTES_MAX, RequestHandler, RpcServer
from mesh.sealing import ReplyKey, seal, unwrap
from mesh.transport import Transport
from proto.errors import (
    Forbidden,
    HyphaeError,
    Internal,
    Invalid,
    NotFound,
    Overloaded,
    ProtocolError,
    Unauthenticated,
    Unavailable,
    Uncertain,
)
from proto.ids import MeshId, PeerId, format_base32
from proto.messages import (
    KeyCredential,
    LocalUser,
    Reply,
    Request,
    SignedCredential,
    encode_reply,
    encode_request,
    signed_bytes,
)
from proto.subjects import Subjects
from tests.support.http_peer import HttpPeer, Script
from tests.support.tcp_proxy import TcpProxy
from tests.support.waiting import until

MESH = MeshId(b"m" * 16)
PEER_A, PEER_B = PeerId(b"a" * 16), PeerId(b"b" * 16)
SEED = bytes(range(32))
KEY = f"hyp_abcdefgh_{format_base32(SEED)}"
FAST = NatsOptions(heartbeat_s=0.2, retry_s=0.02, retry_max_s=0.1)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _request(method: str = "recall", left_ms: int = 10_000, **args: Any) -> Request:
    return Request(method, args, _now_ms() + left_ms)


async def _error(asked: Awaitable[Reply]) -> HyphaeError:
    reply = await asked
    assert reply.error is not None, reply
    return reply.error


# -- over HTTP


def _with_peer(
    tmp_path: Path, scene: Callable[[HttpPeer, HttpRequester], Awaitable[None]], *scripts: Script
) -> None:
    async def run() -> None:
        for socket in (tmp_path / "peer.sock", None):
            peer = HttpPeer(socket, list(scripts) or [Script()])
            await peer.start()
            requester = HttpRequester(peer.target, KEY)
            try:
                await scene(peer, requester)
            finally:
                await requester.close()
                await peer.close()

    asyncio.run(run())


def test_a_request_arrives_as_it_was_and_its_reply_comes_back(tmp_path: Path) -> None:
    async def scene(peer: HttpPeer, requester: HttpRequester) -> None:
        request = Request("drain_inbox", {"limit": 5}, _now_ms() + 9_000, None, b"12345678", "page", "web")
        reply = await requester.request(request)
        assert reply.unwrap() == {"method": "drain_inbox"}
        headers, got = peer.requests[0]
        assert got == request
        assert headers["x-hyphae-key"] == KEY
        assert headers["content-type"] == "application/msgpack"
        assert peer.targets == ["/v1/request"]
        requester.written("page")

    _with_peer(tmp_path, scene)


def test_the_key_of_a_request_goes_before_that_of_the_requester_and_the_local_user_never_travels(
    tmp_path: Path,
) -> None:
    async def scene(peer: HttpPeer, requester: HttpRequester) -> None:
        other = Request("whoami", {}, _now_ms() + 9_000, KeyCredential("hyp_other_x"))
        await requester.request(other)
        assert peer.requests[0][0]["x-hyphae-key"] == "hyp_other_x"
        bare = HttpRequester(peer.target)
        await bare.request(Request("status", {}, _now_ms() + 9_000, LocalUser()))
        assert "x-hyphae-key" not in peer.requests[1][0]
        assert peer.requests[1][1].credential is None
        await bare.close()

    _with_peer(tmp_path, scene)


def test_connections_are_kept_open_and_shared_one_call_at_a_time(tmp_path: Path) -> None:
    async def scene(peer: HttpPeer, requester: HttpRequester) -> None:
        for n in range(20):
            assert (await requester.request(_request(query=str(n)))).error is None
        assert peer.connections == 1
        replies = await asyncio.gather(*(requester.request(_request(query=str(n))) for n in range(40)))
        assert all(reply.error is None for reply in replies)
        assert peer.connections <= 40
        assert len(requester._idle) <= 8

    _with_peer(tmp_path, scene)


def test_an_error_of_the_service_is_the_error_of_the_reply(tmp_path: Path) -> None:
    async def refuse(_request: Request) -> Reply:
        return Reply(error=Overloaded("too much.", retry_after_ms=700))

    async def scene(_peer: HttpPeer, requester: HttpRequester) -> None:
        error = await _error(requester.request(_request()))
        assert isinstance(error, Overloaded)
        assert (error.message, error.retry_after_ms) == ("too much.", 700)

    _with_peer(tmp_path, scene, Script(reply=refuse, status=429), Script(reply=refuse, status=200))


@pytest.mark.parametrize("target", ["http://127.0.0.1:1", "/nowhere/peer.sock"])
def test_nobody_at_the_address_is_a_definite_failure_that_names_it(target: str) -> None:
    async def run() -> None:
        requester = HttpRequester(target)
        error = await _error(requester.request(_request("store")))
        assert isinstance(error, Unavailable)
        assert error.definite
        assert target in error.message

    asyncio.run(run())


@pytest.mark.parametrize("script", [Script(hang_up=True), Script(partial=True)])
def test_a_connection_lost_after_sending_leaves_the_outcome_uncertain(tmp_path: Path, script: Script) -> None:
    async def scene(peer: HttpPeer, requester: HttpRequester) -> None:
        error = await _error(requester.request(_request("store", idempotency_key="k")))
        assert isinstance(error, Uncertain)
        assert not error.definite
        assert len(peer.requests) == 1  # a fresh connection: nothing suggests that asking again helps

    _with_peer(tmp_path, scene, script)


def test_a_call_on_a_stale_connection_is_sent_again_only_if_it_can_stand_it(tmp_path: Path) -> None:
    async def scene(peer: HttpPeer, requester: HttpRequester) -> None:
        for request, tries in (
            (_request("recall"), 2),
            (_request("store", idempotency_key="k"), 2),
            (_request("store_bulk", cells=[{"idempotency_key": "k"}]), 2),
            (_request("store"), 1),
            (_request("drain_inbox"), 1),
            (_request("store_bulk", cells=[{}]), 1),
        ):
            peer.scripts[:] = [Script(), Script(hang_up=True), Script()]
            assert (await requester.request(_request())).error is None
            before = len(peer.requests)
            reply = await requester.request(request)
            assert len(peer.requests) - before == tries, request.method
            assert isinstance(reply.error, Uncertain) == (tries == 1), request.method

    _with_peer(tmp_path, scene)


def test_a_stale_connection_that_began_to_answer_is_not_asked_again(tmp_path: Path) -> None:
    async def scene(peer: HttpPeer, requester: HttpRequester) -> None:
        assert (await requester.request(_request())).error is None
        assert isinstance(await _error(requester.request(_request())), Uncertain)
        assert len(peer.requests) == 2

    async def run() -> None:
        for socket in (tmp_path / "peer.sock", None):
            peer = HttpPeer(socket, [Script(), Script(partial=True), Script()])
            await peer.start()
            requester = HttpRequester(peer.target)
            await scene(peer, requester)
            await requester.close()
            await peer.close()

    asyncio.run(run())


def test_a_connection_that_the_peer_has_closed_meanwhile_is_not_used(tmp_path: Path) -> None:
    async def scene(peer: HttpPeer, requester: HttpRequester) -> None:
        assert (await requester.request(_request())).error is None
        peer.hang_up()
        await until(lambda: not requester._idle[0].usable, "the hang-up is seen")
        assert (await requester.request(_request("drain_inbox"))).error is None
        assert peer.connections == 2

    _with_peer(tmp_path, scene)


def test_a_passed_deadline_is_uncertain_once_sent_and_frees_the_connection(tmp_path: Path) -> None:
    async def scene(peer: HttpPeer, requester: HttpRequester) -> None:
        late = await _error(requester.request(_request("store", left_ms=50)))
        assert isinstance(late, Uncertain)
        before = len(peer.requests)
        unsent = await _error(requester.request(_request("store", left_ms=-1)))
        assert isinstance(unsent, Unavailable)
        assert unsent.definite
        assert len(peer.requests) == before
        peer.scripts[:] = [Script()]
        assert (await requester.request(_request())).error is None
        assert not requester._busy

    _with_peer(tmp_path, scene, Script(silent=True))


def test_cancelling_the_caller_closes_its_connection(tmp_path: Path) -> None:
    async def scene(peer: HttpPeer, requester: HttpRequester) -> None:
        asked = asyncio.create_task(requester.request(_request()))
        await until(lambda: bool(peer.requests), "the request has arrived")
        asked.cancel()
        await asyncio.gather(asked, return_exceptions=True)
        assert not requester._busy
        assert not requester._idle

    _with_peer(tmp_path, scene, Script(silent=True))


def test_closing_fails_calls_in_flight_and_those_to_come(tmp_path: Path) -> None:
    async def scene(peer: HttpPeer, requester: HttpRequester) -> None:
        asked = asyncio.create_task(requester.request(_request()))
        await until(lambda: bool(peer.requests), "the request has arrived")
        await requester.close()
        assert isinstance(await _error(asyncio.wait_for(asked, 10)), Uncertain)
        after = await _error(requester.request(_request()))
        assert isinstance(after, Unavailable)
        assert after.definite

    _with_peer(tmp_path, scene, Script(silent=True))


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (401, Unauthenticated),
        (403, Forbidden),
        (404, NotFound),
        (405, NotFound),
        (413, Invalid),
        (421, Forbidden),
        (429, Overloaded),
        (500, Uncertain),
        (502, Uncertain),
        (503, Unavailable),
        (302, ProtocolError),
        (200, ProtocolError),
    ],
)
def test_a_status_without_a_reply_becomes_the_error_it_means(
    tmp_path: Path, status: int, kind: type[HyphaeError]
) -> None:
    async def scene(_peer: HttpPeer, requester: HttpRequester) -> None:
        error = await _error(requester.request(_request()))
        assert type(error) is kind
        assert error.definite == (kind is not Uncertain)

    _with_peer(tmp_path, scene, Script(status=status, content_type="text/html", body=b"<html>"))


def test_an_error_told_in_json_is_taken_over(tmp_path: Path) -> None:
    told = {"error": {"code": "forbidden", "message": "no scope write", "definite": True}}

    async def scene(_peer: HttpPeer, requester: HttpRequester) -> None:
        error = await _error(requester.request(_request()))
        assert (type(error), error.message) == (Forbidden, "no scope write")

    _with_peer(
        tmp_path, scene, Script(status=403, content_type="application/json", body=json.dumps(told).encode())
    )


@pytest.mark.parametrize("body", [b"", b"\xc1", encode_request(_request()), b"[" * 5_000])
def test_what_is_no_reply_is_an_indefinite_defect(tmp_path: Path, body: bytes) -> None:
    async def scene(_peer: HttpPeer, requester: HttpRequester) -> None:
        error = await _error(requester.request(_request()))
        assert isinstance(error, Internal)
        assert not error.definite

    _with_peer(tmp_path, scene, Script(body=body))


def test_a_provisional_response_is_passed_over(tmp_path: Path) -> None:
    async def scene(_peer: HttpPeer, requester: HttpRequester) -> None:
        assert (await requester.request(_request())).error is None

    _with_peer(tmp_path, scene, Script(early=True))


def test_a_call_over_the_limit_is_refused_before_it_is_sent(tmp_path: Path) -> None:
    async def scene(peer: HttpPeer, requester: HttpRequester) -> None:
        error = await _error(requester.request(_request("store", content="x" * 5_000_000)))
        assert isinstance(error, Invalid)
        assert peer.connections == 0
        assert isinstance(await _error(requester.request(_request("store", content="\ud800"))), ProtocolError)

    _with_peer(tmp_path, scene)


@pytest.mark.parametrize(
    "target",
    ["", "peer", "ftp://x", "http://", "http://u:pw-7731@host", "http://h:99999", "http://h/ä", "http://h?q"],
)
def test_what_is_no_address_is_refused_without_showing_a_password(target: str) -> None:
    with pytest.raises(Invalid) as refused:
        HttpRequester(target)
    assert "pw-7731" not in refused.value.message


@pytest.mark.parametrize("key", ["a\r\nX-Evil: 1", "ключ", "", "a\x00b"])
def test_a_key_that_fits_into_no_header_is_refused_and_not_shown(key: str) -> None:
    with pytest.raises(Invalid) as refused:
        HttpRequester("http://127.0.0.1:1", key)
    assert key == "" or key not in refused.value.message


def test_a_path_in_the_address_goes_before_the_path_of_the_call() -> None:
    async def run() -> None:
        peer = HttpPeer(None)
        await peer.start()
        requester = HttpRequester(peer.target + "/memory/")
        assert (await requester.request(_request())).error is None
        assert peer.targets == ["/memory/v1/request"]
        await requester.close()
        await peer.close()

    asyncio.run(run())


def test_the_requester_of_the_stdio_gateway_loads_nothing_heavy() -> None:
    heavy = (
        "numpy",
        "faiss",
        "onnxruntime",
        "pydantic",
        "starlette",
        "uvicorn",
        "nats",
        "cryptography",
        "structlog",
    )
    code = f"import sys, mesh.requester_http; print([m for m in {heavy!r} if m in sys.modules])"
    root = Path(__file__).parents[2]
    told = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "[]"
    code = (
        code.replace("requester_http", "nats_connections")
        .replace("'structlog'", "'re2'")
        .replace(", 'pydantic'", "")
    )
    told = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "[]"


# -- over NATS, with the loopback for what needs no wire


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
            vitals = Vitals(_now_ms(), in_service=in_service)
            digest = encode_digest(Digest(Sender(peer, bytes(8)), 1, vitals, {}, {}))
            await self.transports[0].publish(Subjects(mesh).digest(peer), digest)

    async def close(self) -> None:
        await asyncio.gather(
            *(s.stop() for s in self.servers.values()), *(t.close() for t in self.transports)
        )


async def _ask(peers: Peers, requester: NatsRequester, request: Request, *heard: PeerId) -> Reply:
    """Ask, while the named peers say that they are there."""
    asked = asyncio.create_task(requester.request(request))
    while not asked.done():
        await peers.digests(*heard)
        await asyncio.wait([asked], timeout=0.02)
    return asked.result()


def _over_loopback(scene: Callable[[Peers], Awaitable[None]]) -> None:
    async def run() -> None:
        peers = Peers()
        await scene(peers)
        await peers.close()

    asyncio.run(run())


def test_a_peer_is_found_by_its_digest_and_asked_with_a_signature_instead_of_the_key() -> None:
    async def scene(peers: Peers) -> None:
        seen: list[tuple[Request, bytes]] = []
        wire: list[bytes] = []

        async def handler(request: Request, args: bytes) -> Reply:
            seen.append((request, args))
            return Reply(result={"ok": True}, page="p1")

        async def listen(_subject: str, _reply: str, body: bytes) -> None:
            wire.append(body)

        await peers.add(PEER_A, handler)
        spy = LoopbackTransport(peers.loopback, inbox_prefix="_PEER.spy")
        await spy.subscribe(">", listen)
        await spy.start()
        requester = peers.requester()
        request = Request(
            "drain_inbox", {"limit": 3}, _now_ms() + 9_000, KeyCredential(KEY), b"mark", "p0", "web"
        )
        reply = await _ask(peers, requester, request, PEER_A)
        assert (reply.unwrap(), reply.page) == ({"ok": True}, "p1")
        (got, args), *_ = seen
        proof = got.credential
        assert isinstance(proof, SignedCredential)
        assert (proof.key_id, len(proof.nonce)) == ("abcdefgh", 16)
        message = signed_bytes(got, args, proof.key_id, proof.nonce)
        Ed25519PrivateKey.from_private_bytes(SEED).public_key().verify(proof.signature, message)
        assert (got.method, got.args, got.mark, got.wrote, got.default_project) == (
            request.method,
            request.args,
            request.mark,
            request.wrote,
            request.default_project,
        )
        await until(lambda: len(wire) >= 3, "the spy has heard digest, request and answer")
        assert not [body for body in wire if SEED in body or KEY.encode() in body]
        await asyncio.gather(requester.close(), spy.close())

    _over_loopback(scene)


def test_each_call_has_a_nonce_of_its_own() -> None:
    async def scene(peers: Peers) -> None:
        nonces: list[bytes] = []

        async def handler(request: Request, _args: bytes) -> Reply:
            assert isinstance(request.credential, SignedCredential)
            nonces.append(request.credential.nonce)
            return Reply(result={})

        await peers.add(PEER_A, handler)
        requester = peers.requester()
        for _ in range(5):
            assert (await _ask(peers, requester, _request(), PEER_A)).error is None
        assert len(set(nonces)) == 5
        await requester.close()

    _over_loopback(scene)


def test_one_asker_keeps_to_one_peer_and_different_askers_spread() -> None:
    async def scene(peers: Peers) -> None:
        await peers.add(PEER_A)
        await peers.add(PEER_B)
        requester = peers.requester()
        await _ask(peers, requester, _request(), PEER_A, PEER_B)
        await peers.digests(PEER_A, PEER_B)
        await until(lambda: len(requester._peers.candidates(MESH, b"", _now_ms())) == 2, "both are heard")
        peers.asked.clear()
        for _ in range(10):
            await _ask(peers, requester, _request(), PEER_A, PEER_B)
        assert len(set(peers.asked)) == 1
        await requester.close()

    _over_loopback(scene)
    directory = PeerDirectory()
    for peer in (PEER_A, PEER_B):
        directory.heard(MESH, peer, in_service=True, now_ms=0)
    firsts = [directory.candidates(MESH, b"%d" % n, 1)[0] for n in range(200)]
    assert 60 < firsts.count(PEER_A) < 140


def test_a_peer_out_of_service_silent_or_suspect_comes_last_or_not_at_all() -> None:
    directory = PeerDirectory()
    directory.heard(MESH, PEER_A, in_service=False, now_ms=0)
    directory.heard(MESH, PEER_B, in_service=True, now_ms=0)
    assert directory.candidates(MESH, b"x", 1) == [PEER_B, PEER_A]
    directory.heard(MESH, PEER_A, in_service=True, now_ms=0)
    directory.suspect(MESH, PEER_B, 0)
    assert directory.candidates(MESH, b"x", 1) == [PEER_A, PEER_B]
    directory.heard(MESH, PEER_B, in_service=True, now_ms=4_000)
    assert directory.candidates(MESH, b"x", 5_001) == [PEER_B]
    assert directory.candidates(MeshId(b"o" * 16), b"x", 1) == []
    assert directory.meshes(1) == [MESH]
    assert directory.meshes(70_000) == []


def test_a_peer_that_nobody_serves_any_more_is_passed_over_for_any_call() -> None:
    async def scene(peers: Peers) -> None:
        for peer in (PEER_A, PEER_B):
            await peers.add(peer)
        requester = peers.requester()
        await _ask(peers, requester, _request(), PEER_A, PEER_B)
        await peers.digests(PEER_A, PEER_B)
        await until(lambda: len(requester._peers.candidates(MESH, b"", _now_ms())) == 2, "both are heard")
        first = requester._peers.candidates(MESH, b"abcdefgh", _now_ms())[0]
        await peers.servers[first].stop()
        peers.asked.clear()
        reply = await _ask(peers, requester, _request("drain_inbox"), PEER_A, PEER_B)
        assert reply.error is None
        assert peers.asked == [PEER_B if first == PEER_A else PEER_A]
        await requester.close()

    _over_loopback(scene)


def test_a_busy_peer_is_passed_over_and_if_all_are_busy_the_caller_learns_when_to_come_back() -> None:
    async def scene(peers: Peers) -> None:
        busy = {PEER_A, PEER_B}

        def handler(peer: PeerId) -> RequestHandler:
            async def handle(_request: Request, _args: bytes) -> Reply:
                if peer in busy:
                    return Reply(error=Overloaded("busy.", retry_after_ms=300))
                return Reply(result={"peer": peer})

            return handle

        for peer in (PEER_A, PEER_B):
            await peers.add(peer, handler(peer))
        requester = peers.requester()
        await _ask(peers, requester, _request(), PEER_A, PEER_B)
        await peers.digests(PEER_A, PEER_B)
        await until(lambda: len(requester._peers.candidates(MESH, b"", _now_ms())) == 2, "both are heard")
        all_busy = (await _ask(peers, requester, _request("store"), PEER_A, PEER_B)).error
        assert isinstance(all_busy, Overloaded)
        assert all_busy.retry_after_ms == 300
        second = requester._peers.candidates(MESH, b"abcdefgh", _now_ms())[1]
        busy.discard(second)
        reply = await _ask(peers, requester, _request("store"), PEER_A, PEER_B)
        assert reply.unwrap() == {"peer": second}
        await requester.close()

    _over_loopback(scene)


@pytest.mark.parametrize(
    ("request_", "repeated"),
    [
        (_request("recall", 60_000), True),
        (_request("store", 60_000, idempotency_key="k"), True),
        (_request("store", 300), False),
        (_request("drain_inbox", 300), False),
    ],
)
def test_a_hung_peer_is_left_for_another_only_by_calls_that_can_stand_it(
    request_: Request, repeated: bool
) -> None:
    async def scene(peers: Peers) -> None:
        hung: list[PeerId] = []

        def handler(peer: PeerId) -> RequestHandler:
            async def handle(_request: Request, _args: bytes) -> Reply:
                if not hung:
                    hung.append(peer)
                    await asyncio.Event().wait()
                return Reply(result={"peer": peer})

            return handle

        for peer in (PEER_A, PEER_B):
            await peers.add(peer, handler(peer))
        requester = peers.requester(patience_s=0.05)
        requester._peers.heard(MESH, PEER_A, in_service=True, now_ms=_now_ms())
        requester._peers.heard(MESH, PEER_B, in_service=True, now_ms=_now_ms())
        now = Request(request_.method, request_.args, _now_ms() + (60_000 if repeated else 300))
        reply = await _ask(peers, requester, now, PEER_A, PEER_B)
        if repeated:
            assert reply.unwrap()["peer"] not in hung
            assert requester._peers.candidates(MESH, b"abcdefgh", _now_ms())[-1] == hung[0]
        else:
            assert isinstance(reply.error, Uncertain)
        await requester.close()

    _over_loopback(scene)


def test_a_store_that_may_have_happened_on_one_peer_is_not_denied_by_a_busy_second() -> None:
    async def scene(peers: Peers) -> None:
        calls: list[int] = []

        async def handle(_request: Request, _args: bytes) -> Reply:
            calls.append(1)
            if len(calls) == 1:
                await asyncio.Event().wait()
            return Reply(error=Overloaded("busy.", retry_after_ms=300))

        for peer in (PEER_A, PEER_B):
            await peers.add(peer, handle)
        requester = peers.requester(patience_s=0.05)
        for peer in (PEER_A, PEER_B):
            requester._peers.heard(MESH, peer, in_service=True, now_ms=_now_ms())
        reply = await _ask(peers, requester, _request("store", idempotency_key="k"), PEER_A, PEER_B)
        assert isinstance(reply.error, Uncertain)
        assert not reply.error.definite
        await requester.close()

    _over_loopback(scene)


def test_without_a_connection_or_a_peer_a_call_fails_for_certain_and_says_which() -> None:
    async def scene(peers: Peers) -> None:
        await peers.add(PEER_A)
        requester = peers.requester()
        unheard = await _error(requester.request(_request("store")))
        assert isinstance(unheard, Unavailable)
        assert unheard.definite
        assert "no peer" in unheard.message
        peers.loopback.stop()
        down = await _error(requester.request(_request("store")))
        assert isinstance(down, Unavailable)
        assert down.definite
        assert "no connection" in down.message
        late = await _error(requester.request(_request("store", -1)))
        assert late.definite
        await requester.close()

    _over_loopback(scene)


def test_two_meshes_on_one_server_are_an_error_unless_one_is_named() -> None:
    async def scene(peers: Peers) -> None:
        await peers.add(PEER_A)
        unsure, sure = peers.requester(), peers.requester(mesh=MESH)
        assert (await _ask(peers, unsure, _request(), PEER_A)).error is None
        assert (await _ask(peers, sure, _request(), PEER_A)).error is None
        await peers.digests(PEER_B, mesh=MeshId(b"o" * 16))
        await until(lambda: len(unsure._peers.meshes(_now_ms())) == 2, "both are heard")
        error = (await _ask(peers, unsure, _request(), PEER_A)).error
        assert isinstance(error, Invalid)
        assert "2 meshes" in error.message
        assert (await _ask(peers, sure, _request(), PEER_A)).error is None
        await asyncio.gather(unsure.close(), sure.close())

    _over_loopback(scene)


@pytest.mark.parametrize("key", ["", "hyp_", "hyp_abc_def", KEY[:-1], KEY + "a", KEY.upper(), "x" + KEY])
def test_what_is_no_key_is_refused_and_not_shown(key: str) -> None:
    with pytest.raises(Unauthenticated) as refused:
        KeySigner(key)
    assert not key or key not in refused.value.message


# -- the serving end


async def _send(peers: Peers, body: bytes, reply_to: str) -> None:
    await peers.transports[0].publish(Subjects(MESH).requests(PEER_A), body, reply_to)


def test_a_request_whose_deadline_has_passed_is_never_executed() -> None:
    async def scene(peers: Peers) -> None:
        server = await peers.add(PEER_A)
        key = ReplyKey()
        await _send(peers, key.wrap(encode_request(_request(left_ms=-1))), "_GW.x.t")
        await until(lambda: server.counters.late == 1, "it is dropped")
        assert peers.asked == []

    _over_loopback(scene)


def test_an_answer_is_never_sent_to_a_subject_of_the_mesh() -> None:
    async def scene(peers: Peers) -> None:
        server = await peers.add(PEER_A)
        key = ReplyKey()
        wrapped = key.wrap(encode_request(_request()))
        for reply_to in ("hyphae.m.ev.0.p", "", "$SYS.x", "_PEERS.x", "_INBOX.x"):
            await _send(peers, wrapped, reply_to)
        await _send(peers, b"\xc1", "_GW.x.t")
        await _send(peers, key.wrap(b"\xc1"), "_GW.x.t")
        await until(lambda: server.counters.malformed == 7, "all are dropped")
        assert peers.asked == []

    _over_loopback(scene)


def test_requests_beyond_the_bound_are_refused_with_a_hint_and_places_become_free_again() -> None:
    async def scene(peers: Peers) -> None:
        release = asyncio.Event()

        async def handle(_request: Request, _args: bytes) -> Reply:
            await release.wait()
            return Reply(result={})

        server = await peers.add(PEER_A, handle, concurrent_max=2)
        requester = peers.requester()
        requester._peers.heard(MESH, PEER_A, in_service=True, now_ms=_now_ms())
        waiting = [asyncio.create_task(requester.request(_request())) for _ in range(2)]
        await until(lambda: len(server._tasks) == 2, "two are being served")
        error = await _error(requester.request(_request()))
        assert isinstance(error, Overloaded)
        assert error.retry_after_ms
        release.set()
        assert all(reply.error is None for reply in await asyncio.gather(*waiting))
        assert (await requester.request(_request())).error is None
        await requester.close()

    _over_loopback(scene)


def test_an_answer_of_the_largest_size_arrives_and_a_larger_one_is_refused_in_words() -> None:
    async def scene(peers: Peers) -> None:
        async def handle(request: Request, _args: bytes) -> Reply:
            empty = len(encode_reply(Reply(result={"x": bytes(65_536)}))) - 65_536
            return Reply(result={"x": bytes(REPLY_BYTES_MAX - empty + request.args["more"])})

        await peers.add(PEER_A, handle)
        requester = peers.requester()
        requester._peers.heard(MESH, PEER_A, in_service=True, now_ms=_now_ms())
        assert (await requester.request(_request(more=0))).error is None
        for method, definite in (("recall", True), ("drain_inbox", False)):
            error = await _error(requester.request(_request(method, more=1)))
            assert isinstance(error, Invalid)
            assert "ask for less" in error.message
            assert error.definite == definite
        await requester.close()

    _over_loopback(scene)


def test_a_handler_that_raises_or_returns_what_has_no_wire_form_does_not_end_the_server() -> None:
    async def scene(peers: Peers) -> None:
        async def handle(request: Request, _args: bytes) -> Reply:
            if request.args["n"] == 0:
                raise ValueError("secret content")
            return Reply(result={"n": object() if request.args["n"] == 1 else 2})

        await peers.add(PEER_A, handle)
        requester = peers.requester()
        requester._peers.heard(MESH, PEER_A, in_service=True, now_ms=_now_ms())
        for n in (0, 1):
            error = await _error(requester.request(_request(n=n)))
            assert isinstance(error, Internal)
            assert "secret" not in error.message
        assert (await requester.request(_request(n=2))).unwrap() == {"n": 2}
        await requester.close()

    _over_loopback(scene)


def test_a_handler_is_cancelled_at_the_deadline_of_its_request() -> None:
    async def scene(peers: Peers) -> None:
        cancelled: list[int] = []

        async def handle(_request: Request, _args: bytes) -> Reply:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                cancelled.append(1)
                raise
            return Reply(result={})

        server = await peers.add(PEER_A, handle)
        requester = peers.requester()
        requester._peers.heard(MESH, PEER_A, in_service=True, now_ms=_now_ms())
        assert isinstance(await _error(requester.request(_request(left_ms=50))), Uncertain)
        await until(lambda: server.counters.expired == 1, "the handler is cancelled")
        assert cancelled == [1]
        await requester.close()

    _over_loopback(scene)


def test_a_server_that_is_stopped_refuses_at_once_and_can_be_started_again() -> None:
    async def scene(peers: Peers) -> None:
        server = await peers.add(PEER_A)
        requester = peers.requester()
        requester._peers.heard(MESH, PEER_A, in_service=True, now_ms=_now_ms())
        await server.stop()
        error = await _error(requester.request(_request("store")))
        assert isinstance(error, Unavailable)
        assert error.definite
        await server.start()
        assert (await requester.request(_request("store"))).error is None
        await requester.close()

    _over_loopback(scene)


# -- answers that only the asker can read


def test_an_answer_opens_for_its_asker_and_its_request_only() -> None:
    asker, other = ReplyKey(), ReplyKey()
    public, request = unwrap(asker.wrap(b"request"))
    assert request == b"request"
    sealed = seal(b"the answer", public, request)
    assert b"the answer" not in sealed
    assert asker.open(sealed, b"request") == b"the answer"
    for key, about in ((other, b"request"), (asker, b"another request")):
        with pytest.raises(ProtocolError):
            key.open(sealed, about)
    with pytest.raises(ProtocolError):
        asker.open(sealed[:-1] + bytes([sealed[-1] ^ 1]), b"request")
    with pytest.raises(ProtocolError):
        seal(b"x", bytes(32), b"request")  # a point that gives the same secret to everybody
    for junk in (b"", b"\xc1", b"\x93\x01\x02\x03", sealed[:40]):
        with pytest.raises(ProtocolError):
            asker.open(junk, b"request")
        with pytest.raises(ProtocolError):
            unwrap(junk)


# -- over a real server


def _over_nats(tmp_path: Path, scene: Callable[[EmbeddedNats], Awaitable[None]]) -> None:
    async def run() -> None:
        server = EmbeddedNats(tmp_path / "nats")
        await server.start()
        try:
            await scene(server)
        finally:
            await server.stop()

    asyncio.run(run())


async def _serving_peer(url: str, handler: RequestHandler) -> tuple[Transport, RpcServer, asyncio.Task[None]]:
    transport = peer_transport(url, MESH, PEER_A, "rpc", FAST)
    server = RpcServer(transport, Subjects(MESH).requests(PEER_A), handler)
    await server.start()
    await transport.start()
    assert await transport.wait_connected(10)

    async def digests() -> None:
        digest = encode_digest(Digest(Sender(PEER_A, bytes(8)), 1, Vitals(_now_ms()), {}, {}))
        while True:
            if transport.connected:
                await transport.publish(Subjects(MESH).digest(PEER_A), digest)
            await asyncio.sleep(0.05)

    return transport, server, asyncio.create_task(digests())


def test_gateways_ask_a_peer_over_nats_and_cannot_read_each_others_answers(tmp_path: Path) -> None:
    async def scene(nats: EmbeddedNats) -> None:
        async def handle(request: Request, _args: bytes) -> Reply:
            return Reply(result={"secret": "canary-7731", "method": request.method})

        transport, server, digests = await _serving_peer(nats.peer_url(), handle)
        overheard: list[bytes] = []

        async def listen(_subject: str, _reply: str, body: bytes) -> None:
            overheard.append(body)

        spy = NatsTransport(
            nats.gateway_url(), inbox_prefix="_GW.gateway", echo_subject="_GW.gateway.spy.echo", options=FAST
        )
        await spy.subscribe("_GW.gateway.>", listen)  # one login: the server cannot keep them apart
        await spy.start()
        assert await spy.wait_connected(10)
        requester = gateway_requester(nats.gateway_url(), KEY, options=FAST)
        reply = await requester.request(_request("recall"))
        assert reply.unwrap() == {"secret": "canary-7731", "method": "recall"}
        await until(lambda: any(len(body) > 60 for body in overheard), "the answer is overheard")
        assert not [body for body in overheard if b"canary" in body]
        digests.cancel()
        await asyncio.gather(requester.close(), spy.close(), server.stop(), transport.close())

    _over_nats(tmp_path, scene)


def test_a_gateway_finds_its_peer_again_after_the_server_was_killed(tmp_path: Path) -> None:
    async def scene(nats: EmbeddedNats) -> None:
        async def handle(_request: Request, _args: bytes) -> Reply:
            return Reply(result={})

        transport, server, digests = await _serving_peer(nats.peer_url(), handle)
        requester = gateway_requester(nats.gateway_url(), KEY, options=FAST)
        assert (await requester.request(_request())).error is None
        await nats.stop()
        await nats.start()
        assert await transport.wait_connected(10)
        replies = [await requester.request(_request()) for _ in range(3)]
        assert replies[-1].error is None
        digests.cancel()
        await asyncio.gather(requester.close(), server.stop(), transport.close())

    _over_nats(tmp_path, scene)


def test_a_request_that_was_held_up_until_its_caller_gave_up_is_never_executed(tmp_path: Path) -> None:
    async def scene(nats: EmbeddedNats) -> None:
        executed: list[str] = []

        async def handle(request: Request, _args: bytes) -> Reply:
            executed.append(request.method)
            return Reply(result={})

        transport, server, digests = await _serving_peer(nats.peer_url(), handle)
        proxy = TcpProxy(nats.port)
        await proxy.start()
        url = nats.gateway_url().replace(f":{nats.port}", f":{proxy.port}")
        slow = NatsOptions(heartbeat_s=60)  # the connection itself outlives the black hole
        requester = gateway_requester(url, KEY, options=slow)
        assert (await requester.request(_request("recall"))).error is None
        proxy.stall()
        lost = await _error(requester.request(_request("store", left_ms=200)))
        assert isinstance(lost, Uncertain)
        proxy.resume()
        await until(lambda: server.counters.late == 1, "it arrives late and is dropped")
        assert executed == ["recall"]
        assert (await requester.request(_request("recall"))).error is None
        digests.cancel()
        await asyncio.gather(requester.close(), server.stop(), transport.close())
        await proxy.close()

    _over_nats(tmp_path, scene)
