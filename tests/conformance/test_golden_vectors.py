"""Golden vectors: what was once written is read, and written again alike, for ever."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mesh.digests import (
    decode_ack,
    decode_digest,
    decode_live,
    decode_pull,
    encode_ack,
    encode_digest,
    encode_live,
    encode_pull,
)
from mesh.segments import restore_events
from proto.codec import encode
from proto.events import NO_HASH, parse_header, restore
from proto.ids import (
    MeshId,
    PeerId,
    agent_id,
    cell_id,
    diff_id,
    format_base32,
    format_uuid,
    parse_base32,
    parse_uuid,
    tenant_id,
)
from proto.messages import decode_reply, decode_request, encode_reply, encode_request, signed_bytes
from proto.payloads import MODELS, decode_payload, encode_payload
from proto.streams import StreamId, digest_by_peer
from proto.subjects import Subjects
from tests.golden import generate
from tests.golden.plain import plain

WIRE = Path(generate.__file__).parent / "wire"


def cases(name: str) -> list[dict[str, Any]]:
    loaded: list[dict[str, Any]] = json.loads((WIRE / f"{name}.json").read_text(encoding="utf-8"))
    return loaded


@pytest.mark.parametrize("case", cases("events"), ids=lambda case: case["fields"][8])
def test_an_event_is_read_and_hashed_as_ever(case: dict[str, Any]) -> None:
    header, salt, payload, previous = (
        bytes.fromhex(case[k]) for k in ("header", "salt", "payload", "previous")
    )
    event = restore(header, salt, payload, previous)
    assert plain(tuple(parse_header(header))) == case["fields"]
    assert encode(event.header) == header
    assert event.hash.hex() == case["hash"]
    assert restore(header, None, None, previous).hash == event.hash


def test_the_events_are_one_chain_from_the_first() -> None:
    hashes = [NO_HASH.hex(), *(case["hash"] for case in cases("events"))]
    assert [case["previous"] for case in cases("events")] == hashes[:-1]


@pytest.mark.parametrize("case", cases("payloads"), ids=lambda case: case["name"])
def test_a_payload_is_read_and_written_as_ever(case: dict[str, Any]) -> None:
    payload = decode_payload(case["name"], bytes.fromhex(case["hex"]))
    assert payload is not None
    assert plain(payload.model_dump(exclude_defaults=True)) == case["value"]
    assert encode_payload(payload).hex() == case["hex"]


def test_every_kind_has_a_golden_payload() -> None:
    assert set(MODELS) == {case["name"] for case in cases("payloads")}


@pytest.mark.parametrize("case", cases("requests"), ids=lambda case: case["name"])
def test_a_request_is_read_written_and_signed_as_ever(case: dict[str, Any]) -> None:
    request, args_bytes = decode_request(bytes.fromhex(case["hex"]))
    assert plain(request) == case["value"]
    assert encode_request(request).hex() == case["hex"]
    nonce = bytes(range(70, 86))
    assert signed_bytes(request, args_bytes, "abcd2345", nonce).hex() == case["signed"]


@pytest.mark.parametrize("case", cases("replies"), ids=lambda case: case["name"])
def test_a_reply_is_read_and_written_as_ever(case: dict[str, Any]) -> None:
    reply = decode_reply(bytes.fromhex(case["hex"]))
    assert plain(reply) == case["value"]
    assert encode_reply(reply).hex() == case["hex"]


BETWEEN_PEERS: dict[str, tuple[Callable[[bytes], Any], Callable[[Any], bytes]]] = {
    "digest": (decode_digest, encode_digest),
    "live": (decode_live, encode_live),
    "ack": (decode_ack, encode_ack),
    "pull": (decode_pull, encode_pull),
    "reply": (decode_pull, encode_pull),
    "busy": (decode_pull, encode_pull),
}


@pytest.mark.parametrize("case", cases("between_peers") + cases("acks"), ids=lambda case: case["name"])
def test_a_message_between_peers_is_read_and_written_as_ever(case: dict[str, Any]) -> None:
    decode, encode_again = BETWEEN_PEERS[case["name"]]
    message = decode(bytes.fromhex(case["hex"]))
    assert plain(message) == case["value"]
    assert encode_again(message).hex() == case["hex"]
    for segment in getattr(message, "segments", ()):
        assert len(restore_events(segment)) == len(segment.events)


def test_ids_states_and_subjects_are_derived_as_ever() -> None:
    def octets(start: int, count: int = 16) -> bytes:
        return bytes(range(start, start + count))

    mesh, peer = MeshId(octets(1)), PeerId(octets(32))
    tenant = tenant_id(mesh, "default")
    agent = agent_id(tenant, "editor")
    heads = [
        (StreamId(peer, 0, 2, octets(104, 8)), 41, octets(91, 32)),
        (StreamId(peer, 0, 3, octets(96, 8)), 4, octets(90, 32)),
    ]
    subjects = Subjects(mesh)
    now = {
        "tenant": tenant.hex(),
        "agent": agent.hex(),
        "cell": cell_id(mesh, tenant, agent, "key-1").hex(),
        "diff": diff_id("created", octets(20)).hex(),
        "base32": format_base32(peer),
        "uuid": format_uuid(peer),
        "state": digest_by_peer(heads)[peer].hex(),
        "live": subjects.live(0, peer),
        "digest": subjects.digest(peer),
        "pull": subjects.pull(peer),
        "requests": subjects.requests(peer),
        "acks": subjects.acks(peer),
    }
    assert now == {case["name"]: case["text"] for case in cases("derived")}
    assert parse_base32(now["base32"], "peer") == parse_uuid(now["uuid"], "peer") == peer


def test_the_generator_never_overwrites_a_vector(capsys: pytest.CaptureFixture[str]) -> None:
    before = {path.name: path.read_bytes() for path in WIRE.iterdir()}
    assert generate.main() == 1
    assert {path.name: path.read_bytes() for path in WIRE.iterdir()} == before
    assert capsys.readouterr().err.count("is kept") == len(before)
