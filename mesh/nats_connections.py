"""How peers and gateways connect to NATS: which prefix and which echo subject belong to whom.

Light to import: the NATS client is loaded on the first connection.
"""

from __future__ import annotations

import secrets

from mesh.key_signer import Signer
from mesh.nats_address import gateway_echo, gateway_reply_prefix, parse_nats_url, peer_reply_prefix
from mesh.nats_transport import NatsOptions, NatsTransport, Urls
from mesh.requester_nats import NatsRequester
from proto.ids import MeshId, PeerId, format_base32
from proto.subjects import Subjects


def peer_transport(
    urls: Urls, mesh: MeshId, peer: PeerId, use: str, options: NatsOptions | None = None
) -> NatsTransport:
    """Return one connection of a peer, not started.

    Args:
        urls: with credentials, or a function that reads them anew before each attempt.
        use: what it carries, such as "live", "rpc" or "bulk": one token of a subject.
    """
    return NatsTransport(
        urls,
        inbox_prefix=peer_reply_prefix(peer),
        echo_subject=Subjects(mesh).echo(peer, use),
        name=f"peer {format_base32(peer)[:8]} {use}",
        options=options,
    )


def gateway_requester(
    url: str,
    key: str | Signer | None,
    *,
    mesh: MeshId | None = None,
    options: NatsOptions | None = None,
) -> NatsRequester:
    """Return the requester of a gateway that was given `HYPHAE_NATS_URL`; it connects with its first call.

    Raises:
        Invalid: the URL is none.
        Unauthenticated: the key is none.
    """
    prefix = gateway_reply_prefix(parse_nats_url(url).user)
    echo = gateway_echo(prefix, secrets.token_hex(8))
    transport = NatsTransport(url, inbox_prefix=prefix, echo_subject=echo, name="gateway", options=options)
    return NatsRequester(transport, key, mesh=mesh)
