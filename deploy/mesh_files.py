"""What the NATS servers of a mesh on several machines are told: a cluster, and a user for each peer.  Pure.

The server of `hyphae up` knows one user for all peers, which are processes of one machine.  Here each peer logs in
as itself, so that the servers refuse what it says in another's name.  What each may do is `mesh.nats_config`'s.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from mesh.nats_address import format_nats_url
from mesh.nats_config import MAX_PAYLOAD, permissions_of, permissions_of_peer
from proto.ids import PeerId

CLUSTER: Final = "hyphae"
ROUTE_USER: Final = "route"


@dataclass(frozen=True, slots=True)
class Server:
    """One NATS server.

    Args:
        name: unique in the cluster.
        host: by which the other servers reach it.
        listens_on: address of its client and route ports.
        monitor_port: on 127.0.0.1 only; it needs no password.
    """

    name: str
    host: str
    listens_on: str = "0.0.0.0"  # noqa: S104 - a container's own network, or a port that a test has chosen
    client_port: int = 4222
    route_port: int = 6222
    monitor_port: int = 8222


@dataclass(frozen=True, slots=True)
class Passwords:
    """All that is secret about a cluster.

    Args:
        users: by name: each peer and each gateway.
        route: with which servers know one another.
    """

    users: Mapping[str, str] = field(repr=False)
    route: str = field(repr=False)


def render_server(
    server: Server, cluster: Sequence[Server], peers: Mapping[str, PeerId], passwords: Passwords
) -> str:
    """Return the configuration file of one server.

    Args:
        cluster: all servers, this one too.
        peers: by the name of their user; every other user is a gateway.
    """
    users = [
        {
            "user": user,
            "password": password,
            "permissions": permissions_of_peer(peers[user]) if user in peers else permissions_of(user),
        }
        for user, password in sorted(passwords.users.items())
    ]
    routes = [
        format_nats_url(other.host, other.route_port, ROUTE_USER, passwords.route)
        for other in cluster
        if other != server
    ]
    settings = {
        "server_name": server.name,
        "listen": f"{server.listens_on}:{server.client_port}",
        "http": f"127.0.0.1:{server.monitor_port}",
        "max_payload": MAX_PAYLOAD,
        "ping_interval": "5s",  # a partition is noticed after three of them
        "ping_max": 2,
        "authorization": {"users": users},
        "cluster": {
            "name": CLUSTER,
            "listen": f"{server.listens_on}:{server.route_port}",
            "authorization": {"user": ROUTE_USER, "password": passwords.route},
            "routes": routes,
            "ping_interval": "5s",
        },
    }
    return json.dumps(settings, indent=1, ensure_ascii=False) + "\n"  # a superset of JSON without its \u


def read_passwords(rendered: str) -> Passwords:
    """Return the passwords in a file that `render_server` made.

    Raises:
        ValueError, KeyError, TypeError: it is none.
    """
    settings: Any = json.loads(rendered)
    users = {str(u["user"]): str(u["password"]) for u in settings["authorization"]["users"]}
    return Passwords(users, str(settings["cluster"]["authorization"]["password"]))
