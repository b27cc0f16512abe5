"""Requests over NATS: which peer is asked, what travels, and what a failure proves."""

from __future__ import annotations

import asyncio

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from mesh.key_signer import KeySigner
from mesh.loopback import LoopbackTransport
from mesh.peer_directory import PeerDirectory
from mesh.requester_nats import steady_ms
from mesh.rpc_server import RequestHandler
from proto.errors import (
    Invalid,
    Overloaded,
    Unauthenticated,
    Unavailable,
    Uncertain,
)
from proto.ids import MeshId, PeerId
from proto.messages import (
    KeyCredential,
    Reply,
    Request,
    SignedCredential,
    signed_bytes,
)
from tests.support.rpc_peers import (
    KEY,
    MESH,
    PEER_A,
    PEER_B,
    SEED,
    Peers,
    ask_heard,
    error_of,
    make_request,
    now_ms,
    over_loopback,
)
from tests.support.waiting import until


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
            "drain_inbox", {"limit": 3}, now_ms() + 9_000, KeyCredential(KEY), b"mark", "p0", "web"
        )
        reply = await ask_heard(peers, requester, request, PEER_A)
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

    over_loopback(scene)


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
            assert (await ask_heard(peers, requester, make_request(), PEER_A)).error is None
        assert len(set(nonces)) == 5
        await requester.close()

    over_loopback(scene)


@pytest.mark.parametrize("jump_ms", [3_600_000, -3_600_000])
def test_a_clock_that_jumps_makes_no_peer_unknown(jump_ms: int) -> None:
    async def scene(peers: Peers) -> None:
        off_ms = 0
        await peers.add(PEER_A)
        requester = peers.requester(now_ms=lambda: now_ms() + off_ms)
        await ask_heard(peers, requester, make_request(), PEER_A)
        off_ms = jump_ms
        requester._peers.suspect(MESH, PEER_A, steady_ms())
        assert requester._peers.candidates(MESH, b"", steady_ms()) == [PEER_A]
        assert await requester._find(0.0) == (MESH, [PEER_A])
        await requester.close()

    over_loopback(scene)


def test_one_asker_keeps_to_one_peer_and_different_askers_spread() -> None:
    async def scene(peers: Peers) -> None:
        await peers.add(PEER_A)
        await peers.add(PEER_B)
        requester = peers.requester()
        await ask_heard(peers, requester, make_request(), PEER_A, PEER_B)
        await peers.digests(PEER_A, PEER_B)
        await until(lambda: len(requester._peers.candidates(MESH, b"", steady_ms())) == 2, "both are heard")
        peers.asked.clear()
        for _ in range(10):
            await ask_heard(peers, requester, make_request(), PEER_A, PEER_B)
        assert len(set(peers.asked)) == 1
        await requester.close()

    over_loopback(scene)
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
        await ask_heard(peers, requester, make_request(), PEER_A, PEER_B)
        await peers.digests(PEER_A, PEER_B)
        await until(lambda: len(requester._peers.candidates(MESH, b"", steady_ms())) == 2, "both are heard")
        first = requester._peers.candidates(MESH, b"abcdefgh", steady_ms())[0]
        await peers.servers[first].stop()
        peers.asked.clear()
        reply = await ask_heard(peers, requester, make_request("drain_inbox"), PEER_A, PEER_B)
        assert reply.error is None
        assert peers.asked == [PEER_B if first == PEER_A else PEER_A]
        await requester.close()

    over_loopback(scene)


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
        await ask_heard(peers, requester, make_request(), PEER_A, PEER_B)
        await peers.digests(PEER_A, PEER_B)
        await until(lambda: len(requester._peers.candidates(MESH, b"", steady_ms())) == 2, "both are heard")
        all_busy = (await ask_heard(peers, requester, make_request("store"), PEER_A, PEER_B)).error
        assert isinstance(all_busy, Overloaded)
        assert all_busy.retry_after_ms == 300
        second = requester._peers.candidates(MESH, b"abcdefgh", steady_ms())[1]
        busy.discard(second)
        reply = await ask_heard(peers, requester, make_request("store"), PEER_A, PEER_B)
        assert reply.unwrap() == {"peer": second}
        await requester.close()

    over_loopback(scene)


