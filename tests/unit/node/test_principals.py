"""Keys: who is authenticated, and what is refused."""

from __future__ import annotations

import apsw
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from mcp_gateway.authentication import parse_key
from node import database
from node.identity_projection import IdentityProjection
from node.principals import SIGNED_LIFETIME_MS, KeyRing
from node.service.keys import mint_key
from node.sqlite_log import Logged
from proto.clock import Hlc
from proto.errors import Forbidden, NotFound, Unauthenticated
from proto.events import NO_HASH, seal
from proto.ids import AgentId, MeshId, TenantId
from proto.messages import (
    KeyCredential,
    LocalUser,
    Request,
    SignedCredential,
    encode_args,
    signed_bytes,
)
from proto.payloads import KeyIssued, KeyRevoked, Payload, encode_payload
from tests.support.sealed import stream

MESH = MeshId(b"m" * 16)
NOW_MS = 1_000_000


def _logged(payload: Payload) -> Logged:
    data = encode_payload(payload)
    nobody = AgentId(bytes(16))
    event = seal(
        stream(1), 1, Hlc(5, 0), type(payload).__name__, TenantId(bytes(16)), nobody, data, bytes(16), NO_HASH
    )
    return Logged(event, 1, 1, 1)


class _Ring:
    def __init__(self) -> None:
        self.db: apsw.Connection = database.open_writer(":memory:")
        self.fold = IdentityProjection(self.db, MESH)
        self.ring = KeyRing(MESH, lambda: NOW_MS)
        self._count = 0

    def random(self, size: int) -> bytes:
        self._count += 1
        return bytes([self._count]) * size

    def issue(self, **rights: object) -> str:
        text, issued = mint_key(
            self.random,
            **{"tenant": "default", "owner": "ann", "agent": "a", "scopes": ("read",), **rights},  # type: ignore[arg-type]
        )
        self.fold.issue(_logged(issued), issued)
        self.ring.load(self.db)
        return text

    def revoke(self, text: str) -> None:
        payload = KeyRevoked(key_id=parse_key(text).id)
        self.fold.revoke(_logged(payload), payload)
        self.ring.load(self.db)


def _by_key(text: str) -> Request:
    return Request("whoami", {}, NOW_MS + 1_000, KeyCredential(text))


def _signed(
    text: str, args: dict[str, object], nonce: bytes, deadline_ms: int = NOW_MS + 1_000
) -> tuple[Request, bytes]:
    key, data = parse_key(text), encode_args(args)
    bare = Request("store", args, deadline_ms)
    signature = Ed25519PrivateKey.from_private_bytes(key.secret).sign(signed_bytes(bare, data, key.id, nonce))
    return Request("store", args, deadline_ms, SignedCredential(key.id, nonce, signature)), data


def test_a_key_authenticates_whom_it_was_issued_to() -> None:
    ring = _Ring()
    text = ring.issue(agent="cursor", owner="dana", projects={"web": "r"})
    for _ in range(2):  # verified, then remembered
        found = ring.ring.authenticate(_by_key(text), None)
        assert (found.agent, found.owner, found.projects) == ("cursor", "dana", (("web", "r"),))


def test_no_key_an_unknown_key_and_a_wrong_secret_are_refused_alike() -> None:
    ring = _Ring()
    text = ring.issue()
    wrong = text[:-10] + ("a" * 9) + text[-1]
    other, _ = mint_key(lambda size: b"z" * size, tenant="default", owner="x", agent="x", scopes=("read",))
    for request in (_by_key(other), _by_key(wrong), Request("whoami", {}, NOW_MS)):
        with pytest.raises(Unauthenticated):
            ring.ring.authenticate(request, None)


def test_a_revoked_key_fails_on_its_next_call_even_when_it_was_remembered() -> None:
    ring = _Ring()
    text = ring.issue()
    ring.ring.authenticate(_by_key(text), None)
    ring.revoke(text)
    with pytest.raises(Unauthenticated):
        ring.ring.authenticate(_by_key(text), None)


def test_a_signed_request_is_accepted_once() -> None:
    ring = _Ring()
    request, data = _signed(ring.issue(), {"content": "x"}, b"n" * 16)
    assert ring.ring.authenticate(request, data).agent == "a"
    with pytest.raises(Unauthenticated, match="already used"):
        ring.ring.authenticate(request, data)


def test_a_signature_covers_arguments_method_and_deadline() -> None:
    ring = _Ring()
    request, data = _signed(ring.issue(), {"content": "x"}, b"n" * 16)
    changed = [
        (request, encode_args({"content": "y"})),
        (Request("recall", {}, request.deadline_ms, request.credential), data),
        (Request("store", {}, request.deadline_ms + 1, request.credential), data),
        (Request("store", {}, request.deadline_ms, request.credential, b"mark"), data),
    ]
    for forged, args in changed:
        with pytest.raises(Unauthenticated):
            ring.ring.authenticate(forged, args)


def test_a_signed_request_may_not_be_valid_for_long() -> None:
    ring = _Ring()
    request, data = _signed(ring.issue(), {}, b"n" * 16, NOW_MS + SIGNED_LIFETIME_MS + 1)
    with pytest.raises(Unauthenticated, match="5 minutes"):
        ring.ring.authenticate(request, data)


def test_the_local_user_is_operator_and_never_comes_from_a_key() -> None:
    ring = _Ring()
    found = ring.ring.authenticate(Request("whoami", {}, NOW_MS, LocalUser()), None)
    assert found.local
    assert "operator" in found.scopes
    assert not ring.ring.authenticate(_by_key(ring.issue()), None).local


def test_projects_of_a_key_decide_what_it_reads_and_writes() -> None:
    ring = _Ring()
    text = ring.issue(projects={"web": "r", "billing": "rw"}, scopes=("read", "write"))
    found = ring.ring.authenticate(_by_key(text), None)
    found.check_project("billing", write=True)
    found.check_project("web", write=False)
    found.check_project("private", write=True)
    with pytest.raises(Forbidden):
        found.check_project("web", write=True)
    with pytest.raises(NotFound, match="yours are billing, web, private"):
        found.check_project("payroll", write=False)
    with pytest.raises(Forbidden, match="no scope admin"):
        found.require("admin")


def test_an_issued_key_event_holds_no_secret() -> None:
    text, issued = mint_key(
        lambda size: b"q" * size, tenant="default", owner="x", agent="x", scopes=("read",)
    )
    assert isinstance(issued, KeyIssued)
    assert parse_key(text).secret not in encode_payload(issued)
