"""Is this container well?  Exit code 0 or 1, for the engine's health check: `health_check.py /data` or `... nats`.

A peer is asked for /healthz through the socket in its data directory, so that neither TLS nor the port matters; a
NATS server through its monitoring port, which only this container reaches.  Standard library only: it runs every
few seconds.
"""

from __future__ import annotations

import http.client
import socket
import sys
from pathlib import Path

TIMEOUT_S = 4.0
NATS_MONITOR = ("127.0.0.1", 8222)


def answers(address: str | tuple[str, int]) -> bool:
    """Return whether GET /healthz is answered with 200 there.

    Args:
        address: path of a Unix socket, or host and port.
    """
    connection = http.client.HTTPConnection("localhost", timeout=TIMEOUT_S)
    family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as peer:
            peer.settimeout(TIMEOUT_S)
            peer.connect(address)
            connection.sock = peer
            connection.request("GET", "/healthz")
            return connection.getresponse().status == http.client.OK
    except (OSError, http.client.HTTPException):
        return False


def main(of: str) -> int:
    """Return the exit code of the check of `nats`, or of the peer with this data directory."""
    return 0 if answers(NATS_MONITOR if of == "nats" else str(Path(of) / "peer.sock")) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
