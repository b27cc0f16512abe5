"""What the operating system knows of other processes: who listens on a port, when the machine started.

The only module that imports psutil.
"""

from __future__ import annotations

import socket

import psutil


def boot_time_s() -> int:
    """Return when the machine started, in seconds since 1970."""
    return int(psutil.boot_time())


def port_is_free(host: str, port: int) -> bool:
    """Return whether this process could listen on the port now."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            s.bind((host, port))
        except OSError:
            return False
    return True


def free_ports(host: str, count: int) -> list[int]:
    """Return `count` different ports that are free now."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    held = [socket.socket(family, socket.SOCK_STREAM) for _ in range(count)]
    try:
        for s in held:
            s.bind((host, 0))
        return [int(s.getsockname()[1]) for s in held]
    finally:
        for s in held:
            s.close()


def port_holder(port: int) -> str:
    """Return who listens on a TCP port, as far as this user may know: "process 4711 (python3)"."""
    try:
        connections = psutil.net_connections(kind="tcp")
    except psutil.Error:  # macOS lets only root see the connections of others
        connections = []
    for c in connections:
        if c.status == psutil.CONN_LISTEN and c.laddr and c.laddr.port == port and c.pid:
            return f"process {c.pid} ({_name(c.pid)})"
    return "another process, which the system does not name to this user"


def _name(pid: int) -> str:
    try:
        return str(psutil.Process(pid).name())
    except psutil.Error:
        return "name unknown"