@pytest.mark.parametrize(
    ("request_", "repeated"),
    [
        (make_request("recall", 60_000), True),
        (make_request("store", 60_000, idempotency_key="k"), True),
        (make_request("store", 300), False),
        (make_request("drain_inbox", 300), False),
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
        requester._peers.heard(MESH, PEER_A, in_service=True, now_ms=now_ms())
        requester._peers.heard(MESH, PEER_B, in_service=True, now_ms=now_ms())
        now = Request(request_.method, request_.args, now_ms() + (60_000 if repeated else 300))
        reply = await ask_heard(peers, requester, now, PEER_A, PEER_B)
        if repeated:
            assert reply.unwrap()["peer"] not in hung
            assert requester._peers.candidates(MESH, b"abcdefgh", steady_ms())[-1] == hung[0]
        else:
            assert isinstance(reply.error, Uncertain)
        await requester.close()

    over_loopback(scene)


def test_a_call_that_must_not_be_repeated_is_given_all_its_time() -> None:
    async def scene(peers: Peers) -> None:
        asked: list[int] = []

        async def handle(_request: Request, _args: bytes) -> Reply:
            asked.append(1)
            await asyncio.sleep(0.1)  # much longer than a peer is given for what may be repeated
            return Reply(result={"done": True})

        for peer in (PEER_A, PEER_B):
            await peers.add(peer, handle)
        requester = peers.requester(patience_s=0.01)
        for peer in (PEER_A, PEER_B):
            requester._peers.heard(MESH, peer, in_service=True, now_ms=now_ms())
        reply = await ask_heard(peers, requester, make_request("drain_inbox"), PEER_A, PEER_B)
        assert reply.unwrap() == {"done": True}
        assert asked == [1]
        await requester.close()

    over_loopback(scene)


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
            requester._peers.heard(MESH, peer, in_service=True, now_ms=now_ms())
        reply = await ask_heard(peers, requester, make_request("store", idempotency_key="k"), PEER_A, PEER_B)
        assert isinstance(reply.error, Uncertain)
        assert not reply.error.definite
        await requester.close()

    over_loopback(scene)


def test_without_a_connection_or_a_peer_a_call_fails_for_certain_and_says_which() -> None:
    async def scene(peers: Peers) -> None:
        await peers.add(PEER_A)
        requester = peers.requester()
        unheard = await error_of(requester.request(make_request("store")))
        assert isinstance(unheard, Unavailable)
        assert unheard.definite
        assert "no peer" in unheard.message
        peers.loopback.stop()
        down = await error_of(requester.request(make_request("store")))
        assert isinstance(down, Unavailable)
        assert down.definite
        assert "no connection" in down.message
        late = await error_of(requester.request(make_request("store", -1)))
        assert late.definite
        await requester.close()

    over_loopback(scene)


def test_two_meshes_on_one_server_are_an_error_unless_one_is_named() -> None:
    async def scene(peers: Peers) -> None:
        await peers.add(PEER_A)
        unsure, sure = peers.requester(), peers.requester(mesh=MESH)
        assert (await ask_heard(peers, unsure, make_request(), PEER_A)).error is None
        assert (await ask_heard(peers, sure, make_request(), PEER_A)).error is None
        await peers.digests(PEER_B, mesh=MeshId(b"o" * 16))
        await until(lambda: len(unsure._peers.meshes(steady_ms())) == 2, "both are heard")
        error = (await ask_heard(peers, unsure, make_request(), PEER_A)).error
        assert isinstance(error, Invalid)
        assert "2 meshes" in error.message
        assert (await ask_heard(peers, sure, make_request(), PEER_A)).error is None
        await asyncio.gather(unsure.close(), sure.close())

    over_loopback(scene)


@pytest.mark.parametrize("key", ["", "hyp_", "hyp_abc_def", KEY[:-1], KEY + "a", KEY.upper(), "x" + KEY])
def test_what_is_no_key_is_refused_and_not_shown(key: str) -> None:
    with pytest.raises(Unauthenticated) as refused:
        KeySigner(key)
    assert len(key) < 8 or key not in refused.value.message
