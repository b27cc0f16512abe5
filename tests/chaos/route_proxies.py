"""Proxies between the NATS servers of a cluster of processes, one for each pair: what cuts a bridge.

Of each pair the earlier server dials, through the pair's proxy; nobody is told an address by which a proxy could be
gone around.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from deploy.mesh_files import ROUTE_USER, Server
from mesh.nats_address import format_nats_url
from tests.support.tcp_proxy import TcpProxy

NOWHERE = "127.0.0.1:9"


class RouteProxies:
    """Not started yet; see `TcpProxy`.

    Args:
        servers: of the cluster; a pair is named by their names, in either order.
    """

    def __init__(self, servers: Sequence[Server]) -> None:
        self._servers = servers
        self._of = {
            frozenset((one.name, other.name)): TcpProxy(other.route_port)
            for one, other in itertools.combinations(servers, 2)
        }

    def __iter__(self) -> Iterator[TcpProxy]:
        return iter(self._of.values())

    def between(self, one: str, other: str) -> TcpProxy:
        return self._of[frozenset((one, other))]

    def keep_to(self, number: int, config: Path) -> None:
        """Have a server dial the later ones through the proxies, and tell nobody of the others, or of itself."""
        settings = json.loads(config.read_text())
        cluster = settings["cluster"]
        password = cluster["authorization"]["password"]
        me = self._servers[number - 1]
        cluster["no_advertise"] = True  # clients would go around their own proxies
        cluster["advertise"] = NOWHERE
        cluster["routes"] = [
            format_nats_url("127.0.0.1", self.between(me.name, other.name).port, ROUTE_USER, password)
            for other in self._servers[number:]
        ]
        config.write_text(json.dumps(settings))
