"""The configuration file of the embedded NATS server: who may say and hear what.  Pure.

Peers are trusted machines and may use the whole mesh.  Gateways may ask peers and hear who is there, nothing
more; answers to one user's gateways go below a prefix that no other user may listen to.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mesh.nats_address import (
    GATEWAY_REPLIES,
    PEER_REPLIES,
    gateway_echo,
    gateway_reply_prefix,
    peer_reply_prefix,
)
from proto.ids import PeerId, format_base32

HOST: Final = "127.0.0.1"
PEER_USER: Final = "peer"
GATEWAY_USER: Final = "gateway"
MAX_PAYLOAD: Final = 1024 * 1024  # twice our own bound: whoever goes over that is not one of us
LOG_BYTES: Final = 10 * 1024 * 1024
LOG_FILES: Final = 3


@dataclass(frozen=True, slots=True)
class ServerState:
    """What stays the same across restarts; secret.

    Args:
        name: random, so that a server that answers can be known as this one.
        port: on 127.0.0.1.
        passwords: by user: `peer`, and one or more gateways.
    """

    name: str
    port: int
    passwords: Mapping[str, str]


def render_config(state: ServerState, pid_file: Path, log_file: Path) -> str:
    """Return the text of the configuration file."""
    users = [
        {"user": user, "password": password, "permissions": permissions_of(user)}
        for user, password in state.passwords.items()
    ]
    settings = {
        "listen": f"{HOST}:{state.port}",
        "server_name": state.name,
        "max_payload": MAX_PAYLOAD,
        "ping_interval": "10s",
        "ping_max": 2,
        "pid_file": str(pid_file),
        "log_file": str(log_file),
        "logfile_size_limit": LOG_BYTES,
        "logfile_max_num": LOG_FILES,
        "authorization": {"users": users},
    }
    return json.dumps(settings, indent=1, ensure_ascii=False) + "\n"  # a superset of JSON without its \u


def permissions_of(user: str) -> dict[str, object]:
    """Return what the user shared by all peers may do, or one of gateways."""
    if user == PEER_USER:
        return {
            "publish": {"allow": ["hyphae.>", f"{PEER_REPLIES}.>", f"{GATEWAY_REPLIES}.>"]},
            "subscribe": {"allow": ["hyphae.>", f"{PEER_REPLIES}.>"]},
        }
    prefix = gateway_reply_prefix(user)
    return {
        "publish": {"allow": ["hyphae.*.rpc.*", gateway_echo(prefix, "*")]},
        "subscribe": {"allow": ["hyphae.*.dg.*", f"{prefix}.>"]},
    }


def permissions_of_peer(peer: PeerId) -> dict[str, object]:
    """Return what the user of this one peer may do: speak of itself under its own id only, and hear its own answers.

    For servers that peers on several machines share.  It may ask and answer everybody; what it relays of others
    comes as an answer to a pull, under the hash chain.
    """
    me = format_base32(peer)
    own = [f"hyphae.*.ev.*.{me}", f"hyphae.*.dg.{me}", f"hyphae.*.echo.{me}.*"]
    asking = ["hyphae.*.pull.*", "hyphae.*.rpc.*", "hyphae.*.ack.*"]
    heard = ["hyphae.*.ev.*.*", "hyphae.*.dg.*"]
    asked = [f"hyphae.*.pull.{me}", f"hyphae.*.rpc.{me}", f"hyphae.*.ack.{me}"]
    return {
        "publish": {"allow": [*own, *asking, f"{PEER_REPLIES}.>", f"{GATEWAY_REPLIES}.>"]},
        "subscribe": {"allow": [*heard, *asked, f"hyphae.*.echo.{me}.*", f"{peer_reply_prefix(peer)}.>"]},
    }
