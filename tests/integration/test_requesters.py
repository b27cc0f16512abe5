"""Requests over HTTP and over a real NATS server: what reaches a peer, and what a failure proves."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from mesh.digests import Digest, Sender, Vitals, encode_digest
from mesh.nats_connections import gateway_requester, peer_transport
from mesh.nats_server import EmbeddedNats
from mesh.nats_transport import NatsOptions, NatsTransport
from mesh.requester_http import HttpRequester
from mesh.rpc_server import RequestHandler, RpcServer
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
from proto.messages import (
    KeyCredential,
    LocalUser,
    Reply,
    Request,
    encode_request,
)
from proto.subjects import Subjects
from tests.support.rpc_peers import (
    KEY,
    MESH,
    PEER_A,
    error_of,
    make_request,
    now_ms,
)
from tests.support.scripted_peer import Script, ScriptedPeer
from tests.support.tcp_proxy import TcpProxy
from tests.support.waiting import until

FAST = NatsOptions(heartbeat_s=0.2, retry_s=0.02, retry_max_s=0.1)


# -- over HTTP


def _with_peer(
    tmp_path: Path, scene: Callable[[ScriptedPeer, HttpRequester], Awaitable[None]], *scripts: Script
) -> None:
    async def run() -> None:
        for socket in (tmp_path / "peer.sock", None):
            peer = ScriptedPeer(socket, list(scripts) or [Script()])
            await peer.start()
            requester = HttpRequester(peer.target, KEY)
            try:
                await scene(peer, requester)
            finally:
                await requester.close()
                await peer.close()

    asyncio.run(run())


def test_a_request_arrives_as_it_was_and_its_reply_comes_back(tmp_path: Path) -> None:
    async def scene(peer: ScriptedPeer, requester: HttpRequester) -> None:
        request = Request("drain_inbox", {"limit": 5}, now_ms() + 9_000, None, b"12345678", "page", "web")
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
    async def scene(peer: ScriptedPeer, requester: HttpRequester) -> None:
        other = Request("whoami", {}, now_ms() + 9_000, KeyCredential("hyp_other_x"))
        await requester.request(other)
        assert peer.requests[0][0]["x-hyphae-key"] == "hyp_other_x"
        bare = HttpRequester(peer.target)
        await bare.request(Request("status", {}, now_ms() + 9_000, LocalUser()))
        assert "x-hyphae-key" not in peer.requests[1][0]
        assert peer.requests[1][1].credential is None
        await bare.close()

    _with_peer(tmp_path, scene)


def test_connections_are_kept_open_and_shared_one_call_at_a_time(tmp_path: Path) -> None:
    async def scene(peer: ScriptedPeer, requester: HttpRequester) -> None:
        for n in range(20):
            assert (await requester.request(make_request(query=str(n)))).error is None
        assert peer.connections == 1
        replies = await asyncio.gather(*(requester.request(make_request(query=str(n))) for n in range(40)))
        assert all(reply.error is None for reply in replies)
        assert peer.connections <= 40
        assert len(requester._idle) <= 8

    _with_peer(tmp_path, scene)


def test_an_error_of_the_service_is_the_error_of_the_reply(tmp_path: Path) -> None:
    async def refuse(_request: Request) -> Reply:
        return Reply(error=Overloaded("too much.", retry_after_ms=700))

    async def scene(_peer: ScriptedPeer, requester: HttpRequester) -> None:
        error = await error_of(requester.request(make_request()))
        assert isinstance(error, Overloaded)
        assert (error.message, error.retry_after_ms) == ("too much.", 700)

    _with_peer(tmp_path, scene, Script(reply=refuse, status=429), Script(reply=refuse, status=200))


@pytest.mark.parametrize("target", ["http://127.0.0.1:1", "/nowhere/peer.sock"])
def test_nobody_at_the_address_is_a_definite_failure_that_names_it(target: str) -> None:
    async def run() -> None:
        requester = HttpRequester(target)
        error = await error_of(requester.request(make_request("store")))
        assert isinstance(error, Unavailable)
        assert error.definite
        assert target in error.message

    asyncio.run(run())


@pytest.mark.parametrize("script", [Script(hang_up=True), Script(partial=True)])
def test_a_connection_lost_after_sending_leaves_the_outcome_uncertain(tmp_path: Path, script: Script) -> None:
    async def scene(peer: ScriptedPeer, requester: HttpRequester) -> None:
        error = await error_of(requester.request(make_request("store", idempotency_key="k")))
        assert isinstance(error, Uncertain)
        assert not error.definite
        assert len(peer.requests) == 1  # a fresh connection: nothing suggests that asking again helps

    _with_peer(tmp_path, scene, script)


def test_a_call_on_a_stale_connection_is_sent_again_only_if_it_can_stand_it(tmp_path: Path) -> None:
    async def scene(peer: ScriptedPeer, requester: HttpRequester) -> None:
        for request, tries in (
            (make_request("recall"), 2),
            (make_request("store", idempotency_key="k"), 2),
            (make_request("store_bulk", cells=[{"idempotency_key": "k"}]), 2),
            (make_request("store"), 1),
            (make_request("drain_inbox"), 1),
            (make_request("store_bulk", cells=[{}]), 1),
        ):
            peer.scripts[:] = [Script(), Script(hang_up=True), Script()]
            assert (await requester.request(make_request())).error is None
            before = len(peer.requests)
            reply = await requester.request(request)
            assert len(peer.requests) - before == tries, request.method
            assert isinstance(reply.error, Uncertain) == (tries == 1), request.method

    _with_peer(tmp_path, scene)


def test_a_stale_connection_that_began_to_answer_is_not_asked_again(tmp_path: Path) -> None:
    async def scene(peer: ScriptedPeer, requester: HttpRequester) -> None:
        assert (await requester.request(make_request())).error is None
        assert isinstance(await error_of(requester.request(make_request())), Uncertain)
        assert len(peer.requests) == 2

    async def run() -> None:
        for socket in (tmp_path / "peer.sock", None):
            peer = ScriptedPeer(socket, [Script(), Script(partial=True), Script()])
            await peer.start()
            requester = HttpRequester(peer.target)
            await scene(peer, requester)
            await requester.close()
            await peer.close()

    asyncio.run(run())


def test_a_connection_that_the_peer_has_closed_meanwhile_is_not_used(tmp_path: Path) -> None:
    async def scene(peer: ScriptedPeer, requester: HttpRequester) -> None:
        assert (await requester.request(make_request())).error is None
        peer.hang_up()
        await until(lambda: not requester._idle[0].usable, "the hang-up is seen")
        assert (await requester.request(make_request("drain_inbox"))).error is None
        assert peer.connections == 2

    _with_peer(tmp_path, scene)


def test_a_passed_deadline_is_uncertain_once_sent_and_frees_the_connection(tmp_path: Path) -> None:
    async def scene(peer: ScriptedPeer, requester: HttpRequester) -> None:
        late = await error_of(requester.request(make_request("store", left_ms=50)))
        assert isinstance(late, Uncertain)
        before = len(peer.requests)
        unsent = await error_of(requester.request(make_request("store", left_ms=-1)))
        assert isinstance(unsent, Unavailable)
        assert unsent.definite
        assert len(peer.requests) == before
        peer.scripts[:] = [Script()]
        assert (await requester.request(make_request())).error is None
        assert not requester._busy

    _with_peer(tmp_path, scene, Script(silent=True))


def test_cancelling_the_caller_closes_its_connection(tmp_path: Path) -> None:
    async def scene(peer: ScriptedPeer, requester: HttpRequester) -> None:
        asked = asyncio.create_task(requester.request(make_request()))
        await until(lambda: bool(peer.requests), "the request has arrived")
        asked.cancel()
        await asyncio.gather(asked, return_exceptions=True)
        assert not requester._busy
        assert not requester._idle

    _with_peer(tmp_path, scene, Script(silent=True))


def test_closing_fails_calls_in_flight_and_those_to_come(tmp_path: Path) -> None:
    async def scene(peer: ScriptedPeer, requester: HttpRequester) -> None:
        asked = asyncio.create_task(requester.request(make_request()))
        await until(lambda: bool(peer.requests), "the request has arrived")
        await requester.close()
        assert isinstance(await error_of(asyncio.wait_for(asked, 10)), Uncertain)
        after = await error_of(requester.request(make_request()))
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
    async def scene(_peer: ScriptedPeer, requester: HttpRequester) -> None:
        error = await error_of(requester.request(make_request()))
        assert type(error) is kind
        assert error.definite == (kind is not Uncertain)

    _with_peer(tmp_path, scene, Script(status=status, content_type="text/html", body=b"<html>"))


def test_an_error_told_in_json_is_taken_over(tmp_path: Path) -> None:
    told = {"error": {"code": "forbidden", "message": "no scope write", "definite": True}}

    async def scene(_peer: ScriptedPeer, requester: HttpRequester) -> None:
        error = await error_of(requester.request(make_request()))
        assert (type(error), error.message) == (Forbidden, "no scope write")

    _with_peer(
        tmp_path, scene, Script(status=403, content_type="application/json", body=json.dumps(told).encode())
    )


@pytest.mark.parametrize("body", [b"", b"\xc1", encode_request(make_request()), b"[" * 5_000])
def test_what_is_no_reply_is_an_indefinite_defect(tmp_path: Path, body: bytes) -> None:
    async def scene(_peer: ScriptedPeer, requester: HttpRequester) -> None:
        error = await error_of(requester.request(make_request()))
        assert isinstance(error, Internal)
        assert not error.definite

    _with_peer(tmp_path, scene, Script(body=body))


def test_a_provisional_response_is_passed_over(tmp_path: Path) -> None:
    async def scene(_peer: ScriptedPeer, requester: HttpRequester) -> None:
        assert (await requester.request(make_request())).error is None

    _with_peer(tmp_path, scene, Script(early=True))


def test_a_call_over_the_limit_is_refused_before_it_is_sent(tmp_path: Path) -> None:
    async def scene(peer: ScriptedPeer, requester: HttpRequester) -> None:
        error = await error_of(requester.request(make_request("store", content="x" * 5_000_000)))
        assert isinstance(error, Invalid)
        assert peer.connections == 0
        assert isinstance(
            await error_of(requester.request(make_request("store", content="\ud800"))), ProtocolError
        )

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
        peer = ScriptedPeer(None)
        await peer.start()
        requester = HttpRequester(peer.target + "/memory/")
        assert (await requester.request(make_request())).error is None
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
        digest = encode_digest(Digest(Sender(PEER_A, bytes(8)), 1, Vitals(now_ms()), {}, {}))
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
        reply = await requester.request(make_request("recall"))
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
        assert (await requester.request(make_request())).error is None
        await nats.stop()
        await nats.start()
        assert await transport.wait_connected(10)
        replies = [await requester.request(make_request()) for _ in range(3)]
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
        assert (await requester.request(make_request("recall"))).error is None
        proxy.stall()
        lost = await error_of(requester.request(make_request("store", left_ms=200)))
        assert isinstance(lost, Uncertain)
        proxy.resume()
        await until(lambda: server.counters.late == 1, "it arrives late and is dropped")
        assert executed == ["recall"]
        assert (await requester.request(make_request("recall"))).error is None
        digests.cancel()
        await asyncio.gather(requester.close(), server.stop(), transport.close())
        await proxy.close()

    _over_nats(tmp_path, scene)
