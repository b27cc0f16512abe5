"""Write golden vectors that do not exist yet: `python -m tests.golden.generate`.

A vector that exists is never written again: it is what peers of that version say to each other, and every
later version must read it and write it alike.  A new format gets a new file here.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mesh.digests import (
    Ack,
    Digest,
    Live,
    PullReply,
    PullRequest,
    Sender,
    Vitals,
    encode_ack,
    encode_digest,
    encode_live,
    encode_pull,
)
from mesh.ports import Head, Segment
from mesh.segments import segment_of
from proto import payloads as p
from proto.clock import Hlc
from proto.errors import Invalid, Overloaded, Uncertain
from proto.events import NO_HASH, Event, seal
from proto.ids import (
    NO_TENANT,
    AgentId,
    MeshId,
    PeerId,
    TenantId,
    agent_id,
    cell_id,
    diff_id,
    format_base32,
    format_uuid,
    tenant_id,
)
from proto.messages import (
    Reply,
    Request,
    SignedCredential,
    encode_args,
    encode_reply,
    encode_request,
    signed_bytes,
)
from proto.streams import StreamId, digest_by_peer
from proto.subjects import Subjects
from tests.golden.plain import plain

FOLDER = Path(__file__).parent / "wire"


def octets(start: int, count: int = 16) -> bytes:
    return bytes((start + n) % 256 for n in range(count))


MESH, PEER, OTHER = MeshId(octets(1)), PeerId(octets(32)), PeerId(octets(64))
STREAM = StreamId(PEER, 0, 3, octets(96, 8))
EARLIER = StreamId(PEER, 0, 2, octets(104, 8))
TENANT, AGENT = TenantId(octets(112)), AgentId(octets(128))
SENDER, ASKED = Sender(PEER, octets(160, 8)), Sender(OTHER, octets(168, 8))
FRONTIER = ((PEER, 0, 3, STREAM.random, 17), (OTHER, 0, 0, octets(200, 8), 4))
VECTOR = p.Vector(space="all-MiniLM-L6-v2/int8/384", values=octets(0, 48), norm=123_456)

PAYLOADS: tuple[p.Payload, ...] = (
    p.EpochOpened(),
    p.EpochOpened(previous=(*EARLIER, 41), previous_hash=octets(7, 32), version="0.1.0"),
    p.PeerJoined(
        peer=PEER,
        public_key=octets(5, 32),
        name="laptop",
        inviter=OTHER,
        signature=octets(9, 64),
        inviter_signature=octets(11, 64),
    ),
    p.PeerRetired(peer=OTHER, frontier=FRONTIER, why="disk lost"),
    p.KeyIssued(
        key_id="abcd2345",
        public_key=octets(13, 32),
        tenant="default",
        owner="ana",
        agent="editor",
        scopes=("read", "write"),
        projects=(("billing", "rw"), ("web", "r")),
        default_project="billing",
    ),
    p.KeyRevoked(key_id="abcd2345"),
    p.CellStored(
        cell=octets(20),
        content="Größe zählt nicht: 蕈 🍄",
        cell_type="Decision",
        salience=5_000,
        project="billing",
        owner="ana",
        agent="editor",
    ),
    p.CellStored(
        cell=octets(21),
        content="Invoices are numbered per tenant.",
        cell_type="Constraint",
        salience=9_000,
        project="billing",
        owner="ana",
        agent="editor",
        layer=1,
        session=octets(22),
        tags=("billing", "numbers"),
        supersedes=octets(20),
        derived_from=(octets(23), octets(24)),
        vector=VECTOR,
        embedded_chars=33,
        match_bonus=120,
        request_digest=octets(25, 32),
    ),
    p.BeaconPlaced(
        beacon=octets(30),
        interest="invoice numbering",
        vector=VECTOR,
        threshold=6_200,
        agent="editor",
        owner="ana",
        project="billing",
        readable=("billing", "web"),
        cell_types=("Decision",),
        layers=(0, 1),
        min_salience=100,
        include_own=True,
        strict=True,
        ttl_s=2_592_000,
        expires_ms=1_702_592_000_000,
        frontier=FRONTIER,
    ),
    p.BeaconWithdrawn(beacon=octets(30), frontier=FRONTIER),
    p.BeaconsRenewed(beacons=(octets(30), octets(31)), expires_ms=1_705_184_000_000),
    p.SessionOpened(
        session=octets(40), agent="editor", owner="ana", project="billing", title="VAT", frontier=FRONTIER
    ),
    p.SessionClosed(session=octets(40), commits=(octets(41),)),
    p.PageListed(
        page=octets(42),
        session=octets(40),
        mark=octets(43, 8),
        refs=(octets(44), octets(45)),
        commits=(octets(41),),
    ),
    p.SceneConsolidated(run=octets(50), project="billing", retired=(octets(51),)),
    p.SceneConsolidated(
        run=octets(50),
        project=p.PRIVATE,
        owner="ana",
        part=2,
        parts=3,
        scenes=(
            p.Scene(
                scene=octets(52),
                title="Invoices are numbered per tenant",
                medoid=octets(21),
                summary=octets(53),
                from_ms=1_700_000_000_000,
                to_ms=1_700_000_060_000,
                members=(octets(20), octets(21), octets(54)),
            ),
        ),
    ),
)


def chain() -> list[Event]:
    out: list[Event] = []
    for payload in (PAYLOADS[1], PAYLOADS[6], PAYLOADS[7]):
        sequence, previous = len(out) + 1, out[-1].hash if out else NO_HASH
        salt = octets(50 + sequence)
        kind, data = type(payload).__name__, p.encode_payload(payload)
        hlc = Hlc(1_700_000_000_000 + sequence, sequence)
        out.append(seal(STREAM, sequence, hlc, kind, TENANT, AGENT, data, salt, previous))
    late = Hlc(1_700_000_000_500, 0)
    unknown = ("LateKind", NO_TENANT, AgentId(bytes(16)), b"\x81\xa1a\x01", octets(60))
    out.append(seal(STREAM, 4, late, *unknown, out[-1].hash))
    return out


def case(name: str, data: bytes, value: Any) -> dict[str, Any]:
    return {"name": name, "hex": data.hex(), "value": plain(value)}


def event_cases() -> list[dict[str, Any]]:
    previous, out = NO_HASH, []
    for event in chain():
        out.append(
            {
                "header": event.header_bytes.hex(),
                "fields": plain(tuple(event.header)),
                "salt": (event.salt or b"").hex(),
                "payload": (event.payload or b"").hex(),
                "previous": previous.hex(),
                "hash": event.hash.hex(),
            }
        )
        previous = event.hash
    return out


def payload_cases() -> list[dict[str, Any]]:
    return [
        case(type(payload).__name__, p.encode_payload(payload), payload.model_dump(exclude_defaults=True))
        for payload in PAYLOADS
    ]


def request_cases() -> list[dict[str, Any]]:
    bare = Request("recall", {"query": "größer", "k": 3}, 1_700_000_000_000)
    args = {"limit": 20, "tags": ("a",), "advance": True, "since": None, "share": 0.5}
    proof = SignedCredential("abcd2345", octets(70), octets(71, 64))
    full = Request("drain_inbox", args, 1_700_000_000_001, proof, octets(72, 8), "page", "billing")
    out = []
    for name, request in (("bare", bare), ("signed", full)):
        signed = signed_bytes(request, encode_args(request.args), "abcd2345", octets(70))
        out.append({**case(name, encode_request(request), request), "signed": signed.hex()})
    return out


def reply_cases() -> list[dict[str, Any]]:
    replies = {
        "empty": Reply({}),
        "result": Reply({"node_id": "n", "results": ({"distance": 0.25},)}, page="page"),
        "invalid": Reply(error=Invalid("k is 0; it must be 1 to 100.")),
        "overloaded": Reply(error=Overloaded("Too many calls.", retry_after_ms=250)),
        "uncertain": Reply(error=Uncertain("No answer in time.")),
    }
    return [case(name, encode_reply(reply), reply) for name, reply in replies.items()]


def peer_cases() -> list[dict[str, Any]]:
    events = chain()
    erased = Segment(STREAM, 4, events[2].hash, ((events[3].header_bytes, None, None),))
    head = Head(4, events[3].hash)
    vitals = Vitals(1_700_000_000_000, ("http://127.0.0.1:4974",), VECTOR.space, "0.1.0", 40, 3, False)
    states = digest_by_peer([(STREAM, head.sequence, head.hash)])
    positions = {PEER: {EARLIER: Head(41, octets(7, 32)), STREAM: Head(2, events[1].hash)}, OTHER: {}}
    request = PullRequest(octets(80, 8), SENDER, ASKED.boot, positions)
    full = PullReply(octets(80, 8), (segment_of(events[2:], events[1].hash),), {STREAM: head}, more=True)
    digest = Digest(SENDER, 7, vitals, states, {ASKED: 99})
    live = Live(SENDER, (segment_of(events[:3], NO_HASH), erased))
    busy = PullReply(octets(80, 8), (), {}, busy=True)
    return [
        case("digest", encode_digest(digest), digest),
        case("live", encode_live(live), live),
        case("pull", encode_pull(request), request),
        case("reply", encode_pull(full), full),
        case("busy", encode_pull(busy), busy),
    ]


def ack_cases() -> list[dict[str, Any]]:
    ack = Ack(ASKED, {STREAM: Head(4, chain()[3].hash), EARLIER: Head(41, octets(7, 32))})
    return [case("ack", encode_ack(ack), ack)]


def derived_cases() -> list[dict[str, Any]]:
    tenant = tenant_id(MESH, "default")
    agent = agent_id(tenant, "editor")
    subjects = Subjects(MESH)
    heads = [(STREAM, 4, octets(90, 32)), (EARLIER, 41, octets(91, 32))]
    texts = {
        "tenant": tenant.hex(),
        "agent": agent.hex(),
        "cell": cell_id(MESH, tenant, agent, "key-1").hex(),
        "diff": diff_id("created", octets(20)).hex(),
        "base32": format_base32(PEER),
        "uuid": format_uuid(PEER),
        "state": digest_by_peer(heads)[PEER].hex(),
        "live": subjects.live(0, PEER),
        "digest": subjects.digest(PEER),
        "pull": subjects.pull(PEER),
        "requests": subjects.requests(PEER),
        "acks": subjects.acks(PEER),
    }
    return [{"name": name, "text": text} for name, text in texts.items()]


FILES: dict[str, Callable[[], list[dict[str, Any]]]] = {
    "events": event_cases,
    "payloads": payload_cases,
    "requests": request_cases,
    "replies": reply_cases,
    "between_peers": peer_cases,
    "acks": ack_cases,
    "derived": derived_cases,
}


def main() -> int:
    """Write what is missing; return 1 if nothing was, for then somebody meant to overwrite."""
    FOLDER.mkdir(exist_ok=True)
    written = 0
    for name, cases in FILES.items():
        path = FOLDER / f"{name}.json"
        if path.exists():
            print(f"{path.name} exists and is kept", file=sys.stderr)
            continue
        path.write_text(json.dumps(cases(), ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
        print(f"{path.name} written", file=sys.stderr)
        written += 1
    return 0 if written else 1


if __name__ == "__main__":
    sys.exit(main())
