"""Round trips of everything that is encoded, and arbitrary bytes, which raise `ProtocolError` at most."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from mesh.digests import (
    Ack,
    Digest,
    Live,
    PullReply,
    PullRequest,
    Sender,
    Vitals,
    decode_ack,
    decode_digest,
    decode_live,
    decode_pull,
    encode_ack,
    encode_digest,
    encode_live,
    encode_pull,
)
from mesh.ports import Head, Segment
from proto.clock import Hlc
from proto.codec import decode, encode
from proto.errors import ProtocolError
from proto.events import NO_HASH, PARTITION_MAX, SEQUENCE_MAX, parse_header, restore, seal
from proto.ids import AgentId, PeerId, TenantId
from proto.messages import (
    Reply,
    Request,
    SignedCredential,
    decode_reply,
    decode_request,
    encode_reply,
    encode_request,
)
from proto.payloads import (
    MODELS,
    CellStored,
    EpochOpened,
    Vector,
    decode_payload,
    encode_payload,
    pack_frontier,
    unpack_frontier,
)
from proto.streams import Position, StreamId
from tests.support.laws import LAW, RUBBISH

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
scalars = st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.binary(max_size=9) | texts
floats = st.floats(allow_nan=False)
values = st.recursive(
    scalars | floats, lambda v: st.lists(v, max_size=4) | st.dictionaries(texts, v, max_size=4), max_leaves=20
)

ids = st.binary(min_size=16, max_size=16)
hashes = st.binary(min_size=32, max_size=32)
boots = st.binary(min_size=8, max_size=8)
wholes = st.integers(0, SEQUENCE_MAX)
peers = ids.map(PeerId)
streams = st.builds(StreamId, peers, st.integers(0, PARTITION_MAX), wholes, boots)
senders = st.builds(Sender, peers, boots)
heads = st.dictionaries(streams, st.builds(Head, st.integers(1, SEQUENCE_MAX), hashes), max_size=4)
bodies = st.tuples(st.binary(min_size=16, max_size=16), st.binary(max_size=30)) | st.just((None, None))
wire_events = st.tuples(st.binary(min_size=1, max_size=30), bodies).map(lambda e: (e[0], *e[1]))
segments = st.builds(
    Segment, streams, st.integers(1, 2**50), hashes, st.lists(wire_events, min_size=1, max_size=4).map(tuple)
)
many_segments = st.lists(segments, max_size=3).map(tuple)
vitals = st.builds(
    Vitals, wholes, st.lists(texts, max_size=3).map(tuple), texts, texts, wholes, wholes, st.booleans()
)
digests = st.builds(
    Digest,
    senders,
    st.integers(1, SEQUENCE_MAX),
    vitals,
    st.dictionaries(peers, ids, max_size=4),
    st.dictionaries(senders, wholes, max_size=4),
)
positions = heads.map(lambda all_heads: {s.peer: {s: h} for s, h in all_heads.items()})
requests = st.builds(PullRequest, boots, senders, boots, positions)
replies = st.builds(PullReply, boots, many_segments, heads, st.booleans(), st.booleans())


def plain(value: Any) -> Any:
    """Return a value as it comes back: arrays as tuples."""
    if isinstance(value, (list, tuple)):
        return tuple(map(plain, value))
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    return value


@LAW
@given(values)
def test_plain_values_come_back(value: Any) -> None:
    data = encode(value)
    assert decode(data) == plain(value)
    assert encode(decode(data)) == data


@LAW
@given(digests)
def test_digests_come_back(digest: Digest) -> None:
    assert decode_digest(encode_digest(digest)) == digest


@LAW
@given(st.builds(Live, senders, many_segments))
def test_live_messages_come_back(live: Live) -> None:
    assert decode_live(encode_live(live)) == live


@LAW
@given(requests | replies)
def test_pulls_come_back(message: PullRequest | PullReply) -> None:
    data = encode_pull(message)
    assert decode_pull(data) == message
    assert encode_pull(decode_pull(data)) == data


@LAW
@given(
    st.builds(
        Request,
        texts,
        st.dictionaries(texts, values.map(plain), max_size=4),
        st.integers(0, 2**63 - 1),
        st.none() | st.builds(SignedCredential, texts, boots, hashes),
        boots,
        st.none() | texts,
        st.none() | texts,
    )
)
def test_requests_come_back(request: Request) -> None:
    decoded, _ = decode_request(encode_request(request))
    assert decoded == request


@LAW
@given(st.dictionaries(texts, values.map(plain), max_size=4), st.none() | texts)
def test_results_come_back(result: dict[str, Any], page: str | None) -> None:
    assert decode_reply(encode_reply(Reply(result, page=page))) == Reply(result, page=page)


@LAW
@given(
    streams,
    st.integers(1, SEQUENCE_MAX),
    st.builds(Hlc, wholes, wholes),
    st.sampled_from(sorted(MODELS)),
    ids,
    ids,
    st.binary(max_size=50),
    ids,
    hashes,
)
def test_events_come_back_and_any_change_of_a_byte_is_seen(
    stream: StreamId,
    sequence: int,
    hlc: Hlc,
    kind: str,
    tenant: bytes,
    actor: bytes,
    payload: bytes,
    salt: bytes,
    previous: bytes,
) -> None:
    event = seal(stream, sequence, hlc, kind, TenantId(tenant), AgentId(actor), payload, salt, previous)
    assert restore(event.header_bytes, salt, payload, previous) == event
    assert restore(event.header_bytes, None, None, previous).hash == event.hash
    with pytest.raises(ProtocolError):
        restore(event.header_bytes, salt, payload + b"\0", previous)
    changed = bytes([event.header_bytes[-1] ^ 1])
    try:
        other = restore(event.header_bytes[:-1] + changed, None, None, previous)
    except ProtocolError:
        return
    assert other.hash != event.hash


@LAW
@given(
    st.builds(
        CellStored,
        cell=ids,
        content=texts.filter(bool),
        cell_type=st.sampled_from(["Decision", "Fact"]),
        salience=st.integers(0, 10_000),
        project=texts.filter(bool),
        owner=texts.filter(bool),
        agent=texts.filter(bool),
        tags=st.lists(texts.filter(bool), max_size=3).map(tuple),
        supersedes=st.none() | ids,
        vector=st.none()
        | st.builds(Vector, space=texts.filter(bool), values=hashes, norm=st.integers(0, 2**30)),
    )
    | st.builds(EpochOpened, version=texts, previous_hash=hashes)
)
def test_payloads_come_back(payload: CellStored | EpochOpened) -> None:
    assert decode_payload(type(payload).__name__, encode_payload(payload)) == payload


@LAW
@given(st.lists(st.builds(Position, streams, wholes), max_size=5).map(tuple))
def test_frontiers_come_back(frontier: tuple[Position, ...]) -> None:
    assert unpack_frontier(pack_frontier(frontier)) == frontier


DECODERS: dict[str, Callable[[bytes], object]] = {
    "codec": decode,
    "header": parse_header,
    "event": lambda data: restore(data, bytes(16), b"", NO_HASH),
    "request": decode_request,
    "reply": decode_reply,
    "digest": decode_digest,
    "live": decode_live,
    "ack": decode_ack,
    "pull": decode_pull,
    **{f"payload {kind}": lambda data, kind=kind: decode_payload(kind, data) for kind in MODELS},  # type: ignore[misc]
}


def only_protocol_errors(decoder: Callable[[bytes], object], data: bytes) -> None:
    try:
        decoder(data)
    except ProtocolError:
        return


@RUBBISH
@given(st.binary(max_size=80))
def test_arbitrary_bytes_raise_only_the_protocol_error(data: bytes) -> None:
    for decoder in DECODERS.values():
        only_protocol_errors(decoder, data)


@RUBBISH
@given(values | st.lists(values, min_size=3, max_size=13) | st.dictionaries(texts | st.binary(), values))
def test_arbitrary_values_raise_only_the_protocol_error(value: Any) -> None:
    data = encode(value)
    for decoder in DECODERS.values():
        only_protocol_errors(decoder, data)


SPECIMENS: dict[str, bytes] = {
    "digest": encode_digest(Digest(Sender(PeerId(bytes(16)), bytes(8)), 1, Vitals(1, ("u",)), {}, {})),
    "live": encode_live(
        Live(
            Sender(PeerId(bytes(16)), bytes(8)),
            (Segment(StreamId(PeerId(bytes(16)), 0, 0, bytes(8)), 1, NO_HASH, ((b"h", bytes(16), b"p"),)),),
        )
    ),
    "ack": encode_ack(
        Ack(
            Sender(PeerId(bytes(16)), bytes(8)),
            {StreamId(PeerId(bytes(16)), 0, 0, bytes(8)): Head(1, NO_HASH)},
        )
    ),
    "pull": encode_pull(
        PullReply(bytes(8), (), {StreamId(PeerId(bytes(16)), 0, 0, bytes(8)): Head(1, NO_HASH)})
    ),
    "request": encode_request(Request("recall", {"query": "x"}, 1, SignedCredential("k", b"n", b"s"))),
    "reply": encode_reply(Reply({"a": 1}, page="p")),
    "header": seal(
        StreamId(PeerId(bytes(16)), 0, 0, bytes(8)),
        1,
        Hlc(1, 0),
        "EpochOpened",
        TenantId(bytes(16)),
        AgentId(bytes(16)),
        b"",
        bytes(16),
        NO_HASH,
    ).header_bytes,
}


@pytest.mark.parametrize("name", SPECIMENS)
def test_a_true_message_with_some_bytes_changed_raises_only_the_protocol_error(name: str) -> None:
    data = SPECIMENS[name]

    @RUBBISH
    @given(st.lists(st.tuples(st.integers(0, len(data) - 1), st.integers(0, 255)), max_size=3))
    def check(changes: list[tuple[int, int]]) -> None:
        spoilt = bytearray(data)
        for index, value in changes:
            spoilt[index] = value
        only_protocol_errors(DECODERS[name], bytes(spoilt))

    check()


@LAW
@given(st.binary(max_size=60), st.binary(max_size=60))
def test_two_messages_never_decode_as_one(a: bytes, b: bytes) -> None:
    assume(b)
    try:
        decode(a)
    except ProtocolError:
        return
    with pytest.raises(ProtocolError):
        decode(a + b)
