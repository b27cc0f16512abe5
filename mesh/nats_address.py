"""Addresses and names that both ends of a NATS connection must agree on.  Pure.

A user's *reply prefix* begins every subject on which it may receive answers, and the permissions written by
`nats_server` name the same prefixes as the clients use.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final
from urllib.parse import quote, unquote, urlsplit

from proto.errors import Invalid
from proto.ids import PeerId, format_base32

PEER_REPLIES: Final = "_PEER"
GATEWAY_REPLIES: Final = "_GW"
SCHEMES: Final = ("nats", "tls")
DEFAULT_PORT: Final = 4222


@dataclass(frozen=True, slots=True)
class NatsAddress:
    """A server and how to log in there.

    Args:
        url: scheme, host and port, without credentials: fit for a log line.
        user, password: None where the URL names none; a user without a password is a token.
    """

    url: str
    user: str | None = None
    password: str | None = field(default=None, repr=False)


def parse_nats_url(text: str) -> NatsAddress:
    """Return the parts of `nats://user:password@host:port`.

    Raises:
        Invalid: no such URL.  The message leaves out everything before the host.
    """
    parts = urlsplit(text if "://" in text else f"nats://{text}")
    try:
        port = parts.port or DEFAULT_PORT
    except ValueError:
        port = -1
    if parts.scheme not in SCHEMES or not parts.hostname or port < 0:
        shown = text.rpartition("@")[2][:80]
        raise Invalid(f'The NATS address "{shown}" is none; give it as nats://user:password@host:4222.')
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    user = None if parts.username is None else unquote(parts.username)
    password = None if parts.password is None else unquote(parts.password)
    return NatsAddress(f"{parts.scheme}://{host}:{port}", user, password)


def format_nats_url(host: str, port: int, user: str, password: str) -> str:
    """Return the URL form of an address with credentials."""
    return f"nats://{quote(user, safe='')}:{quote(password, safe='')}@{host}:{port}"


def peer_reply_prefix(peer: PeerId) -> str:
    """Return where answers to a peer go."""
    return f"{PEER_REPLIES}.{format_base32(peer)}"


def gateway_reply_prefix(user: str | None) -> str:
    """Return where answers to gateways go that log in as this user."""
    token = "".join(c if (c.isascii() and c.isalnum()) or c in "-_" else "_" for c in user or "") or "anyone"
    return f"{GATEWAY_REPLIES}.{token}"


def gateway_echo(prefix: str, connection: str) -> str:
    """Return the subject on which a gateway hears itself; `connection` is random text without dots."""
    return f"{prefix}.{connection}.echo"


def is_reply_subject(subject: str) -> bool:
    """Tell whether an answer may be sent there.

    A server checks what its users publish to, not what they name as the reply subject: without this check
    anyone who may ask could make a peer speak on a subject of the mesh.
    """
    return subject.startswith((PEER_REPLIES + ".", GATEWAY_REPLIES + "."))
