"""REST, health and the wire protocol of gateways on a real server, with a fake peer behind it."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mcp_gateway import rest
from proto.errors import Forbidden, Overloaded, Uncertain
from proto.messages import (
    KeyCredential,
    LocalUser,
    Reply,
    Request,
    SignedCredential,
    decode_reply,
    encode_request,
)
from tests.support.http_peer import JSON_HEADERS, HttpPeer
from tests.support.recording_requester import KEY, UNKNOWN_KEY, RecordingRequester

STORE = {"content": "we retry payments", "cell_type": "decision"}
WIRE = {"content-type": "application/msgpack", "x-hyphae-key": KEY}


@pytest.fixture(scope="module")
def shared() -> Iterator[HttpPeer]:
    with HttpPeer() as peer:
        yield peer


@pytest.fixture
def local(tmp_path: Path) -> Iterator[HttpPeer]:
    with HttpPeer(socket_path=tmp_path / "peer.sock") as peer:
        yield peer


def wire(peer: HttpPeer, request: Request, headers: dict[str, str]) -> tuple[int, Reply]:
    answer = peer.request("POST", "/v1/request", encode_request(request), headers)
    assert answer.headers["content-type"] == "application/msgpack"
    return answer.status, decode_reply(answer.body)


def later() -> int:
    return int(time.time() * 1000) + 5_000


@pytest.mark.parametrize("route", rest.ROUTES, ids=lambda r: f"{r.verb} {r.template}")
def test_every_route_reaches_its_method_with_the_caller_s_key(shared: HttpPeer, route: rest.Route) -> None:
    path = re.sub(r"\{\w+\}", "6f9619ff-8b86-d011-b42d-00cf4fc964ff", route.template)
    body = {
        a.name: json.loads(a.example or '"x"')
        for a in route.spec.required
        if f"{{{a.name}}}" not in route.template
    }
    shared.rest(route.verb, path, body or None)
    request = shared.requester.requests[-1]
    assert request.method == route.call
    assert request.credential == KeyCredential(KEY)
    assert set(request.args) - {"idempotency_key"} == {a.name for a in route.spec.required}


def test_a_memory_is_stored_found_and_read(shared: HttpPeer) -> None:
    stored = shared.rest("POST", "/v1/nodes", STORE)
    assert stored.status == 200
    node_id = stored.json["node_id"]
    found = shared.rest("POST", "/v1/recall", {"query": "payments", "k": "5"})
    assert node_id in [hit["node_id"] for hit in found.json["results"]]
    node = shared.rest("GET", f"/v1/nodes/{node_id}")
    assert node.json["content"] == STORE["content"]
    assert node.json["cell_type"] == "Decision"


def test_cells_are_stored_in_bulk_up_to_four_mebibytes(shared: HttpPeer) -> None:
    cells = [{"content": "x" * 60_000, "cell_type": "Fact", "idempotency_key": str(n)} for n in range(60)]
    assert len(shared.rest("POST", "/v1/nodes:bulk", {"cells": cells}).json["results"]) == 60
    assert shared.rest("POST", "/v1/nodes:bulk", {"cells": cells * 2}).status == 413
    assert shared.rest("POST", "/v1/nodes", {"content": "x" * 1_100_000}).status == 413


@pytest.mark.parametrize(
    ("method", "path", "body", "text"),
    [
        ("POST", "/v1/nodes", {}, "content is missing. Nothing was stored."),
        ("POST", "/v1/nodes", {**STORE, "source_agent": "x"}, "who you are comes from your key"),
        ("POST", "/v1/recall", {"query": "x", "limit": 5}, "did you mean k?"),
        ("POST", "/v1/keys/k1:rotate", {"id": "k2"}, "id is given twice"),
        ("GET", "/v1/status?verbose=1", None, "status has no argument verbose"),
        ("POST", "/v1/nodes", [STORE], "the body is no JSON object"),
    ],
)
def test_wrong_arguments_are_400_and_never_reach_the_service(
    shared: HttpPeer, method: str, path: str, body: Any, text: str
) -> None:
    before = len(shared.requester.requests)
    answer = shared.rest(method, path, body)
    assert answer.status == 400
    assert answer.json["error"]["code"] == "invalid"
    assert text in answer.json["error"]["message"]
    assert {request.method for request in shared.requester.requests[before:]} <= {"whoami"}


def test_a_body_that_is_no_json_is_400_and_another_type_415(shared: HttpPeer) -> None:
    assert shared.request("POST", "/v1/nodes", "{", JSON_HEADERS).status == 400
    assert shared.request("POST", "/v1/nodes", b"\xff", JSON_HEADERS).status == 400
    form = {**JSON_HEADERS, "content-type": "application/x-www-form-urlencoded"}
    assert shared.request("POST", "/v1/nodes", "a=1", form).status == 415


@pytest.mark.parametrize("headers", [{}, {"x-hyphae-key": "x"}, {"x-hyphae-key": UNKNOWN_KEY}])
@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/v1/status", None),
        ("POST", "/v1/nodes", "{}"),
        ("POST", "/v1/nodes", json.dumps(STORE)),
        ("GET", "/readyz", None),
        ("GET", "/metrics", None),
    ],
)
def test_without_a_known_key_every_path_is_401(
    shared: HttpPeer, headers: dict[str, str], method: str, path: str, body: str | None
) -> None:
    answer = shared.request(method, path, body, {"content-type": "application/json", **headers})
    assert answer.status == 401
    assert answer.headers["www-authenticate"].startswith("Hyphae")
    assert answer.json["error"]["code"] == "unauthenticated"


def test_health_is_open_and_readiness_and_metrics_need_a_key(shared: HttpPeer) -> None:
    assert shared.request("GET", "/healthz", headers={}).json == {"status": "ok"}
    assert shared.request("HEAD", "/healthz", headers={}).status == 200
    assert shared.request("POST", "/healthz", headers={}).status == 405
    shared.state = {"ready": True, "cells": 5}
    assert shared.rest("GET", "/readyz").json == {"ready": True, "cells": 5}
    shared.state = {"ready": False, "why": "warming"}
    assert shared.rest("GET", "/readyz").status == 503
    metrics = shared.rest("GET", "/metrics")
    assert metrics.body == b"hyphae_up 1\n"
    assert metrics.headers["content-type"].startswith("text/plain")


@pytest.mark.parametrize(
    ("method", "path"), [("DELETE", "/v1/nodes"), ("POST", "/v1/nodes/n1"), ("PUT", "/v1/keys")]
)
def test_another_verb_is_405_with_those_that_are_answered(shared: HttpPeer, method: str, path: str) -> None:
    answer = shared.request(method, path, headers={})
    found = rest.find(path)
    assert found is not None
    assert answer.status == 405
    assert answer.headers["allow"] == ", ".join(found.by_verb)


def test_errors_of_the_service_have_their_status_and_fields() -> None:
    with HttpPeer() as peer:
        peer.requester.plan("recall", Forbidden("no read."), Overloaded("full.", retry_after_ms=1_500))
        forbidden = peer.rest("POST", "/v1/recall", {"query": "x"})
        assert (forbidden.status, forbidden.json["error"]["code"]) == (403, "forbidden")
        full = peer.rest("POST", "/v1/recall", {"query": "x"})
        assert (full.status, full.headers["retry-after"]) == (429, "2")
        assert full.json["error"]["retry_after_ms"] == 1_500
        assert peer.rest("GET", "/v1/nodes/6f9619ff").status == 404
        peer.requester.plan("issue_key", Uncertain("lost."))
        doubt = peer.rest("POST", "/v1/keys", {"agent": "x"})
        assert (doubt.status, doubt.json["error"]["definite"]) == (503, False)
        peer.requester.plan("recall", ValueError("a secret"))
        broken = peer.rest("POST", "/v1/recall", {"query": "x"})
        assert (broken.status, broken.json["error"]["code"]) == (500, "internal")
        assert b"a secret" not in broken.body


def test_a_store_is_repeated_under_one_key_when_its_outcome_is_in_doubt() -> None:
    with HttpPeer() as peer:
        peer.requester.plan("store", Uncertain("lost."))
        assert peer.rest("POST", "/v1/nodes", STORE).status == 200
        first, second = peer.requester.asked("store")
        assert first.args["idempotency_key"] == second.args["idempotency_key"]


def test_a_wire_request_is_passed_on_as_it_is(shared: HttpPeer) -> None:
    request = Request("recall", {"query": "x"}, later(), None, b"12345678", "page", "billing")
    status, reply = wire(shared, request, WIRE)
    assert status == 200
    assert reply.unwrap().keys() == {"results"}
    passed = shared.requester.requests[-1]
    assert passed.credential == KeyCredential(KEY)
    assert (passed.mark, passed.wrote, passed.default_project) == (b"12345678", "page", "billing")
    assert passed.deadline_ms == request.deadline_ms


def test_a_wire_reply_carries_the_error_or_the_page_and_confirms_nothing() -> None:
    with HttpPeer() as peer:
        peer.requester.plan("drain_inbox", Reply(result={"diffs": []}, page="p1"))
        assert wire(peer, Request("drain_inbox", {}, later(), wrote=""), WIRE)[1].page == "p1"
        status, reply = wire(peer, Request("get_node", {"node_id": "x"}, later()), WIRE)
        assert (status, reply.error and reply.error.code) == (200, "not_found")
        assert peer.requester.confirmed == []


@pytest.mark.parametrize("body", [b"", b"\xc1", b"\x90", b"{}", b"\x93\x01\x02\x03"])
def test_a_wire_request_that_is_none_is_a_protocol_error(shared: HttpPeer, body: bytes) -> None:
    answer = shared.request("POST", "/v1/request", body, WIRE)
    assert answer.status == 400
    error = decode_reply(answer.body).error
    assert error is not None
    assert error.code == "protocol"


def test_a_wire_request_without_a_proper_key_is_refused_on_the_wire(shared: HttpPeer) -> None:
    request = Request("recall", {"query": "x"}, later())
    assert wire(shared, request, {"content-type": "application/msgpack"})[0] == 401
    status, reply = wire(shared, request, {**WIRE, "x-hyphae-key": UNKNOWN_KEY})
    assert (status, reply.error and reply.error.code) == (200, "unauthenticated")


def test_on_the_peer_s_own_socket_no_key_means_its_user(local: HttpPeer) -> None:
    assert local.request("GET", "/v1/status", headers={"host": "peer"}).status == 200
    assert local.requester.requests[-1].credential == LocalUser()
    status, _ = wire(local, Request("recall", {"query": "x"}, later()), {})
    assert status == 200
    assert local.requester.requests[-1].credential == LocalUser()
    ping = local.request(
        "POST", "/mcp", '{"jsonrpc":"2.0","id":1,"method":"ping"}', {"content-type": "application/json"}
    )
    assert ping.status == 200


def test_on_the_peer_s_own_socket_a_key_counts_when_it_is_sent(local: HttpPeer) -> None:
    signed = SignedCredential("abcdefgh", b"n" * 16, b"s" * 64)
    local.rest("GET", "/v1/status")
    assert local.rest("GET", "/v1/status", **{"x-hyphae-key": UNKNOWN_KEY}).status == 401
    wire(local, Request("recall", {"query": "x"}, later(), signed), {})
    credentials = [request.credential for request in local.requester.requests]
    assert credentials == [KeyCredential(KEY), KeyCredential(UNKNOWN_KEY), signed]


def test_a_foreign_origin_is_refused_on_the_socket_too(local: HttpPeer) -> None:
    assert local.request("GET", "/v1/status", headers={"origin": "https://evil.example"}).status == 403


def test_over_tcp_nobody_is_the_local_user() -> None:
    requester = RecordingRequester()
    with HttpPeer(requester) as peer:
        for path in ("/v1/status", "/metrics", "/readyz"):
            assert peer.request("GET", path, headers={}).status == 401
        assert wire(peer, Request("status", {}, later()), {})[0] == 401
    assert not any(isinstance(request.credential, LocalUser) for request in requester.requests)
