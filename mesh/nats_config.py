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

from mesh.nats_address import GATEWAY_REPLIES, PEER_REPLIES, gateway_echo, gateway_reply_prefix

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
        {"user": user, "password": password, "permissions": _permissions(user)}
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


def _permissions(user: str) -> dict[str, object]:
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
