"""Which hosts and origins may speak to this server: the guard against DNS rebinding.

Pure.  A web page can make a browser send requests to loopback, but not forge Host or Origin.  Loopback names
are always allowed; others only by configuration.  Hosts are compared as parsed, never by prefix.
Source: MCP specification, transports, Streamable HTTP, security warning.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

ANY = "*"

_AUTHORITY = re.compile(r"(?:\[([0-9a-f:.]{2,45})\]|([a-z0-9._-]{1,253}))(?::([0-9]{1,5}))?", re.IGNORECASE)
_ORIGIN = re.compile(r"(https?)://([^/?#@\s]+)", re.IGNORECASE)
_LOOPBACK_V4 = re.compile(r"127(?:\.[0-9]{1,3}){3}")
_PORTS = {"http": "80", "https": "443"}


@dataclass(frozen=True, slots=True)
class Guard:
    """The hosts and origins that are allowed beside loopback.

    Args:
        hosts: names in lower case, with a port (only that one) or without (any); "*" allows every host.
        origins: as browsers send them, with scheme and port.
        checks_host: false on a Unix socket, which no browser reaches and no name leads to.
    """

    hosts: frozenset[str]
    origins: frozenset[tuple[str, str, str]]
    checks_host: bool = True

    def refusal(self, hosts: Sequence[str], origins: Sequence[str]) -> str | None:
        """Return why a request is refused, or None.

        Args:
            hosts: all values of Host.
            origins: all values of Origin; none at all is fine.
        """
        if self.checks_host and not (len(hosts) == 1 and self._is_host(hosts[0])):
            return "this Host is not allowed here; use 127.0.0.1 or localhost, or configure the name."
        if origins and not (len(origins) == 1 and self._is_origin(origins[0])):
            return "this Origin is not allowed here; configure it to allow pages from there."
        return None

    def _is_host(self, text: str) -> bool:
        found = _split(text)
        if found is None:
            return False
        name, port = found
        return _is_loopback(name) or not self.hosts.isdisjoint({ANY, name, f"{name}:{port}"})

    def _is_origin(self, text: str) -> bool:
        origin = _parse_origin(text)
        return origin is not None and (_is_loopback(origin[1]) or origin in self.origins)


def build_guard(hosts: Iterable[str], origins: Iterable[str], *, checks_host: bool = True) -> Guard:
    """Return the guard of a configuration.

    Args:
        hosts: such as `mesh.example` or `mesh.example:8443`, or `*`.
        origins: such as `https://app.example`.
        checks_host: whether Host counts.

    Raises:
        ValueError: an entry is no host or origin.
    """
    names = [host.strip().lower() for host in hosts]
    for name in names:
        if name != ANY and _split(name) is None:
            raise ValueError(f"{name!r} is no host; give a name, with a port if only that one is meant")
    parsed = []
    for text in origins:
        origin = _parse_origin(text.strip())
        if origin is None:
            raise ValueError(f"{text!r} is no origin; give one such as https://app.example")
        parsed.append(origin)
    return Guard(frozenset(names), frozenset(parsed), checks_host)


def _split(text: str) -> tuple[str, str] | None:
    """Return name and port ("" for none) of an authority, or None."""
    found = _AUTHORITY.fullmatch(text.strip())
    if found is None:
        return None
    return (found[1] or found[2]).lower().rstrip("."), found[3] or ""


def _parse_origin(text: str) -> tuple[str, str, str] | None:
    """Return scheme, name and port of an origin, or None, also for "null"."""
    found = _ORIGIN.fullmatch(text)
    authority = _split(found[2]) if found else None
    if found is None or authority is None:
        return None
    scheme = found[1].lower()
    return scheme, authority[0], authority[1] or _PORTS[scheme]


def _is_loopback(name: str) -> bool:
    return name in {"localhost", "::1"} or _LOOPBACK_V4.fullmatch(name) is not None
