"""The serving end of requests over NATS, and answers that only the asker can read."""

from __future__ import annotations

import asyncio

import pytest

from mesh.rpc_server import REPLY_BYTES_MAX
from mesh.sealing import ReplyKey, seal, unwrap
from proto.errors import (
    Internal,
    Invalid,
    Overloaded,
    ProtocolError,
    Unavailable,
    Uncertain,
)
from proto.messages import (
    Reply,
    Request,
    encode_reply,
    encode_request,
)
from proto.subjects import Subjects
from tests.support.rpc_peers import (
    MESH,
    PEER_A,
    Peers,
    error_of,
    make_request,
    now_ms,
    over_loopback,
)
from tests.support.waiting import until


async def _send(peers: Peers, body: bytes, reply_to: str) -> None:
    await peers.transports[0].publish(Subjects(MESH).requests(PEER_A), body, reply_to)


def test_a_request_whose_deadline_has_passed_is_never_executed() -> None:
    async def scene(peers: Peers) -> None:
        server = await peers.add(PEER_A)
        key = ReplyKey()
        await _send(peers, key.wrap(encode_request(make_request(left_ms=-1))), "_GW.x.t")
        await until(lambda: server.counters.late == 1, "it is dropped")
        assert peers.asked == []

    over_loopback(scene)


def test_an_answer_is_never_sent_to_a_subject_of_the_mesh() -> None:
    async def scene(peers: Peers) -> None:
        server = await peers.add(PEER_A)
        key = ReplyKey()
        wrapped = key.wrap(encode_request(make_request()))
        for reply_to in ("hyphae.m.ev.0.p", "", "$SYS.x", "_PEERS.x", "_INBOX.x"):
            await _send(peers, wrapped, reply_to)
        await _send(peers, b"\xc1", "_GW.x.t")
        await _send(peers, key.wrap(b"\xc1"), "_GW.x.t")
        await until(lambda: server.counters.malformed == 7, "all are dropped")
        assert peers.asked == []

    over_loopback(scene)


def test_requests_beyond_the_bound_are_refused_with_a_hint_and_places_become_free_again() -> None:
    async def scene(peers: Peers) -> None:
        release = asyncio.Event()

        async def handle(_request: Request, _args: bytes) -> Reply:
            await release.wait()
            return Reply(result={})

        server = await peers.add(PEER_A, handle, concurrent_max=2)
        requester = peers.requester()
        requester._peers.heard(MESH, PEER_A, in_service=True, now_ms=now_ms())
        waiting = [asyncio.create_task(requester.request(make_request())) for _ in range(2)]
        await until(lambda: len(server._tasks) == 2, "two are being served")
        error = await error_of(requester.request(make_request()))
        assert isinstance(error, Overloaded)
        assert error.retry_after_ms
        release.set()
        assert all(reply.error is None for reply in await asyncio.gather(*waiting))
        assert (await requester.request(make_request())).error is None
        await requester.close()

    over_loopback(scene)


def test_an_answer_of_the_largest_size_arrives_and_a_larger_one_is_refused_in_words() -> None:
    async def scene(peers: Peers) -> None:
        async def handle(request: Request, _args: bytes) -> Reply:
            empty = len(encode_reply(Reply(result={"x": bytes(65_536)}))) - 65_536
            return Reply(result={"x": bytes(REPLY_BYTES_MAX - empty + request.args["more"])})

        await peers.add(PEER_A, handle)
        requester = peers.requester()
        requester._peers.heard(MESH, PEER_A, in_service=True, now_ms=now_ms())
        assert (await requester.request(make_request(more=0))).error is None
        for method, definite in (("recall", True), ("drain_inbox", False)):
            error = await error_of(requester.request(make_request(method, more=1)))
            assert isinstance(error, Invalid)
            assert "ask for less" in error.message
            assert error.definite == definite
        await requester.close()

    over_loopback(scene)


def test_a_handler_that_raises_or_returns_what_has_no_wire_form_does_not_end_the_server() -> None:
    async def scene(peers: Peers) -> None:
        async def handle(request: Request, _args: bytes) -> Reply:
            if request.args["n"] == 0:
                raise ValueError("secret content")
            return Reply(result={"n": object() if request.args["n"] == 1 else 2})

        await peers.add(PEER_A, handle)
        requester = peers.requester()
        requester._peers.heard(MESH, PEER_A, in_service=True, now_ms=now_ms())
        for n in (0, 1):
            error = await error_of(requester.request(make_request(n=n)))
            assert isinstance(error, Internal)
            assert "secret" not in error.message
        assert (await requester.request(make_request(n=2))).unwrap() == {"n": 2}
        await requester.close()

    over_loopback(scene)


def test_a_handler_is_cancelled_at_the_deadline_of_itsmake_request() -> None:
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
        requester._peers.heard(MESH, PEER_A, in_service=True, now_ms=now_ms())
        assert isinstance(await error_of(requester.request(make_request(left_ms=50))), Uncertain)
        await until(lambda: server.counters.expired == 1, "the handler is cancelled")
        assert cancelled == [1]
        await requester.close()

    over_loopback(scene)


def test_a_server_that_is_stopped_refuses_at_once_and_can_be_started_again() -> None:
    async def scene(peers: Peers) -> None:
        server = await peers.add(PEER_A)
        requester = peers.requester()
        requester._peers.heard(MESH, PEER_A, in_service=True, now_ms=now_ms())
        await server.stop()
        error = await error_of(requester.request(make_request("store")))
        assert isinstance(error, Unavailable)
        assert error.definite
        await server.start()
        assert (await requester.request(make_request("store"))).error is None
        await requester.close()

    over_loopback(scene)


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
