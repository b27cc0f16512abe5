"""Requests and replies on the wire."""

from __future__ import annotations

from dataclasses import replace

import pytest

from proto.codec import decode, encode
from proto.errors import Internal, Invalid, NotFound, Overloaded, ProtocolError, Uncertain
from proto.messages import (
    KeyCredential,
    LocalUser,
    Reply,
    Request,
    SignedCredential,
    decode_reply,
    decode_request,
    encode_args,
    encode_reply,
    encode_request,
    signed_bytes,
)

REQUEST = Request("recall", {"query": "größer", "k": 3, "tags": ["a"]}, 1_700_000_000_000)
SIGNED = SignedCredential("abcd", b"nonce", b"s" * 64)


def test_a_request_comes_back_with_the_bytes_that_were_signed() -> None:
    request = replace(REQUEST, credential=SIGNED, mark=b"m" * 8, wrote="", default_project="billing")
    decoded, args_bytes = decode_request(encode_request(request))
    assert decoded == replace(request, args={"query": "größer", "k": 3, "tags": ("a",)})
    assert args_bytes == encode_args(request.args)


def test_no_secret_and_no_local_user_is_ever_part_of_a_message() -> None:
    for credential in (KeyCredential("hyp_abcd_secretsecret"), LocalUser()):
        data = encode_request(replace(REQUEST, credential=credential))
        assert b"secret" not in data
        assert decode_request(data)[0].credential is None
    assert "secret" not in repr(KeyCredential("hyp_abcd_secretsecret"))


def test_a_signature_covers_everything_that_can_change_the_effect() -> None:
    def covered(request: Request, key_id: str = "abcd", nonce: bytes = b"n") -> bytes:
        return signed_bytes(request, encode_args(request.args), key_id, nonce)

    variants = [
        covered(REQUEST),
        covered(replace(REQUEST, method="query")),
        covered(replace(REQUEST, args={"query": "other"})),
        covered(replace(REQUEST, deadline_ms=1)),
        covered(replace(REQUEST, mark=b"m")),
        covered(replace(REQUEST, wrote="")),
        covered(replace(REQUEST, wrote="page")),
        covered(replace(REQUEST, default_project="")),
        covered(REQUEST, key_id="abce"),
        covered(REQUEST, nonce=b"o"),
    ]
    assert len(set(variants)) == len(variants)


@pytest.mark.parametrize(
    ("index", "value"),
    [
        (0, 2),
        (0, True),
        (1, b"recall"),
        (2, {"query": "x"}),
        (2, b"\x91\x01"),
        (2, b"\x81\xc4\x01a\x01"),
        (2, b"\xc1"),
        (3, -1),
        (3, 2**63),
        (3, True),
        (3, 1.0),
        (4, "mark"),
        (4, bytes(17)),
        (5, 1),
        (6, b"project"),
        (7, ("abcd", b"n")),
        (7, ("abcd", "n", b"s")),
        (7, "proof"),
    ],
)
def test_a_request_with_a_wrong_field_is_refused(index: int, value: object) -> None:
    fields = list(decode(encode_request(replace(REQUEST, credential=SIGNED))))
    fields[index] = value
    with pytest.raises(ProtocolError):
        decode_request(encode(fields))


def test_a_result_comes_back_and_is_unwrapped() -> None:
    reply = decode_reply(encode_reply(Reply({"node_id": "n", "tags": ["a"]}, page="p")))
    assert reply == Reply({"node_id": "n", "tags": ("a",)}, page="p")
    assert reply.unwrap() == {"node_id": "n", "tags": ("a",)}


@pytest.mark.parametrize(
    "error",
    [
        Invalid("k is 0; it must be 1 to 100."),
        NotFound("no such cell"),
        Overloaded("too many calls", retry_after_ms=250),
        Uncertain("no answer in time"),
        Internal("a defect"),
    ],
)
def test_an_error_comes_back_as_itself(error: Exception) -> None:
    reply = decode_reply(encode_reply(Reply(error=error)))  # type: ignore[arg-type]
    assert type(reply.error) is type(error)
    assert vars(reply.error) == vars(error)
    with pytest.raises(type(error)):
        reply.unwrap()


def test_an_error_of_a_kind_that_this_version_does_not_know_is_internal() -> None:
    data = encode((1, None, ("quota_exceeded", "later", True, 10), None))
    error = decode_reply(data).error
    assert type(error) is Internal
    assert (error.message, error.definite, error.retry_after_ms) == ("later", True, 10)


@pytest.mark.parametrize(
    "fields",
    [
        (2, {}, None, None),
        (1, None, None, None),
        (1, {b"name": 1}, None, None),
        (1, {}, None, 7),
        (1, None, ("invalid", "text", True), None),
        (1, None, ("invalid", "text", 1, None), None),
        (1, None, ("invalid", "text", True, True), None),
        (1, None, (1, "text", True, None), None),
        (1, {}, None),
        7,
    ],
)
def test_a_malformed_reply_is_refused(fields: object) -> None:
    with pytest.raises(ProtocolError):
        decode_reply(encode(fields))
